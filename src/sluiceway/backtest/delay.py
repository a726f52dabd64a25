"""Labels withheld: each comes so many instances, or so much time, after the instance it labels.

As in River's `progressive_val_score(delay=)`: before an instance is predicted, every label is told whose time has come
by then; what is left at the end is told then. Instances and times are those of the label's own stream.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.errors import SettingsError
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.lane import LaneBatch

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Delay(NamedTuple):
    """How long a label takes."""

    amount: int
    in_time: bool
    """Milliseconds of `ts`; else instances."""

    def __str__(self) -> str:
        return f"{self.amount} ms" if self.in_time else f"{self.amount} instances"


def parse_delay(text: str) -> Delay:
    """
    >>> parse_delay("100"), parse_delay("90s").amount
    (Delay(amount=100, in_time=False), 90000)
    """
    found = re.fullmatch(r"(\d{1,15})\s*(ms|s|min|m|h|d)?", text.strip())
    if found is None:
        raise SettingsError(
            f"--label-delay {text!r}: give a number of instances (100) or a time (500ms, 30s, 5m, 2h, 1d)"
        )
    unit = found[2]
    return Delay(int(found[1]) * _UNITS.get(unit or "", 1), unit is not None)


class _Withheld(NamedTuple):
    due: int
    order: int
    y: int
    id: bytes


class LabelDelay:
    """Of one lane."""

    def __init__(self, delay: Delay) -> None:
        self._delay = delay
        self._waiting: defaultdict[bytes, list[_Withheld]] = defaultdict(list)
        self._instances: defaultdict[bytes, int] = defaultdict(int)
        self._withheld = 0

    def apply(self, batch: LaneBatch) -> LaneBatch:
        """The same poll: labels taken off their instances, and those that have become due put in as later labels."""
        columns = batch.columns
        if columns is None or not len(columns):
            return batch
        return replace(batch, columns=self._delayed(columns))

    def rest(self, nothing: LaneBatch) -> LaneBatch:
        """What is left at the end, put into an empty poll: stream by stream, each in the order of becoming due."""
        columns = nothing.columns
        assert columns is not None
        told = [_Told(stream, 0, one) for stream, waiting in self._waiting.items() for one in sorted(waiting)]
        self._waiting.clear()
        if not told:
            return nothing
        columns = _with_labels(columns, [], told)
        columns.offset[:], columns.next_offset[:] = nothing.stop, nothing.stop
        return replace(nothing, columns=columns)

    def _delayed(self, columns: Columns) -> Columns:
        y, ids = columns.y.copy(), {}
        told: list[_Told] = []
        for row, (stream, ts) in enumerate(zip(columns.streams, columns.ts.tolist(), strict=True)):
            if columns.label_only[row]:
                continue
            number = self._instances[stream]
            self._instances[stream] = number + 1
            now = ts if self._delay.in_time else number
            waiting = self._waiting[stream]
            while waiting and waiting[0].due <= now:
                told.append(_Told(stream, row, heapq.heappop(waiting)))
            if y[row] != 0:
                id_ = b"\x00label %d" % self._withheld
                heapq.heappush(waiting, _Withheld(now + self._delay.amount, self._withheld, int(y[row]), id_))
                self._withheld += 1
                ids[row] = id_
                y[row] = 0
        return _with_labels(replace(columns, y=y), list(ids.items()), told)


class _Told(NamedTuple):
    """A label that is due before a row."""

    stream: bytes
    row: int
    label: _Withheld


def _with_labels(columns: Columns, ids: list[tuple[int, bytes]], told: list[_Told]) -> Columns:
    """Rows given other ids, and rows of later labels put in, each before its row."""
    letters = b"".join([*(id_ for _, id_ in ids), *(one.label.id for one in told)])
    text = np.concatenate((columns.text, np.frombuffer(letters + bytes(8), dtype=np.uint8)))
    at = len(columns.text)
    id_at, id_size = columns.id_at.copy(), columns.id_size.copy()
    for row, id_ in ids:
        id_at[row], id_size[row] = at, len(id_)
        at += len(id_)
    columns = replace(columns, text=text, id_at=id_at, id_size=id_size)
    if not told:
        return columns
    before = np.array([one.row for one in told], dtype=np.int64)
    rows = len(columns)
    sizes = np.array([len(one.label.id) for one in told], dtype=np.int32)

    def put(own: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        return np.insert(own[:rows], before, new)

    streams = list(columns.streams)
    for place, one in reversed(list(enumerate(told))):
        streams.insert(int(before[place]), one.stream)
    like = np.minimum(before, max(rows - 1, 0))
    zeros = np.zeros(len(told), dtype=np.int64)
    return replace(
        columns,
        streams=streams,
        indptr=np.concatenate((put(columns.indptr[:rows], columns.indptr[before]), columns.indptr[rows : rows + 1])),
        y=put(columns.y, np.array([one.label.y for one in told], dtype=np.int8)),
        ts=put(columns.ts, columns.ts[like] if rows else zeros),
        offset=put(columns.offset, columns.offset[like] if rows else zeros),
        next_offset=put(columns.next_offset, columns.next_offset[like] if rows else zeros),
        id_at=put(columns.id_at, at + np.cumsum(sizes, dtype=np.int64) - sizes),
        id_size=put(columns.id_size, sizes),
        label_only=put(columns.label_only, np.ones(len(told), dtype=bool)),
    )
