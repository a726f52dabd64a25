"""How many different features the instances had: a set of their keys, filled by compiled code."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel

_EMPTY = -1
_FIRST_ROOM = 1 << 12
_MIX = np.uint64(0x9E3779B97F4A7C15)


class SeenFeatures:
    """A set of feature keys, which are not negative; kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table = np.full(_FIRST_ROOM, _EMPTY, dtype=np.int64)
        self._count = 0
        if path.exists():
            self.add(np.load(path))

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> NDArray[np.int64]:
        return np.sort(self._table[self._table != _EMPTY])

    def add(self, keys: NDArray[np.int64]) -> None:
        done = 0
        while True:
            done, self._count = _add(self._table, keys, done, self._count)
            if done == len(keys):
                return
            larger = np.full(4 * len(self._table), _EMPTY, dtype=np.int64)
            _add(larger, self._table[self._table != _EMPTY], 0, 0)
            self._table = larger

    def save(self) -> None:
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            np.save(file, self.keys)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


@kernel
def _add(table: NDArray[np.int64], keys: NDArray[np.int64], start: int, count: int) -> tuple[int, int]:
    """From `start` on; up to where, which is before the end if the table is half full, and how many are in it."""
    mask = len(table) - 1
    for at in range(start, len(keys)):
        key = keys[at]
        place = np.int64((np.uint64(key) * _MIX) >> np.uint64(20)) & mask
        while table[place] != _EMPTY and table[place] != key:
            place = (place + 1) & mask
        if table[place] == _EMPTY:
            if 2 * count >= len(table):
                return at, count
            table[place] = key
            count += 1
    return len(keys), count
