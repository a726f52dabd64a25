"""Avro, Protobuf and JSON with a real schema registry, and one that is away."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from sluiceway.errors import ReopenError, SettingsError, UnreachableError
from sluiceway.flows.settings import Settings
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.record_map import RecordMap
from sluiceway.schemas.refusal import Refused
from sluiceway.topics.registry import Registry
from tests.registry.formats import AVRO, PROTO, avro, framed, protobuf
from tests.schemas.polls import poll_of, rows_by_stream
from tests.support.flow import sluiceway, toml
from tests.support.registry import SchemaRegistry

ONE = {"id": "e-1", "ts": 1763251200250, "x": {"f3": -1.25, "shake.x": 0.5, "shake.y": 1.0}, "y": True}
AWAY = "http://127.0.0.1:9"
FLOW: dict[str, dict[str, Any]] = {
    "flow": {"name": "f"},
    "topics": {"instances": "dir:in", "selections": "dir:out", "dead_letters": "dir:dead"},
    "input": {"stop": "end"},
    "operator": {"name": "ofs", "k": 2},
}


@pytest.fixture(scope="module")
def avro_number(registry: SchemaRegistry) -> int:
    return registry.register("visits-value", "AVRO", orjson.dumps(AVRO).decode())


@pytest.fixture(scope="module")
def proto_number(registry: SchemaRegistry) -> int:
    return registry.register("readings-value", "PROTOBUF", PROTO)


@pytest.fixture
def as_json(registry: SchemaRegistry) -> Iterator[Registry]:
    with Registry({"url": registry.url}) as made:
        made.check()
        yield made


def test_avro(as_json: Registry, avro_number: int) -> None:
    read = orjson.loads(as_json.as_json(framed(avro_number, avro(ONE))))
    assert read["visit"] == {"id": "e-1", "at": "2025-11-16T00:00:00.250000+00:00"}
    assert (read["f3"], read["f4"], read["shake"], read["ill"]) == (-1.25, None, {"x": 0.5, "y": 1.0}, True)


def test_protobuf(as_json: Registry, proto_number: int) -> None:
    read = orjson.loads(as_json.as_json(framed(proto_number, protobuf(ONE))))
    assert read == {"id": "e-1", "at": "2025-11-16T00:00:00.250Z", "sensors": ONE["x"], "failed": True}
    unlabelled = orjson.loads(as_json.as_json(framed(proto_number, protobuf({**ONE, "y": None}))))
    assert "failed" not in unlabelled


def test_a_schema_of_avro_that_refers_to_another(as_json: Registry, registry: SchemaRegistry) -> None:
    schema: Any = AVRO
    visit, *others = schema["fields"]
    key = {**visit["type"], "namespace": "example"}
    registry.register("key-value", "AVRO", orjson.dumps(key).decode())
    referring = {**schema, "name": "Referring", "fields": [{**visit, "type": "example.Key"}, *others]}
    number = registry.register(
        "referring-value", "AVRO", orjson.dumps(referring).decode(), **{"example.Key": "key-value"}
    )
    read = orjson.loads(as_json.as_json(framed(number, avro(ONE))))
    assert (read["visit"]["id"], read["f3"]) == ("e-1", -1.25)


def test_a_schema_of_protobuf_that_imports_another(as_json: Registry, registry: SchemaRegistry) -> None:
    common = 'syntax = "proto3";\npackage common;\nmessage Labelled { optional bool failed = 1; }\n'
    registry.register("common-value", "PROTOBUF", common)
    importing = (
        'syntax = "proto3";\npackage importing;\nimport "common.proto";\n'
        "message Reading { string id = 1; common.Labelled result = 2; }\n"
    )
    number = registry.register("importing-value", "PROTOBUF", importing, **{"common.proto": "common-value"})
    value = framed(number, b"\x00" + b"\x0a\x03e-1" + b"\x12\x02\x08\x01")
    assert orjson.loads(as_json.as_json(value)) == {"id": "e-1", "result": {"failed": True}}


def test_json_and_what_is_in_no_registry(as_json: Registry, registry: SchemaRegistry) -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    number = registry.register("plain-value", "JSON", orjson.dumps(schema).decode())
    value = orjson.dumps(ONE)
    assert as_json.as_json(framed(number, value)) == value
    assert as_json.as_json(value) == value


def test_what_cannot_be_read_is_a_dead_letter(as_json: Registry, avro_number: int, proto_number: int) -> None:
    for value, said in [
        (framed(999_999, b"x"), "the registry has no schema 999999"),
        (framed(avro_number, avro(ONE)[:-3]), "not as its schema says"),
        (framed(avro_number, avro(ONE) + b"x"), "something follows it"),
        (framed(proto_number, b"\x02\x20"), "which there is not"),
        (framed(proto_number, b"\x02\x02\xff\xff"), "not as its schema says"),
    ]:
        with pytest.raises(Refused) as refused:
            as_json.as_json(value)
        assert refused.value.error_class == "bad-schema"
        assert said in refused.value.message
    infinite = avro({**ONE, "x": {**ONE["x"], "f3": float("nan")}})  # type: ignore[dict-item]
    with pytest.raises(Refused) as refused:
        as_json.as_json(framed(avro_number, infinite))
    assert refused.value.message == "f3 is nan, not a finite number"


def test_a_poll_of_all_kinds(as_json: Registry, avro_number: int) -> None:
    record_map = RecordMap(label="ill", id="visit.id", time="visit.at")
    decoder = Decoder(1, record_map=record_map, as_json=as_json.as_json)
    values = [framed(avro_number, avro(ONE)), framed(999_999, b"x"), b'{"f3":1,"ill":0}', None, b""]
    for _ in range(2):
        batch = decoder.decode(poll_of(values))
        [[first, second]] = rows_by_stream(batch).values()
        assert (dict(first.x), first.y, first.ts, first.id) == (ONE["x"], 1, ONE["ts"], "e-1")
        assert (dict(second.x), second.y) == ({"f3": 1.0}, -1)
        assert [(one.value, one.error_class) for one in batch.dead_letters] == [
            (values[1], "bad-schema"), (None, "tombstone"), (b"", "empty"),
        ]  # fmt: skip


def test_a_registry_that_is_away_stops_a_start_and_holds_up_a_lane(as_json: Registry, avro_number: int) -> None:
    with Registry({"url": AWAY}) as away:
        with pytest.raises(UnreachableError, match="no schema registry answers at http://127"):
            away.check()
        with pytest.raises(ReopenError, match="does not answer"):
            Decoder(1, as_json=away.as_json).decode(poll_of([framed(avro_number, avro(ONE))]))


class _Page(BaseHTTPRequestHandler):
    """A web server, which knows nothing of schemas."""

    def do_GET(self) -> None:
        self.send_response(404 if "404" in self.path else 200)
        self.end_headers()
        self.wfile.write(b"<!DOCTYPE HTML><html><p>Nothing matches the given URI.</p></html>")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def page() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(("path", "status"), [("/404", " (HTTP status 404)"), ("/200", "")])
def test_a_url_that_is_no_registry(page: str, path: str, status: str, tmp_path: Path) -> None:
    """`check` says what `run` would."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "_topic.json").write_text('{"partitions": 1}')
    (tmp_path / "f.toml").write_text(toml({**FLOW, "registry": {"url": page + path}}))
    said = (
        f"what answers at {page}{path} (registry.url) is no schema registry{status}: the url goes down to where"
        f" its /subjects are, as https://host/apis/ccompat/v7 does"
    )
    for verb in ("check", "run"):
        done = sluiceway(verb, "f.toml", cwd=tmp_path, timeout=240)
        assert (done.code, done.sentence) == (2, said)


def test_check_looks_whether_there_is_a_registry(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(toml({**FLOW, "registry": {"url": AWAY}}))
    done = sluiceway("check", "f.toml", "--json", cwd=tmp_path)
    assert done.code == 2
    missing, registry = json.loads(done.stdout)["problems"]
    assert "does not exist" in missing
    assert registry.startswith(f"no schema registry answers at {AWAY} (registry.url): ")


def test_names_and_passwords_are_not_shown() -> None:
    with Registry({"url": "http://me:secret@127.0.0.1:9"}) as away, pytest.raises(UnreachableError) as refused:
        away.check()
    assert "secret" not in str(refused.value)


def test_settings_of_a_registry() -> None:
    content = {
        "flow": {"name": "f"},
        "topics": {name: f"dir:{name}" for name in ("instances", "selections", "dead_letters")},
        "operator": {"name": "ofs", "k": 2},
    }
    with pytest.raises(SettingsError, match="needs the registry's url"):
        Settings.parse({**content, "registry": {}})
    with pytest.raises(SettingsError, match=r"registry\.timeout"):
        Settings.parse({**content, "registry": {"url": AWAY, "timeout": [1]}})
