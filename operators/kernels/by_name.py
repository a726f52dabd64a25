"""Weights by name: how the rows of a batch meet a model with a weight for every feature.

w = scale * weight: a uniform shrink costs one multiplication.

Where names are many, each look at memory that no cache holds is waited for, and a row's time is little else. While a
batch's names are bound, the weights of its features therefore stand in the order of the names: a row finds them with
one look each, not with one for the slot and one for what stands in it. Slots are looked at where a weight becomes 0
or ceases to be; when all weights are gone through; and when the names change. `to_slots` and `to_names` carry the
weights over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel
from sluiceway.operators.kernels.ahead import AHEAD, MANY, ask_for
from sluiceway.operators.kernels.choice import fingerprint
from sluiceway.operators.kernels.dense import SCALE, Dense, change_hands, give_up_zeros, know_keys
from sluiceway.operators.kernels.slots import ACTIVE, Model, Rows, bounded

_SMALLEST_SCALE = 2.0**-300


@kernel
def to_slots(m: Model, d: Dense) -> None:
    weight, local, by_name = m.weight, m.local, d.by_name
    for slot in range(1, m.counts[ACTIVE] + 1):
        if local[slot] >= 0:
            weight[slot] = by_name[local[slot]]


@kernel
def to_names(m: Model, d: Dense) -> None:
    """Before slots are given up: a weight that has become 0 is 0 by name too."""
    weight, local, by_name = m.weight, m.local, d.by_name
    for slot in range(1, m.counts[ACTIVE] + 1):
        if local[slot] >= 0:
            by_name[local[slot]] = weight[slot]


@inlined
def score_by_name(rows: Rows, row: int, m: Model, d: Dense) -> float:
    """f = w . x, summed in the order of the record."""
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    by_name, found, touched, scale = d.by_name, d.found, m.touched, d.numbers[SCALE]
    f = 0.0
    if len(by_name) > MANY and end + AHEAD <= len(indices):
        for j in range(first, end):
            ask_for(by_name, indices[j + AHEAD])
            found[j - first] = by_name[indices[j]]
            touched[j - first] = 0
            f += (scale * found[j - first]) * values[j]
    else:
        for j in range(first, end):
            found[j - first] = by_name[indices[j]]
            touched[j - first] = 0
            f += (scale * found[j - first]) * values[j]
    return bounded(f)


@inlined
def add_row(rows: Rows, row: int, m: Model, d: Dense, step: float, inverse: float) -> None:
    """w <- w + step inverse^2 x, after a score of the same row."""
    spread_row(rows, row, m, d, bounded(step * inverse / d.numbers[SCALE]), inverse)


@inlined
def spread_row(rows: Rows, row: int, m: Model, d: Dense, factor: float, inverse: float) -> None:
    """weight <- weight + factor inverse x, whatever the scale."""
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    by_name, found, touched, slot_of = d.by_name, d.found, m.touched, m.slot_of
    entrant, entrant_name, ordering = m.entrant, m.entrant_name, m.ordering
    entering = 0
    vacant = 0
    for j in range(first, end):
        if touched[j - first] < 0:
            continue
        name = indices[j]
        before = found[j - first]
        after = bounded(before + factor * (values[j] * inverse))
        by_name[name] = after
        if (before == 0.0) != (after == 0.0):
            if before == 0.0:
                entrant[entering] = after
                entrant_name[entering] = name
                entering += 1
            else:
                ordering[vacant] = slot_of[name]
                vacant += 1
    if entering + vacant > 0:
        _change_hands(m, d, entering, vacant)


@kernel
def _change_hands(m: Model, d: Dense, entering: int, vacant: int) -> None:
    """A call: it is seldom made."""
    change_hands(m, d, entering, vacant)


@inlined
def shrink(m: Model, d: Dense, factor: float) -> None:
    """w <- factor w."""
    d.numbers[SCALE] *= factor
    if d.numbers[SCALE] < _SMALLEST_SCALE:
        _unload(m, d)


@kernel
def _unload(m: Model, d: Dense) -> None:
    """The scale moves into the weights."""
    to_slots(m, d)
    m.weight[1 : m.counts[ACTIVE] + 1] *= d.numbers[SCALE]
    d.numbers[SCALE] = 1.0
    to_names(m, d)
    give_up_zeros(m, d, 0)


@kernel
def selected_now(m: Model, d: Dense, k: int, keep: float) -> np.uint64:
    """A fingerprint of the features that are selected."""
    to_slots(m, d)
    know_keys(m, d)
    weigh_scaled(m, d.numbers[SCALE], d.whole)
    return fingerprint(d.whole, m.key, m.counts[ACTIVE], k, keep, m.ordering)


@kernel
def weigh_scaled(m: Model, scale: float, whole: NDArray[np.float64]) -> None:
    """The weights as they are, by slot, where they are by slot."""
    for slot in range(1, m.counts[ACTIVE] + 1):
        whole[slot] = scale * m.weight[slot]
