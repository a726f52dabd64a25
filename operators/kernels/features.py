"""Which features there have been: each has a number, in order of arrival, those of one row in order of their keys.

So numbers do not depend on the order of a record's features. At a limit new features are left out of the model; if a
row brings more than there is room for, those with the smallest keys come first.

How many of the batch's names are still to be looked up is counted: when none is, no row has to be looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.seen import find, insert
from sluiceway.operators.kernels.slots import Model, Rows

SEEN, IGNORED, OPEN = 0, 1, 2


class Features(NamedTuple):
    """The features of all labelled instances so far."""

    counts: NDArray[np.int64]
    """[SEEN], [IGNORED]: distinct features, and non-zero values of labelled rows left out at the limit; [OPEN]: names
    of the batch that have no number, as far as is known."""
    keys: NDArray[np.int64]
    """By number."""
    table: NDArray[np.int32]
    known: NDArray[np.int32]
    """By index in the batch's names: number + 1; -1 left out; 0 not looked up yet, or not there."""


@kernel
def has_room(rows: Rows, row: int, seen: Features, limit: int) -> bool:
    """Whether all that the row can bring fits the arrays as they are."""
    length = rows.indptr[row + 1] - rows.indptr[row]
    return bool(min(limit, seen.counts[SEEN] + length) <= len(seen.keys))


@kernel
def recall(rows: Rows, row: int, m: Model, seen: Features) -> int:
    """Look up the row's features; how many are new, their keys in `m.ordering`."""
    new = 0
    if seen.counts[OPEN] == 0:
        return new
    for j in range(rows.indptr[row], rows.indptr[row + 1]):
        name = rows.indices[j]
        if seen.known[name] == 0 and rows.values[j] != 0.0:
            seen.known[name] = find(seen.keys, seen.table, m.name_key[name]) + 1
            if seen.known[name] == 0:
                m.ordering[new] = m.name_key[name]
                new += 1
            else:
                seen.counts[OPEN] -= 1
    return new


@kernel
def look(rows: Rows, row: int, m: Model, seen: Features, limit: int) -> None:
    """Count the features of a labelled row; those beyond the limit are to be left out of the step."""
    new = recall(rows, row, m, seen)
    if new > 0:
        keys = m.ordering[:new]
        keys.sort()
        for i in range(min(new, limit - seen.counts[SEEN])):
            seen.counts[SEEN] = insert(seen.keys, seen.counts[SEEN], seen.table, keys[i], limit)
        recall(rows, row, m, seen)
    if seen.counts[SEEN] < limit or seen.counts[OPEN] == 0:
        return
    first = rows.indptr[row]
    for j in range(first, rows.indptr[row + 1]):
        name = rows.indices[j]
        if seen.known[name] <= 0 and rows.values[j] != 0.0:
            seen.known[name] = -1
            seen.counts[IGNORED] += 1
            m.touched[j - first] = -1
