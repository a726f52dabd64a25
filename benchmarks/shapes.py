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


MOST = 1.6
"""Times the same data in native form."""


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


def debezium(one: dict[str, Any]) -> dict[str, Any]:
    """With all that Debezium says of where a change comes from."""
    source = {
        "version": "2.7.0.Final", "connector": "postgresql", "name": "plant", "ts_ms": one["ts"], "snapshot": "false",
        "db": "plant", "sequence": '["24023119","24023128"]', "ts_us": one["ts"] * 1000, "ts_ns": one["ts"] * 1_000_000,
        "schema": "public", "table": "readings", "txId": 555, "lsn": 24023128, "xmin": None,
    }  # fmt: skip
    change = nested(one)["payload"]
    return {"payload": {**change, "source": source, "transaction": None, "ts_ms": one["ts"]}}


def connect(one: dict[str, Any]) -> dict[str, Any]:
    """And with the schema that Connect's JSON converter puts into each record unless it is told not to."""
    payload = debezium(one)["payload"]
    return {"schema": _schema_of("payload", payload), "payload": payload}


def _schema_of(name: str, value: Any) -> dict[str, Any]:
    if type(value) is dict:
        fields = [_schema_of(member, inner) for member, inner in value.items()]
        return {"type": "struct", "fields": fields, "optional": False, "field": name}
    return {"type": "string" if type(value) is str else "double", "optional": True, "field": name}


def avro_schema(one: dict[str, Any]) -> dict[str, Any]:
    """Of flat records."""
    types = {"id": "string", "ts": "long", "label": "boolean"}
    fields = [{"name": name.replace(".", "_"), "type": types.get(name, "double")} for name in flat(one)]
    return {"type": "record", "name": "Reading", "fields": fields}


def avro(one: dict[str, Any], schema: Any) -> bytes:
    out = BytesIO()
    schemaless_writer(out, schema, {name.replace(".", "_"): value for name, value in flat(one).items()})
    return out.getvalue()


SHAPES = ((None, None), (flat, FLAT), (nested, NESTED), (debezium, NESTED), (connect, NESTED))
MAPPED = ("flat", "nested", "debezium", "connect")


def poll_of(values: list[bytes]) -> RawPoll:
    keys: list[bytes | None] = [b"mail"] * RECORDS
    return RawPoll(0, 0, RECORDS, False, keys, [*values], [*range(RECORDS)], [*range(1, RECORDS + 1)])


def main() -> list[Result]:
    result = Result("Decoding records of other shapes, µs of CPU a record")
    against = Result("Decoding records of other shapes, against the same in native form")
    for features in (100, 20, 5):
        given = instances(features)
        works = []
        sizes = []
        for shaped, record_map in SHAPES:
            values = [orjson.dumps(one if shaped is None else shaped(one)) for one in given]
            sizes.append(sum(map(len, values)))
            works.append(partial(Decoder(1, record_map=record_map).decode, poll_of(values)))
        schema = avro_schema(given[0])
        by_schema = avro_reader(orjson.dumps(schema).decode(), {})
        written = poll_of([avro(one, parse_schema(schema)) for one in given])
        works.append(partial(Decoder(1, record_map=FLAT, as_json=by_schema).decode, written))
        native, by_flat, *others, by_avro = zip(*microseconds(*works), strict=True)
        mapped = dict(zip(MAPPED, (by_flat, *others), strict=True))
        costs: Row = {"features": features, "native": median(native)}
        costs |= {name: median(times) for name, times in mapped.items()}
        result.rows.append(costs | {"avro": median(by_avro)})
        ratios: Row = {"features": features}
        for name, times in mapped.items():
            ratios[name] = median([one / other for one, other in zip(times, native, strict=True)])
        ratios["avro / flat"] = median([one / other for one, other in zip(by_avro, by_flat, strict=True)])
        against.rows.append(ratios | {"connect's length": sizes[-1] / sizes[0]})
    for name in MAPPED:
        found = {row["features"]: float(str(row[name])) for row in against.rows}
        beyond = ", ".join(f"{ratio:.2f} with {count} features" for count, ratio in found.items() if ratio > MOST)
        met = f"NOT met ({beyond})" if beyond else f"met ({max(found.values()):.2f})"
        against.notes.append(f"{name}, at most {MOST:g} times native: {met}")
    against.notes += [
        "debezium: each record says in some 20 members where it comes from, and all of them are read; with few features"
        " they are most of it",
        "connect: each record brings its schema too, several times as long as what it says, and all of that must be"
        " passed over; the converter's schemas.enable=false leaves it out, and debezium is then the figure",
    ]
    return [result, against]
