"""Counting values by feature, class and bin, and pairs of values of a few features together."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel, kernel
from sluiceway.operators.kernels.joint.stages import bin_of


@allocating_kernel
def count_values(
    slots: NDArray[np.int64], values: NDArray[np.float64], classes: NDArray[np.int64],
    cuts: NDArray[np.float64], zero: NDArray[np.int64],
    counts: NDArray[np.int64], nulls: NDArray[np.int64],
) -> None:  # fmt: skip
    """Of each value: its feature's slot (-1: not counted) and its row's class.

    `zero`: the bin of each feature that is not counted, because what is left of the rows is in it; -1: none.
    """
    for at in range(len(slots)):
        slot = slots[at]
        if slot < 0:
            continue
        if math.isnan(values[at]):
            nulls[slot, classes[at]] += 1
            continue
        found = bin_of(cuts[slot], values[at])
        if found != zero[slot]:
            counts[slot, classes[at], found] += 1


@kernel
def count_pairs_of_row(
    slots: NDArray[np.int32], values: NDArray[np.float64], start: int, stop: int, candidate: NDArray[np.int64],
    cuts: NDArray[np.float64], absent: NDArray[np.int8], bins: NDArray[np.int8], pairs: NDArray[np.int64],
) -> None:  # fmt: skip
    """The values from `start` to `stop` are the row's. `candidate`: of each slot, or -1; later slots have none.

    `absent`: each candidate's bin where it is not in a row, -1 for none; `bins`: scratch. `pairs`: of the row's class,
    [pair, bin, bin], the pairs (0, 1), (0, 2), ... (1, 2), ... of candidates.
    """
    few = len(cuts)
    for c in range(few):
        bins[c] = absent[c]
    for at in range(start, stop):
        c = candidate[slots[at]] if slots[at] < len(candidate) else -1
        if c >= 0:
            bins[c] = -1 if math.isnan(values[at]) else bin_of(cuts[c], values[at])
    pair = 0
    for a in range(few):
        if bins[a] < 0:
            pair += few - 1 - a
            continue
        for b in range(a + 1, few):
            if bins[b] >= 0:
                pairs[pair, bins[a], bins[b]] += 1
            pair += 1


@kernel
def count_pairs(
    indptr: NDArray[np.int64], slots: NDArray[np.int32], values: NDArray[np.float64], classes: NDArray[np.int64],
    candidate: NDArray[np.int64], cuts: NDArray[np.float64], absent: NDArray[np.int8], bins: NDArray[np.int8],
    pairs: NDArray[np.int64],
) -> None:  # fmt: skip
    """Rows, as `count_pairs_of_row` counts each. `pairs`: [class, pair, bin, bin]."""
    for row in range(len(indptr) - 1):
        count_pairs_of_row(
            slots, values, indptr[row], indptr[row + 1], candidate, cuts, absent, bins, pairs[classes[row]]
        )
