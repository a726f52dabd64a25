"""Weights as one scale times what stands in the slots, inside an L1 ball: shrinking all of them costs nothing.

w = scale · m.weight, and Σ|m.weight| is carried along, made anew from the slots about once for every slot that has
changed. A weight below 2**-600 counts as 0: with the scale never far below 2**-400, no product leaves the range.
When the scale gets there, its power of two moves into the slots, which is exact.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel
from sluiceway.operators.kernels.ahead import MANY, ask_for
from sluiceway.operators.kernels.fringe import SEATED, Fringe, admit, forget, note_all, vacate, watch
from sluiceway.operators.kernels.slots import ACTIVE, Model, Rows, bounded, find_slots, settle
from sluiceway.operators.kernels.truncation import truncate

SCALE, TOTAL, STALE, ALL = 0, 1, 2, 3
"""In `lazy`: the scale; Σ|m.weight|; how many changes of a slot ago that was made anew; whether all slots
have changed in this row."""

_SMALL = 2.0**-400
_LARGE = 2.0**60
_HUGE = 2.0**400
_NOTHING = 2.0**-600


@inlined
def score_row(rows: Rows, row: int, m: Model, scale: float) -> float:
    """f = w . x, summed in the order of the record."""
    find_slots(rows, row, m)
    first, end, values, weight, touched = rows.indptr[row], rows.indptr[row + 1], rows.values, m.weight, m.touched
    f = 0.0
    for j in range(first, end):
        f += scale * weight[touched[j - first]] * values[j]
    return bounded(f)


@inlined
def step_row(rows: Rows, row: int, m: Model, lazy: NDArray[np.float64], step: float, inverse: float) -> int:
    """w <- w + step inverse x, after `score_row` of the same row. The number of entrants."""
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    weight, touched, entrant, entrant_name, name_key = m.weight, m.touched, m.entrant, m.entrant_name, m.name_key
    largest = 0.0
    for j in range(first, end):
        largest = max(largest, abs(step * (values[j] * inverse)))
    wild = largest >= _LARGE or lazy[SCALE] * lazy[TOTAL] >= _LARGE
    if wild:
        unload(m, lazy)
    scale, total, stale = lazy[SCALE], lazy[TOTAL], lazy[STALE]
    unscaled = 1.0 / scale
    many = len(name_key) > MANY
    entrants = 0
    for j in range(first, end):
        slot = touched[j - first]
        change = bounded(step * (values[j] * inverse) * unscaled)
        if slot > 0:
            before = weight[slot]
            after = bounded(before + change)
            if scale * abs(after) < _NOTHING:
                after = 0.0
            weight[slot] = after
            total += abs(after) - abs(before)
            stale += 1.0
        elif slot == 0:
            entrant[entrants] = change
            entrant_name[entrants] = indices[j]
            entrants += scale * abs(change) >= _NOTHING
            if many:
                ask_for(name_key, indices[j])
    lazy[TOTAL], lazy[STALE] = total, stale
    if wild:
        add_up(m, lazy)
    return entrants


@inlined
def project(m: Model, entrants: int, lazy: NDArray[np.float64], radius: float) -> None:
    """w <- min(1, radius / ‖w‖₁) w, entrants included."""
    total, entrant = lazy[TOTAL], m.entrant
    for e in range(entrants):
        total += abs(entrant[e])
    length = lazy[SCALE] * total
    if length > _HUGE:
        _project_huge(m, entrants, lazy, radius)
    elif length > radius:
        lazy[SCALE] *= radius / length


@kernel
def _project_huge(m: Model, entrants: int, lazy: NDArray[np.float64], radius: float) -> None:
    """The same where sums may have left the range: all is brought down by a power of two first."""
    factor = 2.0**-600
    total = 0.0
    for slot in range(1, m.counts[ACTIVE] + 1):
        m.weight[slot] *= factor
        total += abs(m.weight[slot])
    for e in range(entrants):
        m.entrant[e] *= factor
        total += abs(m.entrant[e])
    lazy[SCALE] = radius / total
    _forget_nothing(m, lazy)
    for e in range(entrants):
        if lazy[SCALE] * abs(m.entrant[e]) < _NOTHING:
            m.entrant[e] = 0.0


@kernel
def _forget_nothing(m: Model, lazy: NDArray[np.float64]) -> None:
    for slot in range(1, m.counts[ACTIVE] + 1):
        if lazy[SCALE] * abs(m.weight[slot]) < _NOTHING:
            m.weight[slot] = 0.0
    lazy[ALL] = 1.0
    add_up(m, lazy)


@kernel
def add_up(m: Model, lazy: NDArray[np.float64]) -> None:
    """In four sums, so that additions need not wait for each other."""
    active = m.counts[ACTIVE]
    a = b = c = d = 0.0
    whole = 1 + active // 4 * 4
    for slot in range(1, whole, 4):
        a += abs(m.weight[slot])
        b += abs(m.weight[slot + 1])
        c += abs(m.weight[slot + 2])
        d += abs(m.weight[slot + 3])
    for slot in range(whole, active + 1):
        a += abs(m.weight[slot])
    lazy[TOTAL] = (a + b) + (c + d)
    lazy[STALE] = 0.0


@kernel
def unload(m: Model, lazy: NDArray[np.float64]) -> None:
    """The scale's power of two moves into the slots; their sum is to be made anew."""
    mantissa, exponent = math.frexp(lazy[SCALE])
    factor = math.ldexp(1.0, exponent)
    for slot in range(1, m.counts[ACTIVE] + 1):
        m.weight[slot] *= factor
    lazy[SCALE] = mantissa
    lazy[ALL] = 1.0


