"""The rows of a lane that came with a label, the same for all variants: noted once, a score a variant beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.backtest.stream_numbers import StreamNumbers
from sluiceway.schemas.instance_columns import Columns

LABELLED = np.dtype([("offset", "<i8"), ("ts", "<i8"), ("stream", "<u4"), ("y", "i1"), ("padding", "V3")])
BUFFER = 1 << 17
"""Bytes that are written at once: a poll has few of them, a call takes long."""


class LabelledRows:
    """One lane's file."""

    def __init__(self, path: Path, streams: StreamNumbers, position: int) -> None:
        """Those of records before `position` are kept."""
        self._path, self._streams = path, streams
        if path.exists():
            os.truncate(path, self.before(position) * LABELLED.itemsize)
        self._file = path.open("ab", buffering=BUFFER)
        self._columns: Columns | None = None
        self._rows = np.zeros(0, dtype=np.int64)

    def before(self, position: int) -> int:
        """How many there are of records before a position."""
        return int(np.searchsorted(load(self._path)["offset"], position))

    def look(self, columns: Columns | None, *, new: bool) -> None:
        """At a poll, before variants have it; `new`: it is not noted yet."""
        self._columns = columns
        if columns is None:
            return
        self._rows = rows = np.flatnonzero(columns.y != 0)
        if new:
            noted = np.zeros(len(rows), dtype=LABELLED)
            noted["offset"], noted["ts"], noted["y"] = columns.offset[rows], columns.ts[rows], columns.y[rows]
            noted["stream"] = self._streams.of(columns.streams)[rows]
            self._file.write(noted.tobytes())

    @property
    def rows(self) -> NDArray[np.int64]:
        """Of the poll that was looked at, those with labels."""
        return self._rows

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def load(path: Path) -> NDArray[Any]:
    """All of a file, if there is one; what was half written when its writer died is left out."""
    return whole_records(path, LABELLED)


def whole_records(path: Path, kind: np.dtype[Any]) -> NDArray[Any]:
    if not path.exists():
        return np.empty(0, dtype=kind)
    return np.fromfile(path, dtype=kind, count=path.stat().st_size // kind.itemsize)
