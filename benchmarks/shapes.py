"""What decoding costs where records have another shape, against the same instances in native form.

Run with `python -m benchmarks shapes`.
"""

from __future__ import annotations

import random
from functools import partial
from io import BytesIO
from typing import Any

import orjson
from fastavro import parse_schema, schemaless_writer

from benchmarks.decode import RECORDS, microseconds
from benchmarks.measure import Result, Row, median
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import RawPoll
from sluiceway.schemas.record_map import RecordMap
from sluiceway.topics.registry import avro_reader

FLAT = RecordMap(label="label")
NESTED = RecordMap(
    label="payload.after.label",
    id="payload.after.id",
    time="payload.after.at",
    features="payload.after",
    exclude=("*_note", "internal"),
    texts="one-hot",
)


def instances(features: int) -> list[dict[str, Any]]:
    rng = random.Random(7)
    names = [f"sensor.reading_{i:03d}" for i in range(features)]
    return [
        {"id": f"e-{i}", "ts": 1763251200000 + i, "x": {n: rng.gauss(0, 1) for n in names}, "y": rng.random() < 0.5}
        for i in range(RECORDS)
    ]


def flat(one: dict[str, Any]) -> dict[str, Any]:
    return {"id": one["id"], "ts": one["ts"], **one["x"], "label": one["y"]}


def nested(one: dict[str, Any]) -> dict[str, Any]:
    """As Debezium writes it, half of the features in an object of their own, with a time of ISO 8601."""
    x = [*one["x"].items()]
    half = len(x) // 2
    at = f"2025-11-16T00:00:00.{one['ts'] % 1000:03d}Z"
    after = {"id": one["id"], "at": at, **dict(x[:half]), "more": dict(x[half:]), "label": one["y"]}
    return {"payload": {"before": None, "after": after, "op": "c"}}


def avro_schema(one: dict[str, Any]) -> dict[str, Any]:
    """Of flat records."""
    types = {"id": "string", "ts": "long", "label": "boolean"}
    fields = [{"name": name.replace(".", "_"), "type": types.get(name, "double")} for name in flat(one)]
    return {"type": "record", "name": "Reading", "fields": fields}


def avro(one: dict[str, Any], schema: Any) -> bytes:
    out = BytesIO()
    schemaless_writer(out, schema, {name.replace(".", "_"): value for name, value in flat(one).items()})
    return out.getvalue()


def poll_of(values: list[bytes]) -> RawPoll:
    keys: list[bytes | None] = [b"mail"] * RECORDS
    return RawPoll(0, 0, RECORDS, False, keys, [*values], [*range(RECORDS)], [*range(1, RECORDS + 1)])


def main() -> list[Result]:
    result = Result("Decoding records of other shapes, µs of CPU a record")
    for features in (100, 20, 5):
        given = instances(features)
        works = []
        for shaped, record_map in ((None, None), (flat, FLAT), (nested, NESTED)):
            values = [orjson.dumps(one if shaped is None else shaped(one)) for one in given]
            works.append(partial(Decoder(1, record_map=record_map).decode, poll_of(values)))
        schema = avro_schema(given[0])
        by_schema = avro_reader(orjson.dumps(schema).decode(), {})
        written = poll_of([avro(one, parse_schema(schema)) for one in given])
        works.append(partial(Decoder(1, record_map=FLAT, as_json=by_schema).decode, written))
        native, by_flat, by_nested, by_avro = zip(*microseconds(*works), strict=True)
        row: Row = {"features": features, "native": median(native), "flat": median(by_flat)}
        row["nested"] = median(by_nested)
        row["avro"] = median(by_avro)
        row["flat / native"] = median([one / other for one, other in zip(by_flat, native, strict=True)])
        row["nested / native"] = median([one / other for one, other in zip(by_nested, native, strict=True)])
        row["avro / flat"] = median([one / other for one, other in zip(by_avro, by_flat, strict=True)])
        result.rows.append(row)
    return [result]
