"""Soft thresholds that wait: a weight is brought up to date only when its feature comes again.

Thresholds that follow each other add up, S_a(S_b(w)) = S_{a+b}(w), so one running sum stands for all of them. A slot
holds w with |w| raised by the sum as it was then: what the sum has gained since, the weight has lost. A weight that
the sum has overtaken is 0, though its slot is given up only when its feature comes again, when another takes it over,
or when all weights are gone through; then the sum starts anew, and stays exact.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel
from sluiceway.operators.kernels.choice import fingerprint
from sluiceway.operators.kernels.dense import COUNTED, HAND, SHRUNK, STALE, Dense, give_up_zeros, know_keys
from sluiceway.operators.kernels.slots import ACTIVE, Model, Rows, bounded, find_slots

_PAID = 64
"""At the limit, a step pays for so many weights: of fewer, every newcomer meets them as they are."""


@inlined
def soft(weight: float, threshold: float) -> float:
    """S_threshold(weight); no branch to mispredict."""
    return math.copysign(max(abs(weight) - threshold, 0.0), weight)


@inlined
def score_waiting(rows: Rows, row: int, m: Model, d: Dense) -> float:
    """f = w . x, summed in the order of the record."""
    find_slots(rows, row, m)
    first, end, values = rows.indptr[row], rows.indptr[row + 1], rows.values
    weight, touched, found, shrunk = m.weight, m.touched, d.found, d.numbers[SHRUNK]
    f = 0.0
    for j in range(first, end):
        found[j - first] = soft(weight[touched[j - first]], shrunk)
        f += found[j - first] * values[j]
    return bounded(f)


@inlined
def take_over(m: Model, d: Dense, entering: int, vacant: int) -> int:
    """Slots of overtaken weights become vacant, up to one for each that enters; how many are vacant then.

    A hand goes round the slots, two for each that enters: so about half of them hold what is not 0, also where hardly
    any feature that enters stays. Slots that are vacant already hold something large.
    """
    weight, ordering = m.weight, m.ordering
    shrunk, active = d.numbers[SHRUNK], m.counts[ACTIVE]
    first = min(d.tally[HAND], active) + 1
    steps = min(2 * entering, active)
    last = min(first + steps - 1, active)
    for slot in range(first, last + 1):
        ordering[vacant] = slot
        vacant += abs(weight[slot]) <= shrunk
    again = steps - (last + 1 - first)
    for slot in range(1, again + 1):
        ordering[vacant] = slot
        vacant += abs(weight[slot]) <= shrunk
    d.tally[HAND] = again if again > 0 else last
    if vacant > entering:
        vacant = entering
        d.tally[HAND] = ordering[vacant - 1]
    return vacant


@kernel
def bring_all_up(m: Model, d: Dense) -> None:
    """All weights as they are; those at 0 give up their slots, and nothing waits."""
    weigh_waiting(m, d, m.weight)
    d.numbers[SHRUNK] = 0.0
    give_up_zeros(m, d, 0)
    d.tally[COUNTED] = m.counts[ACTIVE]


@inlined
def make_room(rows: Rows, row: int, m: Model, d: Dense, limit: int) -> None:
    """Before a newcomer is refused, what has been overtaken gives up its slot: as often as steps have paid for it."""
    length = rows.indptr[row + 1] - rows.indptr[row]
    if d.tally[COUNTED] + length > limit and d.tally[STALE] * _PAID >= m.counts[ACTIVE]:
        d.tally[STALE] = 0
        bring_all_up(m, d)
        find_slots(rows, row, m)  # they have moved


@kernel
def weigh_waiting(m: Model, d: Dense, whole: NDArray[np.float64]) -> None:
    """The weights as they are, by slot."""
    weight, shrunk = m.weight, d.numbers[SHRUNK]
    for slot in range(1, m.counts[ACTIVE] + 1):
        whole[slot] = soft(weight[slot], shrunk)


@kernel
def selected_waiting(m: Model, d: Dense, k: int, keep: float) -> np.uint64:
    """A fingerprint of the features that are selected."""
    know_keys(m, d)
    weigh_waiting(m, d, d.whole)
    return fingerprint(d.whole, m.key, m.counts[ACTIVE], k, keep, m.ordering)
