"""The examples of topics of other shapes, on the broker: each gives what the same instances give in native form."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.registry.formats import AVRO, PROTO, avro, framed, protobuf
from tests.support import Topics, produce
from tests.support.flow import sluiceway
from tests.support.kafka import read_committed
from tests.support.registry import SchemaRegistry

EXAMPLES = Path(__file__).resolve().parents[2] / "flows" / "examples"
ROLES = ("instances", "selections", "predictions", "dead_letters")
JOINED = ("labels", "labelled")
START = datetime(2025, 11, 16, tzinfo=UTC)
Record = dict[str, Any]


def instances(count: int = 400) -> list[Record]:
    """In native form: a label that depends on two of the features."""
    rng = random.Random(11)
    made = []
    for at in range(count):
        x = {f"f{n}": round(rng.gauss(0, 1), 3) for n in rng.sample(range(12), 8)}
        x["shake.x"], x["shake.y"] = round(rng.random(), 3), 1.0
        if at % 7 == 0:
            x["city=Paris"] = 1.0
        y = x.get("f3", 0.0) + x["shake.x"] + rng.gauss(0, 0.3) > 0.5
        ts = int((START + timedelta(milliseconds=250 * at)).timestamp() * 1000)
        made.append({"id": f"e-{at}", "ts": ts, "x": x, "y": y})
    return made


def flat(one: Record) -> Record:
    x = {name: value for name, value in one["x"].items() if "=" not in name}
    city = {"ward": None, "city": "Paris"} if "city=Paris" in one["x"] else {}
    return {"visit": one["id"], "ts": one["ts"], **x, **city, "note": "x", "ill": "yes" if one["y"] else "no"}


def changed(one: Record) -> Record:
    after = {"id": one["id"], "fraud": int(one["y"]), **_nested(one["x"])}
    payload = {"before": None, "after": after, "source": {"table": "payments"}, "op": "c", "ts_ms": one["ts"]}
    return {"schema": {"type": "struct", "fields": [{"field": "after"}]}, "payload": payload}


def event(one: Record) -> Record:
    at = START + timedelta(milliseconds=one["ts"] - int(START.timestamp() * 1000))
    return {
        "event": {"id": one["id"], "at": at.isoformat().replace("+00:00", "Z")},
        "machine": {"name": "press-3", "line": 4},
        "reading": {**_nested(one["x"]), "firmware": "2.1.0"},
        "result": {"failed": one["y"]},
    }


def _nested(x: dict[str, float]) -> Record:
    """Names with dots as objects, in the order in which they are."""
    made: Record = {}
    for name, value in x.items():
        outer, _, inner = name.partition(".")
        if inner:
            made.setdefault(outer, {})[inner] = value
        else:
            made[name] = value
    return made


def write_flow(topics: Topics, folder: Path, name: str, text: str) -> tuple[Path, dict[str, str]]:
    """An example with topics of the test's own, up to the end of its input."""
    content = tomllib.loads(text)
    roles = [role for role in (*ROLES, *JOINED) if role in content["topics"]]
    made = {role: topics(f"{name}-{role.replace('_', '-')}") for role in roles}
    flow = topics.group(name)
    topics.make(f"{flow}.state", 1, {"cleanup.policy": "compact", "delete.retention.ms": "86400000"})
    for role in roles:
        text = text.replace(f'"{content["topics"][role]}"', f'"kafka://{topics.bootstrap}/{made[role]}"')
    text = text.replace(f'name = "{content["flow"]["name"]}"', f'name = "{flow}"', 1)
    stop = '[input]\nstop = "end"\n'
    text = text.replace("[input]\n", stop) if "[input]\n" in text else f"{text}\n{stop}"
    file = folder / f"{name}.toml"
    file.write_text(text)
    return file, made


def natively(text: str, stream: str) -> str:
    """The same flow for native records."""
    text = re.sub(r"\[(input.map|join)\]\n([^\n]+\n)+", "", text)
    text = re.sub(r"label(s|led) = \"kafka[^\n]+\n", "", text).replace('stream = "partition"', "")
    return text.replace('classes = ["no", "yes"]', "")


def outcome(topics: Topics, made: dict[str, str]) -> tuple[list[Any], list[Any]]:
    """What the flow has said of its models, and every score."""
    out = []
    for role in ("selections", "predictions"):
        records = [orjson.loads(one.value or b"null") for one in read_committed(topics.bootstrap, made[role], [0])[0]]
        out.append([{k: v for k, v in one.items() if k not in ("flow", "stream", "label")} for one in records])
    return out[0], out[1]


SHAPES: Sequence[tuple[str, Callable[[Record], Record], str]] = [
    ("flat", flat, "default"),
    ("debezium", changed, "partition-0"),
    ("events", event, "press-3"),
]


