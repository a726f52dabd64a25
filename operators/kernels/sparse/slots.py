"""A sparse linear model: weights in slots, how a sparse row is scored, and how features enter and leave.

A model has a slot for each feature whose weight is not 0, numbered from 1 to `head.active`. Slot 0 stands for every
other feature: its weight is always 0, so a row is scored without a branch. A feature with weight 0 has no slot and no
state at all.

Rows name their features by index into a list of names that is *bound* to the model: `slot_of` says in which slot each
bound name stands. Features of a row that have a weight but no slot yet are *entrants*; they wait in scratch arrays
until it is decided which of them stay.

The order of slots follows from the instances alone: entrants take the slots of those that leave, in order, then new
slots at the end. How the instances were batched never shows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.head import Head
from sluiceway.operators.kernels.prefetch import DISTANCE, MANY, prefetch

_LARGEST = float(np.finfo(np.float64).max)


class Rows(NamedTuple):
    """The rows of a batch; kernels never write to them."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    y: NDArray[np.int8]


class Model(NamedTuple):
    """All that a kernel reads and writes of one model."""

    head: Head
    """One record: the numbers of the model as a whole."""
    # by slot
    weight: NDArray[np.float64]
    key: NDArray[np.int64]
    since: NDArray[np.int64]
    origin: NDArray[np.int64]
    """The slot where this name stood when names were bound; 0: it has come since."""
    local: NDArray[np.int32]
    """Its index among the bound names; -1: not there."""
    # by bound name
    slot_of: NDArray[np.int32]
    name_key: NDArray[np.int64]
    # scratch, by position in the row
    touched: NDArray[np.int32]
    """The slot of each non-zero; -1: left out of the step."""
    entrant: NDArray[np.float64]
    """Weights of features that have no slot yet."""
    entrant_name: NDArray[np.int32]
    ordering: NDArray[np.int64]
    """One number for each slot, and two for each entrant."""


@kernel
def bounded(value: float) -> float:
    """Sums of finite numbers that leave the range of floats stay at its end."""
    if np.isnan(value):  # both ends at once
        return 0.0
    return min(max(value, -_LARGEST), _LARGEST)


@kernel
def find_slots(rows: Rows, row: int, m: Model) -> None:
    """The slot of each non-zero."""
    first, end = rows.indptr[row], rows.indptr[row + 1]
    slot_of, touched, indices, weight = m.slot_of, m.touched, rows.indices, m.weight
    if len(slot_of) > MANY and end + DISTANCE <= len(indices):
        if len(weight) > MANY:
            for j in range(first, end):
                prefetch(slot_of, indices[j + DISTANCE])
                prefetch(weight, slot_of[indices[j + DISTANCE // 2]])
                touched[j - first] = slot_of[indices[j]]
        else:
            for j in range(first, end):
                prefetch(slot_of, indices[j + DISTANCE])
                touched[j - first] = slot_of[indices[j]]
    else:
        for j in range(first, end):
            touched[j - first] = slot_of[indices[j]]


@kernel
def score_row(rows: Rows, row: int, m: Model) -> float:
    """f = w . x, summed in the order of the record."""
    find_slots(rows, row, m)
    first, end, values, weight, touched = rows.indptr[row], rows.indptr[row + 1], rows.values, m.weight, m.touched
    f = 0.0
    for j in range(first, end):
        f += weight[touched[j - first]] * values[j]
    return bounded(f)


@kernel
def step_row(rows: Rows, row: int, m: Model, step: float) -> int:
    """w <- w + step x, after `score_row` of the same row. The number of entrants."""
    first, end = rows.indptr[row], rows.indptr[row + 1]
    indices, values = rows.indices[first:end], rows.values[first:end]
    weight, touched, entrant, entrant_name = m.weight, m.touched, m.entrant, m.entrant_name
    entrants = 0
    for j in range(len(values)):
        slot = touched[j]
        change = step * values[j]
        if slot > 0:
            weight[slot] = bounded(weight[slot] + change)
        elif slot == 0:
            entrant[entrants] = bounded(change)
            entrant_name[entrants] = indices[j]
            entrants += change != 0.0
    return entrants


@kernel
def scale(m: Model, entrants: int, factor: float) -> None:
    """w <- factor w."""
    for slot in range(1, m.head[0].active + 1):
        m.weight[slot] *= factor
    for e in range(entrants):
        m.entrant[e] *= factor


@kernel
def norm(m: Model, entrants: int) -> float:
    """||w||_2, in four sums so that additions need not wait for each other."""
    active = m.head[0].active
    a = b = c = d = 0.0
    whole = 1 + active // 4 * 4
    for slot in range(1, whole, 4):
        a += m.weight[slot] * m.weight[slot]
        b += m.weight[slot + 1] * m.weight[slot + 1]
        c += m.weight[slot + 2] * m.weight[slot + 2]
        d += m.weight[slot + 3] * m.weight[slot + 3]
    for slot in range(whole, active + 1):
        a += m.weight[slot] * m.weight[slot]
    whole = entrants // 4 * 4
    for e in range(0, whole, 4):
        a += m.entrant[e] * m.entrant[e]
        b += m.entrant[e + 1] * m.entrant[e + 1]
        c += m.entrant[e + 2] * m.entrant[e + 2]
        d += m.entrant[e + 3] * m.entrant[e + 3]
    for e in range(whole, entrants):
        a += m.entrant[e] * m.entrant[e]
    return math.sqrt((a + b) + (c + d))


@kernel
def settle(m: Model, entrants: int) -> bool:
    """Slots whose weight is 0 are given up, entrants whose weight is not 0 get one. Whether any did."""
    active = m.head[0].active
    entering = 0
    for e in range(entrants):
        if m.entrant[e] != 0.0:
            m.entrant[entering] = m.entrant[e]
            m.entrant_name[entering] = m.entrant_name[e]
            entering += 1
    seated = 0
    vacant = 0
    for slot in range(1, active + 1):
        if m.weight[slot] != 0.0:
            continue
        if m.local[slot] >= 0:
            m.slot_of[m.local[slot]] = 0
        if seated < entering:
            seat(m, slot, seated)
            seated += 1
        else:
            vacant += 1
    if vacant:
        _close_up(m)
    for e in range(seated, entering):
        m.head[0].active += 1
        seat(m, m.head[0].active, e)
    return entering + vacant > 0


@kernel
def seat(m: Model, slot: int, e: int) -> None:
    """The entrant takes the slot."""
    name = m.entrant_name[e]
    m.weight[slot] = m.entrant[e]
    m.key[slot] = m.name_key[name]
    m.since[slot] = m.head[0].version
    m.origin[slot] = 0
    m.local[slot] = name
    m.slot_of[name] = slot
    m.head[0].moves += 1


@kernel
def _close_up(m: Model) -> None:
    """Slots whose weight is 0 disappear; the others keep their order."""
    last = 0
    for slot in range(1, m.head[0].active + 1):
        if m.weight[slot] == 0.0:
            continue
        last += 1
        m.weight[last] = m.weight[slot]
        m.key[last] = m.key[slot]
        m.since[last] = m.since[slot]
        m.origin[last] = m.origin[slot]
        m.local[last] = m.local[slot]
        if m.local[last] >= 0:
            m.slot_of[m.local[last]] = last
    m.head[0].active = last
    m.head[0].moves += 1
