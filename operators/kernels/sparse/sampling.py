"""Partial input: a random sample of the features seen so far, drawn before the instance it is for has come.

The sample for the coming instance follows from the seed, the instance's number among the labelled ones, and the
features seen until then. Unlabelled instances in between use the same sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.numbers.random import draw, stream_of, uniform
from sluiceway.operators.kernels.prefetch import DISTANCE, MANY, prefetch
from sluiceway.operators.kernels.sparse import slots
from sluiceway.operators.kernels.sparse.features_seen import Features, recall
from sluiceway.operators.kernels.sparse.slots import Model, Rows, bounded

EXPLORE, INPUT = 2, 3
"""Purposes of random draws."""

SAMPLE_HEAD = np.dtype([("instance", np.int64), ("chosen", np.int64)])


class Sample(NamedTuple):
    """The features that the coming instance is asked for."""

    head: NDArray[np.void]
    """One record: for which instance the sample was drawn, and how many features are in it."""
    numbers: NDArray[np.int64]
    """The numbers of the features in it."""
    chosen: NDArray[np.uint64]
    """A bit for each feature number, 1 if it is in the sample: those of a million features fit the caches."""


def new_sample(k: int, features: int) -> Sample:
    """With room for k of so many features; drawn for no instance."""
    return Sample(
        head=np.zeros(1, dtype=SAMPLE_HEAD),
        numbers=np.zeros(min(k, features), dtype=np.int64),
        chosen=np.zeros(features // 64 + 1, dtype=np.uint64),
    )


@kernel
def explores(seed: int, instance: int, epsilon: float) -> bool:
    return bool(uniform(draw(stream_of(seed, instance, EXPLORE), 0)) < epsilon)


@kernel
def is_chosen(chosen: NDArray[np.uint64], number: int) -> bool:
    return bool((chosen[number >> 6] >> np.uint64(number & 63)) & np.uint64(1))


@kernel
def choose(sample: Sample, seed: int, instance: int, k: int, d: int) -> None:
    """A uniformly random set of k of the d features, in k draws.

    Floyd: Bentley, "Programming pearls: a sample of brilliance", CACM 30(9), 1987.
    """
    if sample.head[0].instance == instance:
        return
    numbers, chosen = sample.numbers, sample.chosen
    for i in range(sample.head[0].chosen):
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
    sample.head[0].instance = instance
    sample.head[0].chosen = n


@kernel
def score_sampled(rows: Rows, row: int, m: Model, seen: Features, sample: Sample) -> float:
    """f = w . x over the features in the sample; the others are left out of the step."""
    recall(rows, row, m, seen)
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    known, chosen, slot_of, weight, touched = seen.known, sample.chosen, m.slot_of, m.weight, m.touched
    many = len(known) > MANY and end + DISTANCE <= len(indices)
    f = 0.0
    for j in range(first, end):
        if many:
            prefetch(known, indices[j + DISTANCE])
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
def score_selected(rows: Rows, row: int, m: Model) -> float:
    """f = w . x; features without a weight are left out of the step."""
    f = slots.score_row(rows, row, m)
    touched = m.touched
    for i in range(rows.indptr[row + 1] - rows.indptr[row]):
        if touched[i] == 0:
            touched[i] = -1
    return f


@kernel
def step_row(rows: Rows, row: int, m: Model, known: float, new: float) -> int:
    """w <- w + known x where there is a weight, + new x where there is none. The number of entrants."""
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    weight, touched, entrant, entrant_name = m.weight, m.touched, m.entrant, m.entrant_name
    entrants = 0
    for j in range(first, end):
        slot = touched[j - first]
        if slot > 0:
            weight[slot] = bounded(weight[slot] + known * values[j])
        elif slot == 0:
            entrant[entrants] = bounded(new * values[j])
            entrant_name[entrants] = indices[j]
            entrants += entrant[entrants] != 0.0
    return entrants
