"""Snapshots, predictions and dead letters -> bytes. The same values give the same bytes, members in a fixed order."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from sluiceway.schemas.arrow import CONTENT_TYPE
from sluiceway.schemas.batch import Label
from sluiceway.schemas.lane import DeadLetter, OutRecord

if TYPE_CHECKING:  # columns are compiled code's: the client does without
    from sluiceway.schemas.instance_columns import Columns

SNAPSHOT_SCHEMA = 1
ERROR_HEADER = "sluiceway.error."


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
    selected: Iterable[tuple[str, float, int]],
    entered: Sequence[str],
    left: Sequence[str],
    metrics: Mapping[str, float | None],
    params: Mapping[str, Any],
    source: Mapping[str, tuple[int, int]],
    wanted: Sequence[str] | None = None,
    redundant: Mapping[str, Sequence[str]] | None = None,
) -> OutRecord:
    """The snapshot made after the input record at `offset`.

    `selected` is (feature, weight, since), sorted already; `source` is role -> (partition, next offset to read). A
    metric that is not finite is written as null; a weight that is not finite is a ValueError.
    """
    features = []
    for feature, weight, since in selected:
        if not math.isfinite(weight):
            raise ValueError(f"the weight of feature {feature!r} is {weight}: not for a snapshot")
        features.append({"feature": feature, "weight": float(weight), "since": int(since)})
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
    features_used: int | None = None,
    cost: float | None = None,
) -> OutRecord:
    """One prediction; `features_used` and `cost` are written where they are given. A score not finite is null."""
    record: dict[str, Any] = {
        "flow": flow,
        "stream": stream,
        "id": id_,
        "seq": seq,
        "at": {"partition": partition, "offset": offset},
        "score": score,
        "label": label,
    }
    if features_used is not None:
        record["features_used"] = features_used
    if cost is not None:
        record["cost"] = cost
    return OutRecord(offset, stream.encode(), orjson.dumps(record))


def predictions(
    *,
    flow: str,
    stream: str,
    ids: Sequence[str | None] | None,
    seq: int,
    partition: int,
    offsets: NDArray[np.int64],
    scores: NDArray[np.float64],
    labels: tuple[Label, Label] = (-1, 1),
) -> list[OutRecord]:
    """The same records as `prediction` makes one by one: seq, seq + 1, ...; a score above 0 is the second label."""
    if len(offsets) != len(scores) or (ids is not None and len(ids) != len(scores)):
        raise ValueError("ids, offsets and scores must have one entry a prediction")
    key = stream.encode()
    names = orjson.dumps({"flow": flow, "stream": stream})[:-1]
    negative, positive = (orjson.dumps(label) for label in labels)
    ids_ = repeat(b"null") if ids is None else map(orjson.dumps, ids)
    # orjson writes a float as it does inside a record, and no number holds a comma
    scores_ = orjson.dumps(scores.tolist())[1:-1].split(b",") if len(scores) else []
    where = offsets.tolist()
    labels_ = [positive if above else negative for above in (scores > 0).tolist()]
    at = b',"at":{"partition":%d,"offset":' % partition
    form = names.replace(b"%", b"%%") + b',"id":%b,"seq":%d' + at + b'%d},"score":%b,"label":%b}'
    return [
        OutRecord(offset, key, form % (id_, number, offset, score, label))
        for offset, id_, number, score, label in zip(where, ids_, count(seq), scores_, labels_, strict=False)
    ]


class PredictionEncoder:
    """The same records as `prediction` makes one by one, for the rows of a poll. A score above 0: the second label."""

    def __init__(self, flow: str, partition: int, labels: tuple[Label, Label] = (-1, 1)) -> None:
        self._flow = flow
        self._labels = tuple(orjson.dumps(label) for label in labels)
        self._at = b',"at":{"partition":%d,"offset":' % partition
        self._starts: dict[bytes, bytes] = {}
        """How a prediction of a stream begins."""

    def encode(
        self, columns: Columns, rows: NDArray[np.int64] | None, seq: NDArray[np.int64], scores: NDArray[np.float64]
    ) -> list[OutRecord]:
        """Of these rows; None = all of them. `seq` and `scores` are by row."""
        streams, offsets = columns.streams, columns.offset
        id_at, id_size = columns.id_at, columns.id_size
        if rows is not None:
            streams = [streams[row] for row in rows.tolist()]
            offsets, seq, scores, id_at, id_size = offsets[rows], seq[rows], scores[rows], id_at[rows], id_size[rows]
        if not len(scores):
            return []
        if len(self._starts) > _STARTS:
            self._starts.clear()
        # orjson writes a float as it does inside a record, and no number holds a comma
        told = orjson.dumps(scores.tolist())[1:-1].split(b",")
        ids = _ids(columns.text, id_at, id_size)
        at, (negative, positive) = self._at, self._labels
        made = []
        for stream, id_, number, offset, score, above in zip(
            streams, ids, seq.tolist(), offsets.tolist(), told, (scores > 0).tolist(), strict=True
        ):
            start = self._starts.get(stream) or self._start(stream)
            value = b'%b%b,"seq":%d%b%d},"score":%b,"label":%b}' % (
                start, id_, number, at, offset, score, positive if above else negative,
            )  # fmt: skip
            made.append(OutRecord(offset, stream, value))
        return made

    def _start(self, stream: bytes) -> bytes:
        start = orjson.dumps({"flow": self._flow, "stream": stream.decode()})[:-1] + b',"id":'
        self._starts[stream] = start
        return start


_STARTS = 10_000
_MUST_BE_ESCAPED = re.compile(rb'[\x00-\x1f"\\\\]')


def _ids(text: NDArray[np.uint8], at: NDArray[np.int64], size: NDArray[np.int32]) -> list[bytes]:
    """Of each row as JSON."""
    if not size.any():
        return [b"null"] * len(size)
    letters = memoryview(text.data)
    ids = [bytes(letters[start : start + length]) for start, length in zip(at.tolist(), size.tolist(), strict=True)]
    if _MUST_BE_ESCAPED.search(b"".join(ids)) is None:
        return [b'"%b"' % id_ if id_ else b"null" for id_ in ids]
    return [orjson.dumps(id_.decode()) if id_ else b"null" for id_ in ids]


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


def dead_letter_line(record: OutRecord) -> bytes:
    """What `dead_letter` gave, as a line of a directory topic (without the line's end)."""
    told = {name.removeprefix(ERROR_HEADER): value.decode() for name, value in record.headers}
    content_type = told.pop(CONTENT_TYPE, None)
    error: dict[str, str | int] = {**told, "partition": int(told["partition"]), "offset": int(told["offset"])}
    line: dict[str, Any] = {"error": error, "key_base64": _base64(record.key), "value_base64": _base64(record.value)}
    if content_type is not None:
        line["content_type"] = content_type
    return orjson.dumps(line)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


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
