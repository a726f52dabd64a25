"""A feature column with few non-zeros, as it stands in a record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class SparseColumn(NamedTuple):
    """`values` at the rows `at` of a column of `size` rows; 0 elsewhere."""

    size: int
    at: ArrayLike
    values: ArrayLike

    def check(self, name: str) -> None:
        """`ValueError` naming the column unless it is one; costs nothing for rows that are not there."""
        at, values = np.asarray(self.at), np.asarray(self.values)
        if isinstance(self.size, bool) or not isinstance(self.size, int | np.integer) or self.size < 0:
            raise ValueError(f"column {name!r} has a size of {self.size!r}, not a whole number")
        if at.ndim != 1 or at.shape != values.shape:
            raise ValueError(f"column {name!r} has {at.size} rows for {values.size} values")
        if at.size and at.dtype.kind not in "iu":
            raise ValueError(f"column {name!r} has rows that are not whole numbers")
        if at.size and not (int(at.min()) >= 0 and int(at.max()) < self.size):
            raise ValueError(f"column {name!r} has a row outside [0, {self.size})")
        if at.size > 1 and np.unique(at).size != at.size:
            raise ValueError(f"column {name!r} names a row twice")

    def dense(self, name: str) -> NDArray[np.float64]:
        """The whole column, or `ValueError` naming it."""
        self.check(name)
        column = np.zeros(self.size)
        column[np.asarray(self.at).astype(np.int64)] = np.asarray(self.values, dtype=np.float64)
        return column


class ColumnRecord(NamedTuple):
    """One record of a `features` topic: a column, or, without a name, a target."""

    offset: int
    next_offset: int
    ts: int
    name: str | None
    values: NDArray[np.float64] | SparseColumn
    classes: int = 0
    """How many classes a target has; 0 for numbers."""


class ColumnTable(NamedTuple):
    """Many columns of one record, accepted or refused together; `target`, if there, is a new one, come before them."""

    offset: int
    next_offset: int
    ts: int
    target: NDArray[np.float64] | None
    names: list[str]
    values: NDArray[np.float64]
    """A row for each column."""
    classes: int = 0
    """How many classes the target has; 0 for numbers."""
