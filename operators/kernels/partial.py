"""Partial input: which features of an instance are looked at, decided before the instance is there.

The choice for the coming instance follows from the seed, its number among the labelled ones, and the features seen
until then. Instances without a label in between share it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels import slots
from sluiceway.operators.kernels.ahead import AHEAD, MANY, ask_for
from sluiceway.operators.kernels.features import Features, recall
from sluiceway.operators.kernels.random import draw, stream_of, uniform
from sluiceway.operators.kernels.slots import Model, Rows, bounded

EXPLORE, INPUT = 2, 3
INSTANCE, CHOSEN = 0, 1


class Choice(NamedTuple):
    """The random set of features that the coming instance is asked for."""

    counts: NDArray[np.int64]
    """[INSTANCE], [CHOSEN]: for which instance it was made, and how many features are in it."""
    numbers: NDArray[np.int64]
    """The numbers of the features in it."""
    chosen: NDArray[np.uint64]
    """A bit for each feature number, so that the bits of a million fit the caches: whether it is in it."""


@kernel
def explores(seed: int, instance: int, epsilon: float) -> bool:
    return bool(uniform(draw(stream_of(seed, instance, EXPLORE), 0)) < epsilon)


@kernel
def is_chosen(chosen: NDArray[np.uint64], number: int) -> bool:
    return bool((chosen[number >> 6] >> np.uint64(number & 63)) & np.uint64(1))


@kernel
def choose(choice: Choice, seed: int, instance: int, k: int, d: int) -> None:
    """A uniformly random set of k of the d features, in k draws.

    Floyd: Bentley, "Programming pearls: a sample of brilliance", CACM 30(9), 1987.
    """
    if choice.counts[INSTANCE] == instance:
        return
    numbers, chosen = choice.numbers, choice.chosen
    for i in range(choice.counts[CHOSEN]):
        chosen[numbers[i] >> 6] = np.uint64(0)
    source = stream_of(seed, instance, INPUT)
    n = 0
    for last in range(max(d - k, 0), d):
        number = int(uniform(draw(source, last)) * (last + 1))
        if is_chosen(chosen, number):
            number = last
        chosen[number >> 6] |= np.uint64(1) << np.uint64(number & 63)
        numbers[n] = number
        n += 1
    choice.counts[INSTANCE] = instance
    choice.counts[CHOSEN] = n


@kernel
def score_chosen(rows: Rows, row: int, m: Model, seen: Features, choice: Choice) -> float:
    """f = w . x over the features chosen; the others are left out of the step."""
    recall(rows, row, m, seen)
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    known, chosen, slot_of, weight, touched = seen.known, choice.chosen, m.slot_of, m.weight, m.touched
    many = len(known) > MANY and end + AHEAD <= len(indices)
    f = 0.0
    for j in range(first, end):
        if many:
            ask_for(known, indices[j + AHEAD])
        name = indices[j]
        number = known[name] - 1
        if number >= 0 and is_chosen(chosen, number):
            slot = slot_of[name]
            touched[j - first] = slot
            f += weight[slot] * values[j]
        else:
            touched[j - first] = -1
    return bounded(f)


@kernel
def score_held(rows: Rows, row: int, m: Model) -> float:
    """f = w . x; features without a weight are left out of the step."""
    f = slots.score_row(rows, row, m)
    touched = m.touched
    for i in range(rows.indptr[row + 1] - rows.indptr[row]):
        if touched[i] == 0:
            touched[i] = -1
    return f


@kernel
def step_row(rows: Rows, row: int, m: Model, held: float, new: float) -> int:
    """w <- w + held x where there is a weight, + new x where there is none. The number of entrants."""
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    weight, touched, entrant, entrant_name = m.weight, m.touched, m.entrant, m.entrant_name
    entrants = 0
    for j in range(first, end):
        slot = touched[j - first]
        if slot > 0:
            weight[slot] = bounded(weight[slot] + held * values[j])
        elif slot == 0:
            entrant[entrants] = bounded(new * values[j])
            entrant_name[entrants] = indices[j]
            entrants += entrant[entrants] != 0.0
    return entrants
