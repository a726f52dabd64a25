"""A registry and a flow on the broker: JSON Schema, and a registry that is stopped and started while the flow runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from confluent_kafka import KafkaException

from tests.kafka.test_shapes import EXAMPLES, instances, outcome, write_flow
from tests.registry.formats import AVRO, avro, framed, json_schema
from tests.support import Topics, produce
from tests.support.flow import Running, sluiceway
from tests.support.kafka import Record, read_committed
from tests.support.registry import SchemaRegistry
from tests.support.relay import Relay

NATIVE = """
[flow]
name = "native"
[topics]
instances = "kafka://localhost:9092/i"
selections = "kafka://localhost:9092/s"
predictions = "kafka://localhost:9092/p"
dead_letters = "kafka://localhost:9092/d"
[operator]
name = "ofs"
k = 5
[emit]
every = 100
"""


def test_json_schema_gives_the_model_of_plain_json(topics: Topics, registry: SchemaRegistry, tmp_path: Path) -> None:
    """Native records, framed: a registry needs no map."""
    given = instances()
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["x"]}
    number = registry.register("instances-value", "JSON", orjson.dumps(schema).decode())
    with_registry = f'{NATIVE}\n[registry]\nurl = "{registry.url}"\n\n[input]\n'
    framing, there = write_flow(topics, tmp_path, "framed", with_registry)
    plain, here = write_flow(topics, tmp_path, "plain", NATIVE)
    produce(topics.bootstrap, there["instances"], [(None, framed(number, json_schema(one)), 0) for one in given])
    produce(topics.bootstrap, here["instances"], [(None, orjson.dumps(one), 0) for one in given])
    for file in (framing, plain):
        done = sluiceway("run", file, timeout=240)
        assert done.code == 0, done.stderr
    assert outcome(topics, there) == outcome(topics, here)
    assert [one["version"] for one in outcome(topics, there)[0]] == [100, 200, 300, 400]
    assert read_committed(topics.bootstrap, there["dead_letters"], [0])[0] == []


@pytest.fixture
def own_registry(registry: SchemaRegistry) -> Iterator[SchemaRegistry]:
    """One that may be stopped; `registry` says why there is none."""
    own = SchemaRegistry()
    own.start()
    yield own
    own.stop()


def test_a_flow_waits_for_a_registry_that_is_stopped_and_goes_on_when_it_is_back(
    topics: Topics, own_registry: SchemaRegistry, tmp_path: Path
) -> None:
    """Values of a schema that it knows are learnt from all the while; only an unknown one makes it wait."""
    parts = urlsplit(own_registry.url)
    assert parts.port is not None
    relay = Relay(parts.port)
    known, later = AVRO, {**AVRO, "name": "LaterVisit"}

    def register() -> list[int]:
        schemas = [orjson.dumps(one).decode() for one in (known, later)]
        return [own_registry.register(f"visits-{at}", "AVRO", schema) for at, schema in enumerate(schemas)]

    first, second = register()
    url = own_registry.url.replace(str(parts.port), str(relay.port))
    text = (EXAMPLES / "avro.toml").read_text().replace("http://localhost:8081", url)
    file, there = write_flow(topics, tmp_path, "avro", text)
    file.write_text(file.read_text().replace('stop = "end"\n', ""))
    given = [{**one, "x": {name: value for name, value in one["x"].items() if "=" not in name}} for one in instances()]
    given = given[:60]

    def send(number: int, some: list[Any]) -> None:
        produce(topics.bootstrap, there["instances"], [(None, framed(number, avro(one)), 0) for one in some])

    def predicted() -> list[Record]:
        with contextlib.suppress(KeyError, KafkaException):
            return list(read_committed(topics.bootstrap, there["predictions"], [0])[0])
        return []

    send(first, given[:20])
    with Running("run", file, "--checkpoint-every", "0.2") as running:
        running.until(lambda: len(predicted()) == 20, timeout=240)
        own_registry.stop()
        send(first, given[20:40])
        running.until(lambda: len(predicted()) == 40)
        send(second, given[40:])
        running.until(lambda: f"the schema registry {url} does not answer" in running.stderr, timeout=120)
        assert len(predicted()) == 40
        relay.refusing = True  # until it knows its schemas again, which lie in its memory
        own_registry.start()
        assert register() == [first, second]
        relay.refusing = False
        running.until(lambda: len(predicted()) == 60, timeout=120)
        assert running.stop().code == 0
    relay.close()
    assert [orjson.loads(one.value or b"")["id"] for one in predicted()] == [one["id"] for one in given]
    assert read_committed(topics.bootstrap, there["dead_letters"], [0])[0] == []
