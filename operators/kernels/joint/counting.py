"""Counting values by feature, class and bin, and pairs of values of a few features together."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
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


@allocating_kernel
def count_pairs(
    indptr: NDArray[np.int64], candidates: NDArray[np.int64], values: NDArray[np.float64], classes: NDArray[np.int64],
    cuts: NDArray[np.float64], absent: NDArray[np.int8], pairs: NDArray[np.int64], bins: NDArray[np.int8],
) -> None:  # fmt: skip
    """Rows: of each value the candidate it belongs to, or -1; a class below 0: a row without a label.

    `absent`: each candidate's bin where it is not in a row, -1 for none. `pairs`: [class, pair, bin, bin], the pairs
    (0, 1), (0, 2), ... (1, 2), ... of candidates.
    """
    few = len(cuts)
    for row in range(len(indptr) - 1):
        label = classes[row]
        if label < 0:
            continue
        bins[:] = absent
        for at in range(indptr[row], indptr[row + 1]):
            c = candidates[at]
            if c >= 0:
                bins[c] = -1 if math.isnan(values[at]) else bin_of(cuts[c], values[at])
        pair = 0
        for a in range(few):
            if bins[a] < 0:
                pair += few - 1 - a
                continue
            for b in range(a + 1, few):
                if bins[b] >= 0:
                    pairs[label, pair, bins[a], bins[b]] += 1
                pair += 1
