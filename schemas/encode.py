"""Snapshots, predictions and dead letters -> bytes. The same values give the same bytes, members in a fixed order."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import orjson

from sluiceway.schemas.arrow import CONTENT_TYPE
from sluiceway.schemas.batch import Label
from sluiceway.schemas.lane import DeadLetter, OutRecord

SNAPSHOT_SCHEMA = 1
Entry = tuple[str, float, int] | tuple[str, float, int, Mapping[str, Any]]
"""A selected feature, its weight, since when, and what else there is to say of it, by the members of a snapshot."""
ERROR_HEADER = "sluiceway.error."
REDRIVEN = "sluiceway.redriven"
"""Header of a record that was a dead letter and was sent again: where that lies."""


def snapshot_key(flow: str, stream: str) -> bytes:
    return f"{flow}/{stream}".encode()


def snapshot(
    *,
    offset: int,
    flow: str,
    stream: str,
    operator: str,
    version: int,
    seen: int,
    generation: int,
    ts: int,
    reason: Literal["interval", "change", "final"],
    n_selected: int,
    selected: Iterable[Entry],
    entered: Sequence[str],
    left: Sequence[str],
    metrics: Mapping[str, float | None],
    params: Mapping[str, Any],
    source: Mapping[str, tuple[int, int]],
    wanted: Sequence[str] | None = None,
    redundant: Mapping[str, Sequence[str]] | None = None,
) -> OutRecord:
    """The snapshot made after the input record at `offset`.

    `selected` is sorted already; `source` is role -> (partition, next offset to read). A
    metric that is not finite is written as null; a weight that is not finite is a ValueError.
    """
    features = []
    for feature, weight, since, *more in selected:
        if not math.isfinite(weight):
            raise ValueError(f"the weight of feature {feature!r} is {weight}: not for a snapshot")
        entry = {"feature": feature, "weight": float(weight), "since": int(since)}
        features.append({**entry, **more[0]} if more else entry)
    record = {
        "schema": SNAPSHOT_SCHEMA,
        "flow": flow,
        "stream": stream,
        "operator": operator,
        "version": version,
        "seen": seen,
        "generation": generation,
        "ts": ts,
        "reason": reason,
        "n_selected": n_selected,
        "selected": features,
        "entered": entered,
        "left": left,
        **({} if wanted is None else {"wanted": wanted}),
        **({} if redundant is None else {"redundant": redundant}),
        "metrics": metrics,
        "params": params,
        "source": {role: {"partition": at[0], "offset": at[1]} for role, at in source.items()},
    }
    return OutRecord(offset, snapshot_key(flow, stream), orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY))


def prediction(
    *,
    flow: str,
    stream: str,
    id_: str | None,
    seq: int,
    partition: int,
    offset: int,
    score: float,
    label: Label,
) -> OutRecord:
    """One prediction. A score not finite is null."""
    record = {
        "flow": flow,
        "stream": stream,
        "id": id_,
        "seq": seq,
        "at": {"partition": partition, "offset": offset},
        "score": score,
        "label": label,
    }
    return OutRecord(offset, stream.encode(), orjson.dumps(record))


def dead_letter(letter: DeadLetter, topic: str, partition: int) -> OutRecord:
    """Key and value untouched, the reason in the headers, after those without which the value cannot be read."""
    reason = {
        "class": letter.error_class,
        "message": letter.message,
        "stage": letter.stage,
        "topic": topic,
        "partition": partition,
        "offset": letter.offset,
    }
    headers = tuple((ERROR_HEADER + name, str(value).encode()) for name, value in reason.items())
    return OutRecord(letter.offset, letter.key, letter.value, letter.headers + headers)


def marked(record: OutRecord, redriven: Mapping[int, bytes]) -> OutRecord:
    """A dead letter, with what its record says if it was one before."""
    mark = redriven.get(record.offset)
    return record if mark is None else record._replace(headers=((REDRIVEN, mark), *record.headers))


def reason(record: OutRecord) -> dict[str, str]:
    """Why it is one, of what `dead_letter` gave: class, message, stage, topic, partition, offset."""
    of_ours = (header for header in record.headers if header[0].startswith(ERROR_HEADER))
    return {name.removeprefix(ERROR_HEADER): value.decode() for name, value in of_ours}


def dead_letter_line(record: OutRecord) -> bytes:
    """What `dead_letter` gave, as a line of a directory topic (without the line's end)."""
    told = {name.removeprefix(ERROR_HEADER): value.decode() for name, value in record.headers}
    content_type = told.pop(CONTENT_TYPE, None)
    told.pop(REDRIVEN, None)
    error: dict[str, str | int] = {**told, "partition": int(told["partition"]), "offset": int(told["offset"])}
    line: dict[str, Any] = {"error": error, "key_base64": _base64(record.key), "value_base64": _base64(record.value)}
    if content_type is not None:
        line["content_type"] = content_type
    return orjson.dumps(line)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def request(
    *,
    offset: int,
    flow: str,
    stream: str,
    version: int,
    seq: int,
    partition: int,
    features: Sequence[str],
    explore: float,
) -> OutRecord:
    """Which features the next instances should carry. Key: the stream."""
    record = {
        "flow": flow,
        "stream": stream,
        "version": version,
        "seq": seq,
        "at": {"partition": partition, "offset": offset},
        "features": features,
        "explore": explore,
    }
    return OutRecord(offset, stream.encode(), orjson.dumps(record))


def verdict(
    *,
    offset: int,
    flow: str,
    stream: str,
    version: int,
    generation: int,
    feature: str,
    kept: bool,
    reason: str,
    by: Sequence[str],
    removed: Mapping[str, Sequence[str]],
    returned: Sequence[str],
    partition: int,
) -> OutRecord:
    """What became of one column, and of others because of it. Key: the stream."""
    record = {
        "flow": flow,
        "stream": stream,
        "feature": feature,
        "version": version,
        "generation": generation,
        "at": {"partition": partition, "offset": offset},
        "kept": kept,
        "reason": reason,
        "by": by,
        "removed": removed,
        "returned": returned,
    }
    return OutRecord(offset, stream.encode(), orjson.dumps(record))
