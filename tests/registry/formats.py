"""Instances as a schema registry's clients write them."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import orjson
from fastavro import parse_schema, schemaless_writer

Record = dict[str, Any]

AVRO = {
    "type": "record",
    "name": "Visit",
    "namespace": "example",
    "fields": [
        {
            "name": "visit",
            "type": {
                "type": "record",
                "name": "Key",
                "fields": [
                    {"name": "id", "type": "string"},
                    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                ],
            },
        },
        *({"name": f"f{n}", "type": ["null", "double"], "default": None} for n in range(12)),
        {
            "name": "shake",
            "type": {"type": "record", "name": "Shake", "fields": [{"name": n, "type": "double"} for n in "xy"]},
        },
        {"name": "ill", "type": ["null", "boolean"], "default": None},
    ],
}
PROTO = """syntax = "proto3";
package example;
import "google/protobuf/timestamp.proto";
message Unused { int32 a = 1; }
message Reading {
  string id = 1;
  google.protobuf.Timestamp at = 2;
  map<string, double> sensors = 3;
  optional bool failed = 4;
}
"""
_PLACE = bytes([2, 2])
"""Of the message in its file: one step, and that to the second; numbers as Avro writes them."""


def framed(number: int, content: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + content


def avro(one: Record) -> bytes:
    visit = {"id": one["id"], "at": one["ts"]}
    x = one["x"]
    record = {"visit": visit, **{f"f{n}": x.get(f"f{n}") for n in range(12)}, "ill": one.get("y")}
    record["shake"] = {n: x[f"shake.{n}"] for n in "xy"}
    out = BytesIO()
    schemaless_writer(out, parse_schema(AVRO), record)
    return out.getvalue()


def protobuf(one: Record) -> bytes:
    """By hand, field by field, so that nothing is shared with what reads it."""
    seconds, milliseconds = divmod(one["ts"], 1000)
    at = _field(1, seconds) + (_field(2, milliseconds * 1_000_000) if milliseconds else b"")
    out = _bytes(1, one["id"].encode()) + _bytes(2, at)
    for name, value in one["x"].items():
        out += _bytes(3, _bytes(1, name.encode()) + b"\x11" + _double(value))
    if one.get("y") is not None:
        out += _field(4, int(one["y"]))
    return _PLACE + out


def json_schema(one: Record) -> bytes:
    return orjson.dumps(one)


def _double(value: float) -> bytes:
    return struct.pack("<d", value)


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content
