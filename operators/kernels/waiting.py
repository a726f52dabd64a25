"""Soft thresholds that wait: a weight is brought up to date only when its feature comes again.

Thresholds that follow each other add up, S_a(S_b(w)) = S_{a+b}(w), so one running sum stands for all of them, and
each slot knows how much of it its weight has had. A weight that the sum has overtaken is 0, though its slot is given
up only when its feature comes again or all weights are gone through; then the sum starts anew, and stays exact.
A weight that was overtaken and comes again has entered anew.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.choice import fingerprint
from sluiceway.operators.kernels.dense import SHRUNK, STALE, Dense, settle_all
from sluiceway.operators.kernels.slots import ACTIVE, VERSION, Model, Rows, bounded, find_slots

_PAID = 64
"""At the limit, a step pays for so many weights: of fewer, every newcomer meets them as they are."""


@kernel
def soft(weight: float, threshold: float) -> float:
    """S_threshold(weight)."""
    left = abs(weight) - threshold
    return math.copysign(left, weight) if left > 0.0 else 0.0


@kernel
def score_waiting(rows: Rows, row: int, m: Model, d: Dense) -> float:
    """f = w . x, summed in the order of the record."""
    find_slots(rows, row, m)
    first = rows.indptr[row]
    shrunk = d.numbers[SHRUNK]
    f = 0.0
    for j in range(first, rows.indptr[row + 1]):
        slot = m.touched[j - first]
        f += soft(m.weight[slot], shrunk - d.shrunk[slot]) * rows.values[j]
    return bounded(f)


@kernel
def bring_up(rows: Rows, row: int, m: Model, d: Dense) -> None:
    """The weights of the row as they are, at a step."""
    first = rows.indptr[row]
    shrunk = d.numbers[SHRUNK]
    for j in range(first, rows.indptr[row + 1]):
        slot = m.touched[j - first]
        if slot > 0 and rows.values[j] != 0.0:
            m.weight[slot] = soft(m.weight[slot], shrunk - d.shrunk[slot])
            d.shrunk[slot] = shrunk
            if m.weight[slot] == 0.0:
                m.since[slot] = m.counts[VERSION]


@kernel
def bring_all_up(m: Model, d: Dense) -> None:
    """All weights as they are; those at 0 give up their slots, and nothing waits."""
    weigh_waiting(m, d, m.weight)
    d.numbers[SHRUNK] = 0.0
    d.shrunk[:] = 0.0
    settle_all(m, d, 0)


@kernel
def make_room(rows: Rows, row: int, m: Model, d: Dense, limit: int) -> None:
    """Before a newcomer is refused, what has been overtaken gives up its slot: as often as steps have paid for it."""
    length = rows.indptr[row + 1] - rows.indptr[row]
    if m.counts[ACTIVE] + length > limit and d.tally[STALE] * _PAID >= m.counts[ACTIVE]:
        d.tally[STALE] = 0
        bring_all_up(m, d)
        score_waiting(rows, row, m, d)  # slots have moved


@kernel
def weigh_waiting(m: Model, d: Dense, whole: NDArray[np.float64]) -> None:
    """The weights as they are, by slot."""
    shrunk = d.numbers[SHRUNK]
    for slot in range(1, m.counts[ACTIVE] + 1):
        whole[slot] = soft(m.weight[slot], shrunk - d.shrunk[slot])


@kernel
def selected_waiting(m: Model, d: Dense, k: int, keep: float) -> np.uint64:
    """A fingerprint of the features that are selected."""
    weigh_waiting(m, d, d.whole)
    return fingerprint(d.whole, m.key, m.counts[ACTIVE], k, keep, m.ordering)
