"""A flow's state topic, read by a plain consumer that knows what stands in it from docs alone."""

from __future__ import annotations

import json
from typing import Any

from tests.support import read_committed
from tests.support.flow import KafkaFlow


def latest(flow: KafkaFlow, lane: int = 0) -> dict[bytes, bytes]:
    """By key, what a compacted topic would still hold: the newest of each, without what was removed."""
    found: dict[bytes, bytes | None] = {}
    for record in read_committed(flow.bootstrap, flow.state, [lane])[lane]:
        found[record.key or b""] = record.value
    return {key: value for key, value in found.items() if value is not None}


def records_of(flow: KafkaFlow, lane: int = 0) -> dict[str, dict[str, Any]]:
    """The lane's records that are JSON: `o` who opened it, `r` the run, `m` the commit."""
    return {key.decode(): json.loads(value) for key, value in latest(flow, lane).items() if key in (b"o", b"r", b"m")}


def position(flow: KafkaFlow, lane: int = 0) -> int | None:
    """How far the lane's newest commit says that it has come."""
    commit = records_of(flow, lane).get("m")
    return None if commit is None else int(commit["positions"]["instances"])
