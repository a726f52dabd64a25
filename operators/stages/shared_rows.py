"""What follows from a poll's rows alone: worked out once where many lanes get the same polls, as in a backtest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.bank.bank import Needs, needs_of
from sluiceway.operators.bank.rows import unit_rows
from sluiceway.schemas.batch import UNLABELLED
from sluiceway.schemas.instance_columns import Columns


@dataclass(slots=True)
class SharedRows:
    """Of the newest poll that was looked at, before any lane has it."""

    columns: Columns | None = None
    streams: list[bytes] = field(default_factory=list)
    """Each once."""
    stream_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """By row, which of them."""
    _units: Columns | None = None
    _needs: Needs | None = None
    _plain: bool | None = None

    def look(self, columns: Columns | None) -> None:
        self.columns, self._units, self._needs, self._plain = columns, None, None, None
        if columns is None:
            return
        numbers = {name: number for number, name in enumerate(dict.fromkeys(columns.streams))}
        self.streams = [*numbers]
        self.stream_of = np.fromiter(map(numbers.__getitem__, columns.streams), dtype=np.int64, count=len(columns))

    def units(self, columns: Columns) -> Columns | None:
        """The poll with each row at length 1; None if this is not the poll that was looked at."""
        if columns is not self.columns:
            return None
        if self._units is None:
            units = np.empty_like(columns.values)
            unit_rows(columns.values, columns.indptr, units)
            self._units = replace(columns, values=units)
        return self._units

    def is_plain(self, columns: Columns) -> bool:
        """Whether this is the poll that was looked at, and no row of it is a later label or may wait for one."""
        if columns is not self.columns:
            return False
        if self._plain is None:
            waiting = (columns.y == UNLABELLED) & (columns.id_size > 0)
            self._plain = not (waiting | columns.label_only).any()
        return self._plain

    def needs(self, columns: Columns) -> Needs | None:
        """What the poll asks of a bank, with its rows as they came or at length 1; None if it is another poll."""
        if columns is not self.columns and columns is not self._units:
            return None
        if self._needs is None:
            self._needs = needs_of(columns)
        return self._needs
