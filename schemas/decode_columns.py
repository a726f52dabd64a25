"""One poll of a `features` topic -> targets and columns a stream, and a dead letter for each record that is neither.

    {"target": [1, -1, ...]}                                the target that columns are judged against
    {"name": "gene:TP53", "values": [0.1, ...]}             a column
    {"name": ..., "size": 800, "at": [3, 17], "values": [1, 1]}   the same with few non-zeros

A target of classes holds strings, integers or booleans; classes that are not all integers are numbered in order of
appearance. Everything else is finite numbers. Whether a column fits its target, and whether the operator can do with so
many classes, only the operator can tell.
A message of Arrow holds many columns: `sluiceway.schemas.arrow`.
"""

from __future__ import annotations

from array import array
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from sluiceway.schemas.arrow import ARROW_HEADERS, read_columns
from sluiceway.schemas.columns import ColumnRecord, ColumnTable, SparseColumn
from sluiceway.schemas.lane import DeadLetter, LaneBatch, RawPoll, RawRecords
from sluiceway.schemas.refusal import (
    MAX_TS,
    NamedBy,
    Refused,
    StreamNaming,
    kind,
    lenient,
    refuse_ts,
    refuse_unreadable,
    show,
)

TargetType = Literal["class", "number"]

MAX_ROWS = 2**63 - 1
EXACT = 2**53
"""Integers up to here are themselves as floats; larger ones are told apart like any other class."""


class ColumnDecoder:
    """Decodes the polls of one topic of columns."""

    def __init__(self, partitions: int, stream: NamedBy = "key", target_type: TargetType = "class") -> None:
        self._naming = StreamNaming(stream, partitions)
        self._target_type = target_type

    def decode(self, poll: RawPoll) -> LaneBatch:
        """The records of each stream in order; every record refused becomes a dead letter."""
        streams: dict[str, list[ColumnRecord | ColumnTable]] = {}
        dead_letters: list[DeadLetter] = []
        raw: RawRecords = {}
        arrow = poll.arrow
        for row, (key, value, offset, next_offset) in enumerate(
            zip(poll.keys, poll.values, poll.offsets, poll.next_offsets, strict=True)
        ):
            read: ColumnRecord | ColumnTable
            try:
                if row in arrow:
                    stream = self._naming.stream(key, None, poll.lane)
                    read = self._table(value, offset, next_offset)
                else:
                    record = self._read(value)
                    ts = _ts(record)
                    stream = self._naming.stream(key, record.get("stream"), poll.lane)
                    read = ColumnRecord(offset, next_offset, ts, *self._content(record))
            except Refused as refused:
                headers = ARROW_HEADERS if row in arrow else ()
                dead_letters.append(refused.letter(offset, key, value, headers=headers))
                continue
            streams.setdefault(stream, []).append(read)
            raw[offset] = key, value
        return LaneBatch(poll.lane, poll.start, poll.stop, poll.end, list(streams.items()), dead_letters, raw)

    def _table(self, value: bytes | None, offset: int, next_offset: int) -> ColumnTable:
        columns = read_columns(value)
        target, classes = (None, 0) if columns.target is None else self._target(columns.target)
        if target is not None and not np.isfinite(target).all():
            raise Refused("bad-column", "the target holds a number that is not finite")
        return ColumnTable(offset, next_offset, columns.ts, target, columns.names, columns.values, classes)

    def _read(self, value: bytes | None) -> dict[str, Any]:
        try:
            record = orjson.loads(value)  # type: ignore[arg-type]  # None is refused like any other non-JSON
        except orjson.JSONDecodeError as error:
            _refuse_too_large(value)
            refuse_unreadable(value, error)
        if type(record) is not dict:
            raise Refused("not-an-object", f"the record is {kind(record)}, not an object")
        return record

    def _content(self, record: dict[str, Any]) -> tuple[str | None, NDArray[np.float64] | SparseColumn, int]:
        """Name, values, and how many classes they are."""
        if record.get("target") is not None:
            return None, *self._target(record["target"])
        name = record.get("name")
        if type(name) is not str or not name:
            raise Refused("bad-column", f"name is {kind(name)}: neither a target nor a column with a name")
        what = f"column {show(name)}"
        values = _numbers(record.get("values"), what)
        size, at = record.get("size"), record.get("at")
        if size is None and at is None:
            return name, values, 0
        if type(size) is not int or not 0 <= size <= MAX_ROWS:
            raise Refused("bad-column", f"{what}: size is {kind(size)}, not a number of rows")
        if at is None:
            return name, values, 0
        if type(at) is not list or any(type(row) is not int for row in at):
            raise Refused("bad-column", f"{what}: at is not an array of rows")
        try:
            sparse = SparseColumn(size, np.array(at, dtype=np.int64), values)
            sparse.check(name)
        except OverflowError:
            raise Refused("bad-column", f"{what} has a row outside [0, {size})") from None
        except ValueError as problem:
            raise Refused("bad-column", str(problem)) from None
        return name, sparse, 0

    def _target(self, target: object) -> tuple[NDArray[np.float64], int]:
        """The target, and how many classes it has; 0 if it holds numbers."""
        if self._target_type == "number":
            return _numbers(target, "the target"), 0
        if type(target) is not list or any(type(one) not in (str, int, bool) for one in target):
            raise Refused("bad-column", "the target is not an array of classes: strings, integers or booleans")
        if all(type(one) is int and abs(one) <= EXACT for one in target):
            return np.array(target, dtype=np.float64), len(set(target))
        numbers: dict[tuple[type, object], int] = {}
        codes = [numbers.setdefault((type(one), one), len(numbers)) for one in target]
        return np.array(codes, dtype=np.float64), len(numbers)


def _ts(record: dict[str, Any]) -> int:
    ts = record.get("ts")
    if ts is None:
        return 0
    if type(ts) is not int or not 0 <= ts <= MAX_TS:
        refuse_ts(ts)
    return ts


def _refuse_too_large(value: bytes | None) -> None:
    """Refuse a record that would be JSON but for numbers beyond float64."""
    record = lenient(value)
    for member in ("target", "values") if type(record) is dict else ():
        numbers = record[member] if type(record.get(member)) is list else []
        if any(type(one) is float and abs(one) == float("inf") for one in numbers):
            raise Refused("bad-column", f"{member} holds a number too large for a float64")


def _numbers(values: object, what: str) -> NDArray[np.float64]:
    if type(values) is not list:
        raise Refused("bad-column", f"{what}: the values are {kind(values)}, not an array")
    try:
        numbers = np.frombuffer(array("d", values), dtype=np.float64)
    except TypeError:
        wrong = next(one for one in values if type(one) not in (int, float))
        raise Refused("bad-column", f"{what} holds {kind(wrong)}, not a number") from None
    # A boolean is taken for 0 or 1; columns without such numbers, most of them, need no look at every type.
    if ((numbers == 0) | (numbers == 1)).any() and bool in map(type, values):
        raise Refused("bad-column", f"{what} holds a boolean, not a number")
    return numbers
