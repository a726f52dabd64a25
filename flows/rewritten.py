"""A record of JSON with a change, all else in it as it came."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import orjson

LONG_NUMBER = re.compile(rb"\d{19}")
"""What may not fit into 64 bits."""
READ_DEPTH = 1024
"""How deeply nested a record may be to be read at all."""


def rewritten(value: bytes, record: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """`record` is what orjson has read; where it would shorten an integer, or not write it again, json does it."""
    if LONG_NUMBER.search(value) is None:
        try:
            return orjson.dumps(change(record))
        except orjson.JSONEncodeError:
            pass  # it is nested more deeply than orjson writes, though not than it reads
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(usual + READ_DEPTH)
    try:
        return json.dumps(change(json.loads(value)), separators=(",", ":"), ensure_ascii=False).encode()
    finally:
        sys.setrecursionlimit(usual)
