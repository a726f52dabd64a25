"""How many different features the instances had, all in all and in each stream: sets of keys, filled by compiled code.

Stability needs the number: to select 10 of 20 features again and again says less than 10 of 20,000.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.schemas.columns import ColumnRecord, ColumnTable
from sluiceway.schemas.lane import LaneBatch

_EMPTY = -1
_FIRST_ROOM = 1 << 12
_MIX = np.uint64(0x9E3779B97F4A7C15)
Keys = NDArray[np.int64]


class SeenFeatures:
    """Of one lane; kept in a file. Streams are numbered by whoever calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._all = np.full(_FIRST_ROOM, _EMPTY, dtype=np.int64)
        self._by_stream = self._all.copy()
        self._counts = np.zeros(64, dtype=np.int64)
        self._held = np.zeros(2, dtype=np.int64)
        """How many are in either table."""
        if path.exists():
            with np.load(path) as kept:
                self._counts, self._held = kept["counts"], np.array([len(kept["all"]), len(kept["by_stream"])])
                self._all, self._by_stream = _table_of(kept["all"]), _table_of(kept["by_stream"])

    def look(self, batch: LaneBatch, streams: NDArray[np.uint32]) -> None:
        """At a poll; `streams` has the number of each row's stream, or of each of `batch.streams`."""
        if batch.columns is not None:
            self.add(batch.columns.key, batch.columns.indptr, streams)
            return
        keys = [np.array([_key(name) for name in _names(records)], dtype=np.int64) for _, records in batch.streams]
        if keys:
            self.add(np.concatenate(keys), np.append(0, np.cumsum([len(own) for own in keys])), streams)

    def add(self, keys: Keys, indptr: NDArray[np.int64], streams: NDArray[np.uint32]) -> None:
        """Rows of keys, which are not negative, each of a stream."""
        most = int(streams.max(initial=0))
        if most >= len(self._counts):
            self._counts = np.append(self._counts, np.zeros(2 * most, dtype=np.int64))
        row = 0
        while True:
            row = _add(self._all, self._by_stream, self._held, self._counts, keys, indptr, streams, row)
            if row == len(streams):
                return
            self._all, self._by_stream = (
                _table_of(_held(table), 4 * len(table)) if 2 * held >= len(table) else table
                for table, held in zip((self._all, self._by_stream), self._held.tolist(), strict=True)
            )

    def save(self) -> None:
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            np.savez(file, all=np.sort(_held(self._all)), by_stream=_held(self._by_stream), counts=self._counts)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


def keys_in(path: Path) -> tuple[Keys, NDArray[np.int64]]:
    """Of a lane: the keys of all its features, and how many each stream had, by number; none of it if there is none."""
    if not path.exists():
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    with np.load(path) as kept:
        keys: Keys = kept["all"]
        counts: NDArray[np.int64] = kept["counts"]
        return keys, counts


def _held(table: Keys) -> Keys:
    held: Keys = table[table != _EMPTY]
    return held


def _table_of(keys: Keys, room: int = _FIRST_ROOM) -> Keys:
    while room <= 2 * len(keys):
        room *= 4
    table = np.full(room, _EMPTY, dtype=np.int64)
    _fill(table, keys)
    return table


def _names(records: Sequence[ColumnRecord | ColumnTable]) -> list[str]:
    """Of columns; a target has none."""
    found: list[str] = []
    for record in records:
        if isinstance(record, ColumnTable):
            found += record.names
        elif record.name is not None:
            found.append(record.name)
    return found


def _key(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") >> 2


@kernel
def _add(
    every: Keys, by_stream: Keys, held: NDArray[np.int64], counts: NDArray[np.int64], keys: Keys,
    indptr: NDArray[np.int64], streams: NDArray[np.uint32], row: int,
) -> int:  # fmt: skip
    """Rows from `row` on; up to which one, which is before the end if a table is half full."""
    while row < len(streams):
        # one feature has another key in each stream
        mixed = np.int64((np.uint64(streams[row] + 1) * _MIX) >> np.uint64(1))
        for at in range(indptr[row], indptr[row + 1]):
            if 2 * held[0] >= len(every) or 2 * held[1] >= len(by_stream):
                return row
            if _enter(by_stream, keys[at] ^ mixed):
                held[1] += 1
                counts[streams[row]] += 1
                held[0] += _enter(every, keys[at])
        row += 1
    return row


@kernel
def _fill(table: Keys, keys: Keys) -> None:
    for key in keys:
        _enter(table, key)


@kernel
def _enter(table: Keys, key: int) -> bool:
    """Whether it was not there."""
    mask = len(table) - 1
    place = np.int64((np.uint64(key) * _MIX) >> np.uint64(20)) & mask
    while table[place] != _EMPTY:
        if table[place] == key:
            return False
        place = (place + 1) & mask
    table[place] = key
    return True
