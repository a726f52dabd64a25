"""Deciding rows, stage by stage: the rows not yet decided look at the stage's feature, the decided ones are dropped.

So a stage's tables are at hand for many rows, a row costs what it looks at, and each row gets bit for bit what it would
get alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.joint.stages import Stages, bin_of, decided, enough, sum_to_one, take_in


class Rows(NamedTuple):
    """Rows [start, stop) of a batch; the features of a row in ascending order."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    """NaN is null: asked for and not there."""
    column: NDArray[np.int64]
    """By stage: its feature's index in the batch, or -1."""
    absent_is_zero: bool


class Outcome(NamedTuple):
    """By row."""

    decided: NDArray[np.int64]
    """The place of the class."""
    used: NDArray[np.int64]
    """How many stages were gone through."""
    missing: NDArray[np.int64]
    """How many of them found no value."""
    posterior: NDArray[np.float64]


@allocating_kernel
def _found(rows: Rows, row: int, k: int, cuts: NDArray[np.float64], zero: int) -> int:
    """The bin of stage k's feature in the row, or -1 if it has no value."""
    column = rows.column[k]
    if column >= 0:
        low, high = rows.indptr[row], rows.indptr[row + 1]
        guess = low + column  # where it is in a row that has every feature
        if guess < high and rows.indices[guess] == column:
            low = guess
        else:
            end = high
            while low < high:
                middle = (low + high) // 2
                if rows.indices[middle] < column:
                    low = middle + 1
                else:
                    high = middle
            if low == end or rows.indices[low] != column:
                low = -1
        if low >= 0:
            x = rows.values[low]
            return -1 if math.isnan(x) else bin_of(cuts, x)
    return zero if rows.absent_is_zero else -1


@allocating_kernel
def posterior_of(odds: float, posterior: NDArray[np.float64]) -> None:
    """Of log-odds of the second of two classes."""
    small = math.exp(-abs(odds))
    posterior[0] = posterior[1] = 1.0 / (1.0 + small)
    posterior[0 if odds > 0.0 else 1] = small / (1.0 + small)


@allocating_kernel
def decide_by_odds(rows: Rows, start: int, stop: int, odds: float, stages: Stages, outcome: Outcome) -> None:
    """Two classes: a sequential test of the likelihood ratio. `odds`: of the prior."""
    count = stop - start
    active, now = np.arange(count), np.full(count, odds)
    for k in range(len(stages.low)):
        low, high, cuts, zero = stages.low[k], stages.high[k], stages.cuts[k], stages.zero[k]
        going_on = 0
        for a in range(count):
            i = active[a]
            if now[i] <= low or now[i] >= high:
                outcome.used[i] = k
                continue
            found = _found(rows, start + i, k, cuts, zero)
            if found >= 0:
                now[i] += stages.odds[k, found]
            else:
                outcome.missing[i] += 1
            active[going_on] = i
            going_on += 1
        count = going_on
        if count == 0:
            break
    for a in range(count):
        outcome.used[active[a]] = len(stages.low)
    for i in range(stop - start):
        posterior_of(now[i], outcome.posterior[i])
        outcome.decided[i] = decided(stages, outcome.posterior[i])


@allocating_kernel
def decide_by_belief(
    rows: Rows, start: int, stop: int, stages: Stages, outcome: Outcome, bins: NDArray[np.int8],
    sums: NDArray[np.float64],
) -> None:  # fmt: skip
    """Any number of classes. `bins`: room for the bins found in all stages, where tables depend on them."""
    count = stop - start
    depends = stages.tables.shape[1] > 1
    unknown = stages.tables.shape[1] - 1
    active, q = np.arange(count), outcome.posterior
    for i in range(count):
        for c in range(len(stages.prior)):
            q[i, c] = stages.prior[c]
    for k in range(len(stages.zero)):
        cuts, zero, ancestor = stages.cuts[k], stages.zero[k], stages.ancestor[k]
        going_on = 0
        for a in range(count):
            i = active[a]
            if enough(stages, k, q[i], sums):
                outcome.used[i] = k
                continue
            found = _found(rows, start + i, k, cuts, zero)
            if found >= 0:
                take_in(stages, k, bins[i, ancestor] if depends and ancestor >= 0 else unknown, found, q[i])
            else:
                outcome.missing[i] += 1
            if depends:
                bins[i, k] = found if found >= 0 else unknown
            active[going_on] = i
            going_on += 1
        count = going_on
        if count == 0:
            break
    for a in range(count):
        outcome.used[active[a]] = len(stages.zero)
    for i in range(stop - start):
        sum_to_one(q[i])
        outcome.decided[i] = decided(stages, q[i])
