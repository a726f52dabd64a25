"""Weights by bound name: how rows are scored and added where most features have a weight.

w = scale * weight: shrinking all weights is one multiplication.

Where names are many, the time of a row is the time of its cache misses. While names are bound, their weights therefore
stand in the order of the names: a row finds each with one access to memory, not with one for the slot and another for
the weight in it. Slots are needed only where a weight becomes 0 or stops being 0, where all weights are visited, and
when other names are bound. `to_slots` and `to_names` copy the weights from one order to the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.dense.selection import fingerprint
from sluiceway.operators.kernels.dense.storage import Dense, change_hands, give_up_zeros, know_keys
from sluiceway.operators.kernels.prefetch import DISTANCE, MANY, prefetch
from sluiceway.operators.kernels.sparse.slots import Model, Rows, bounded

_SMALLEST_SCALE = 2.0**-300


@kernel
def to_slots(m: Model, d: Dense) -> None:
    """Weights by slot, brought up to date from those by name."""
    weight, local, by_name = m.weight, m.local, d.by_name
    for slot in range(1, m.head[0].active + 1):
        if local[slot] >= 0:
            weight[slot] = by_name[local[slot]]


@kernel
def to_names(m: Model, d: Dense) -> None:
    """The other way round. Before slots are given up, so that a weight that has become 0 is 0 by name too."""
    weight, local, by_name = m.weight, m.local, d.by_name
    for slot in range(1, m.head[0].active + 1):
        if local[slot] >= 0:
            by_name[local[slot]] = weight[slot]


@kernel
def score_by_name(rows: Rows, row: int, m: Model, d: Dense) -> float:
    """f = w . x, summed in the order of the record."""
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    by_name, found, touched, scale = d.by_name, d.found, m.touched, m.head[0].scale
    f = 0.0
    if len(by_name) > MANY and end + DISTANCE <= len(indices):
        for j in range(first, end):
            prefetch(by_name, indices[j + DISTANCE])
            found[j - first] = by_name[indices[j]]
            touched[j - first] = 0
            f += (scale * found[j - first]) * values[j]
    else:
        for j in range(first, end):
            found[j - first] = by_name[indices[j]]
            touched[j - first] = 0
            f += (scale * found[j - first]) * values[j]
    return bounded(f)


@kernel
def add_row(rows: Rows, row: int, m: Model, d: Dense, step: float, inverse: float) -> None:
    """w <- w + step inverse^2 x, after a score of the same row."""
    spread_row(rows, row, m, d, bounded(step * inverse / m.head[0].scale), inverse)


@kernel
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
    """Not inlined: it runs seldom."""
    change_hands(m, d, entering, vacant)


@kernel
def shrink(m: Model, d: Dense, factor: float) -> None:
    """w <- factor w."""
    m.head[0].scale *= factor
    if m.head[0].scale < _SMALLEST_SCALE:
        _scale_into_weights(m, d)


@kernel
def _scale_into_weights(m: Model, d: Dense) -> None:
    """Before the scale leaves the range of floats."""
    to_slots(m, d)
    weight, scale = m.weight, m.head[0].scale
    for slot in range(1, m.head[0].active + 1):
        weight[slot] *= scale
    m.head[0].scale = 1.0
    to_names(m, d)
    give_up_zeros(m, d, 0)


@kernel
def selected_now(m: Model, d: Dense, k: int, keep: float) -> np.uint64:
    """A fingerprint of the features that are selected."""
    to_slots(m, d)
    know_keys(m, d)
    weights_scaled(m, d.current)
    return fingerprint(d.current, m.key, m.head[0].active, k, keep, m.ordering)


@kernel
def weights_scaled(m: Model, current: NDArray[np.float64]) -> None:
    """The weights themselves, by slot; those by slot are up to date."""
    scale = m.head[0].scale
    for slot in range(1, m.head[0].active + 1):
        current[slot] = scale * m.weight[slot]