@pytest.mark.parametrize(("example", "shaped", "stream"), SHAPES, ids=[name for name, _, _ in SHAPES])
def test_the_example_gives_the_model_of_the_native_records(
    topics: Topics, tmp_path: Path, example: str, shaped: Callable[[Record], Record], stream: str
) -> None:
    given, text = instances(), (EXAMPLES / f"{example}.toml").read_text()
    mapped, there = write_flow(topics, tmp_path, example, text)
    native, here = write_flow(topics, tmp_path, f"{example}-native", natively(text, stream))
    produce(topics.bootstrap, there["instances"], [(None, orjson.dumps(shaped(one)), 0) for one in given])
    produce(topics.bootstrap, here["instances"], [(None, orjson.dumps(one), 0) for one in given])
    for file in (mapped, native):
        done = sluiceway("run", file, timeout=240)
        assert done.code == 0, done.stderr
    assert outcome(topics, there) == outcome(topics, here)
    selections, predictions = outcome(topics, there)
    assert [one["version"] for one in selections] == [100, 200, 300, 400]
    assert [one["id"] for one in predictions] == [one["id"] for one in given]
    assert read_committed(topics.bootstrap, there["dead_letters"], [0])[0] == []
    [named] = {one.key for one in read_committed(topics.bootstrap, there["predictions"], [0])[0]}
    assert named == stream.encode()


@pytest.mark.parametrize(
    ("example", "kind", "schema", "written"),
    [("avro", "AVRO", orjson.dumps(AVRO).decode(), avro), ("protobuf", "PROTOBUF", PROTO, protobuf)],
    ids=["avro", "protobuf"],
)
def test_the_example_with_a_registry_gives_the_model_of_the_native_records(
    topics: Topics, registry: SchemaRegistry, tmp_path: Path, example: str, kind: str, schema: str, written: Any
) -> None:
    # in the order in which the schema has the features; a map's are read by name
    given = [{**one, "x": dict(sorted(_without_texts(one["x"]).items(), key=_place))} for one in instances()]
    if example == "protobuf":
        given = [{**one, "x": dict(sorted(one["x"].items()))} for one in given]
    number = registry.register(f"{example}-value", kind, schema)
    text = (EXAMPLES / f"{example}.toml").read_text().replace("http://localhost:8081", registry.url)
    mapped, there = write_flow(topics, tmp_path, example, text)
    native, here = write_flow(topics, tmp_path, f"{example}-native", natively(text, "default"))
    produce(topics.bootstrap, there["instances"], [(None, framed(number, written(one)), 0) for one in given])
    produce(topics.bootstrap, there["instances"], [(None, framed(999_999, b"x"), 0)])
    produce(topics.bootstrap, here["instances"], [(None, orjson.dumps(one), 0) for one in given])
    for file in (mapped, native):
        done = sluiceway("run", file, timeout=240)
        assert done.code == 0, done.stderr
    assert outcome(topics, there) == outcome(topics, here)
    assert [one["version"] for one in outcome(topics, there)[0]] == [100, 200, 300, 400]
    [dead] = read_committed(topics.bootstrap, there["dead_letters"], [0])[0]
    assert dict(dead.headers)["sluiceway.error.class"] == b"bad-schema"


def _without_texts(x: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in x.items() if "=" not in name}


def _place(feature: tuple[str, float]) -> tuple[bool, int, str]:
    name = feature[0]
    return name.startswith("shake"), int(name[1:]) if name[1:].isdigit() else 0, name


def _unplaced(out: tuple[list[Any], list[Any]]) -> list[list[Record]]:
    """Without offsets: those of what a flow has written count the ends of its transactions too."""
    return [[{k: v for k, v in one.items() if k not in ("at", "source")} for one in records] for records in out]


def order(one: Record) -> Record:
    at = START + timedelta(milliseconds=one["ts"] - int(START.timestamp() * 1000))
    return {"order": one["id"], "placed": at.isoformat(), "basket": _nested(one["x"])}


def test_the_example_with_labels_on_a_topic_of_their_own_gives_the_model_of_the_native_records(
    topics: Topics, tmp_path: Path
) -> None:
    """Both topics are read in pieces, and labels come in the order of their instances, as they do in one topic."""
    given, text = instances(), (EXAMPLES / "labels.toml").read_text()
    mapped, there = write_flow(topics, tmp_path, "labels", text)
    native, here = write_flow(topics, tmp_path, "labels-native", natively(text, "default"))
    name = tomllib.loads(mapped.read_text())["flow"]["name"]
    topics.make(f"{name}-join.state", 1, {"cleanup.policy": "compact", "delete.retention.ms": "86400000"})
    topics.also(groups=[f"{name}-join", f"{name}-join.members"])
    for first in range(0, 400, 200):
        part = given[first : first + 200]
        labels = [{"order_id": one["id"], "charged_back": one["y"]} for one in given[first // 2 : (first + 200) // 2]]
        produce(topics.bootstrap, there["labels"], [(None, orjson.dumps(one), 0) for one in labels])
        produce(topics.bootstrap, there["instances"], [(None, orjson.dumps(order(one)), 0) for one in part])
        done = sluiceway("join", mapped, "--again", timeout=240)
        assert done.code == 0, done.stderr
    labels = [{"order_id": one["id"], "charged_back": one["y"]} for one in given[200:]]
    produce(topics.bootstrap, there["labels"], [(None, orjson.dumps(one), 0) for one in labels])
    produce(topics.bootstrap, here["instances"], [(None, orjson.dumps(one), 0) for one in given])
    for verb, file in (("join", mapped), ("run", mapped), ("run", native)):
        done = sluiceway(verb, file, "--again", timeout=240)
        assert done.code == 0, done.stderr
    assert _unplaced(outcome(topics, there)) == _unplaced(outcome(topics, here))
    assert [one["version"] for one in outcome(topics, there)[0]] == [100, 200, 300, 400]
    assert read_committed(topics.bootstrap, there["dead_letters"], [0])[0] == []