@inlined
def keep_largest(
    rows: Rows, row: int, m: Model, fringe: Fringe, entrants: int, k: int, lazy: NDArray[np.float64]
) -> bool:
    """w <- truncate(w, k), after the step of the row. Whether the set of non-zero weights changed."""
    changed = False
    if lazy[ALL] != 0.0:
        changed = _vacate_zeros(m, fringe, lazy)
    elif watch(rows, row, m, fringe):
        changed = True
        first = rows.indptr[row]
        for j in range(first, rows.indptr[row + 1]):
            slot = m.slot_of[rows.indices[j]]
            if m.touched[j - first] > 0 and m.weight[slot] == 0.0:
                vacate(fringe, m, slot)
    entrant, entrant_name = m.entrant, m.entrant_name
    arriving = 0
    for e in range(entrants):
        entrant[arriving] = entrant[e]
        entrant_name[arriving] = entrant_name[e]
        arriving += entrant[e] != 0.0
    lazy[TOTAL] += admit(fringe, m, arriving, k)
    lazy[STALE] += arriving
    changed |= fringe.counts[SEATED] > 0
    if lazy[STALE] > m.counts[ACTIVE]:
        add_up(m, lazy)
    if lazy[SCALE] < _SMALL:
        unload(m, lazy)
        _forget_nothing(m, lazy)
        changed |= _vacate_zeros(m, fringe, lazy)
    return bool(changed)


@kernel
def _vacate_zeros(m: Model, fringe: Fringe, lazy: NDArray[np.float64]) -> bool:
    lazy[ALL] = 0.0
    forget(fringe)
    active = m.counts[ACTIVE]
    for slot in range(active, 0, -1):
        if m.weight[slot] == 0.0:
            vacate(fringe, m, slot)
    return bool(m.counts[ACTIVE] < active)


@kernel
def keep_few(m: Model, fringe: Fringe, entrants: int, k: int, lazy: NDArray[np.float64]) -> bool:
    """The same where k is so small that going through all weights is quicker than the fringe, which stays empty."""
    return _end_row(m, fringe, lazy, truncate(m, entrants, k))


@kernel
def keep_non_zero(m: Model, fringe: Fringe, entrants: int, lazy: NDArray[np.float64]) -> bool:
    """Slots are given up and taken. Whether the set of non-zero weights changed."""
    return _end_row(m, fringe, lazy, settle(m, entrants))


@kernel
def _end_row(m: Model, fringe: Fringe, lazy: NDArray[np.float64], changed: bool) -> bool:
    if lazy[SCALE] < _SMALL:
        unload(m, lazy)
        _forget_nothing(m, lazy)
        changed |= settle(m, 0)
    lazy[ALL] = 0.0
    add_up(m, lazy)
    note_all(fringe)
    return changed
