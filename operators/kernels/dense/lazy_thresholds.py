"""Lazy soft thresholding: a weight is brought up to date only when its feature comes again.

Soft thresholds that follow each other add up, S_a(S_b(w)) = S_{a+b}(w), so one running sum (`head.shrunk`) stands for
all of them. A slot holds w with |w| raised by the sum as it was when the weight was written: what the sum has gained
since then, the weight has lost. A weight that the sum has overtaken is 0. Its slot is given up when its feature comes
again, when another feature takes it over, or when all weights are brought up to date; then the sum starts again at 0,
and so stays exact.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.dense.selection import fingerprint
from sluiceway.operators.kernels.dense.storage import Dense, give_up_zeros, know_keys
from sluiceway.operators.kernels.sparse.slots import Model, Rows, bounded, find_slots

_PAID = 64
"""At the limit, all weights are brought up to date once in (weights / 64) steps: with up to 64, at every step."""


@kernel
def soft(weight: float, threshold: float) -> float:
    """S_threshold(weight); no branch to mispredict."""
    return math.copysign(max(abs(weight) - threshold, 0.0), weight)


@kernel
def score_thresholded(rows: Rows, row: int, m: Model, d: Dense) -> float:
    """f = w . x, summed in the order of the record."""
    find_slots(rows, row, m)
    first, end, values = rows.indptr[row], rows.indptr[row + 1], rows.values
    weight, touched, found, shrunk = m.weight, m.touched, d.found, m.head[0].shrunk
    f = 0.0
    for j in range(first, end):
        found[j - first] = soft(weight[touched[j - first]], shrunk)
        f += found[j - first] * values[j]
    return bounded(f)


@kernel
def take_over(m: Model, d: Dense, entering: int, vacant: int) -> int:
    """Slots of overtaken weights become vacant, up to one for each entrant; how many are vacant then.

    A clock hand goes round the slots and examines two for each entrant, so that about half of the slots hold a weight
    that is not 0, even where hardly any entrant stays for long. Slots that are vacant already hold infinity.
    """
    weight, ordering = m.weight, m.ordering
    shrunk, active = m.head[0].shrunk, m.head[0].active
    first = min(m.head[0].hand, active) + 1
    steps = min(2 * entering, active)
    last = min(first + steps - 1, active)
    for slot in range(first, last + 1):
        ordering[vacant] = slot
        vacant += abs(weight[slot]) <= shrunk
    again = steps - (last + 1 - first)
    for slot in range(1, again + 1):
        ordering[vacant] = slot
        vacant += abs(weight[slot]) <= shrunk
    m.head[0].hand = again if again > 0 else last
    if vacant > entering:
        vacant = entering
        m.head[0].hand = ordering[vacant - 1]
    return vacant


@kernel
def bring_all_up(m: Model, d: Dense) -> None:
    """Apply all thresholds to all weights; those at 0 give up their slots."""
    weights_thresholded(m, m.weight)
    m.head[0].shrunk = 0.0
    give_up_zeros(m, d, 0)
    m.head[0].counted = m.head[0].active


@kernel
def make_room(rows: Rows, row: int, m: Model, d: Dense, limit: int) -> int:
    """For how many features more there may be weights.

    Before a newcomer is refused, overtaken weights give up their slots, unless that was done a few steps ago.
    """
    length = rows.indptr[row + 1] - rows.indptr[row]
    if m.head[0].counted + length > limit and m.head[0].stale * _PAID >= m.head[0].active:
        m.head[0].stale = 0
        bring_all_up(m, d)
        find_slots(rows, row, m)  # they have moved
    left: int = limit - m.head[0].counted
    return left


@kernel
def weights_thresholded(m: Model, current: NDArray[np.float64]) -> None:
    """The weights themselves, by slot."""
    weight, shrunk = m.weight, m.head[0].shrunk
    for slot in range(1, m.head[0].active + 1):
        current[slot] = soft(weight[slot], shrunk)


@kernel
def selected_thresholded(m: Model, d: Dense, k: int, keep: float) -> np.uint64:
    """A fingerprint of the features that are selected."""
    know_keys(m, d)
    weights_thresholded(m, d.current)
    return fingerprint(d.current, m.key, m.head[0].active, k, keep, m.ordering)
