"""Lazy scaling inside an L1 ball: w = scale * weight, so that shrinking all weights is one multiplication.

Σ|weight| is kept up to date with every change (`head.total`) and computed again from the slots when as many changes
have been made as there are slots (`head.stale`), so that rounding errors do not add up. A weight below 2**-600 counts
as 0: with a scale never far below 2**-400, no product leaves the range of floats. When the scale gets that small, its
power of two moves into the slots, which is exact.
"""

from __future__ import annotations

import math

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.prefetch import MANY, prefetch
from sluiceway.operators.kernels.sparse.bucket_queue import BucketQueue, admit, forget, note_all, vacate, watch
from sluiceway.operators.kernels.sparse.slots import Model, Rows, bounded, find_slots, settle
from sluiceway.operators.kernels.sparse.truncation import truncate

_SMALL = 2.0**-400
_LARGE = 2.0**60
_HUGE = 2.0**400
_NOTHING = 2.0**-600


@kernel
def score_row(rows: Rows, row: int, m: Model, scale: float) -> float:
    """f = w . x, summed in the order of the record."""
    find_slots(rows, row, m)
    first, end, values, weight, touched = rows.indptr[row], rows.indptr[row + 1], rows.values, m.weight, m.touched
    f = 0.0
    for j in range(first, end):
        f += scale * weight[touched[j - first]] * values[j]
    return bounded(f)


@kernel
def step_row(rows: Rows, row: int, m: Model, step: float, inverse: float) -> int:
    """w <- w + step inverse x, after `score_row` of the same row. The number of entrants."""
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    weight, touched, entrant, entrant_name, name_key = m.weight, m.touched, m.entrant, m.entrant_name, m.name_key
    largest = 0.0
    for j in range(first, end):
        largest = max(largest, abs(step * (values[j] * inverse)))
    wild = largest >= _LARGE or m.head[0].scale * m.head[0].total >= _LARGE
    if wild:
        unload(m)
    scale, total, stale = m.head[0].scale, m.head[0].total, m.head[0].stale
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
            stale += 1
        elif slot == 0:
            entrant[entrants] = change
            entrant_name[entrants] = indices[j]
            entrants += scale * abs(change) >= _NOTHING
            if many:
                prefetch(name_key, indices[j])
    m.head[0].total, m.head[0].stale = total, stale
    if wild:
        add_up(m)
    return entrants


@kernel
def project(m: Model, entrants: int, radius: float) -> None:
    """w <- min(1, radius / ‖w‖₁) w, entrants included."""
    total, entrant = m.head[0].total, m.entrant
    for e in range(entrants):
        total += abs(entrant[e])
    length = m.head[0].scale * total
    if length > _HUGE:
        _project_huge(m, entrants, radius)
    elif length > radius:
        m.head[0].scale *= radius / length


@kernel
def _project_huge(m: Model, entrants: int, radius: float) -> None:
    """The same where sums may have left the range: all is brought down by a power of two first."""
    factor = 2.0**-600
    total = 0.0
    for slot in range(1, m.head[0].active + 1):
        m.weight[slot] *= factor
        total += abs(m.weight[slot])
    for e in range(entrants):
        m.entrant[e] *= factor
        total += abs(m.entrant[e])
    m.head[0].scale = radius / total
    _forget_nothing(m)
    for e in range(entrants):
        if m.head[0].scale * abs(m.entrant[e]) < _NOTHING:
            m.entrant[e] = 0.0


@kernel
def _forget_nothing(m: Model) -> None:
    for slot in range(1, m.head[0].active + 1):
        if m.head[0].scale * abs(m.weight[slot]) < _NOTHING:
            m.weight[slot] = 0.0
    m.head[0].all_moved = 1
    add_up(m)


@kernel
def add_up(m: Model) -> None:
    """In four sums, so that additions need not wait for each other."""
    active = m.head[0].active
    a = b = c = d = 0.0
    whole = 1 + active // 4 * 4
    for slot in range(1, whole, 4):
        a += abs(m.weight[slot])
        b += abs(m.weight[slot + 1])
        c += abs(m.weight[slot + 2])
        d += abs(m.weight[slot + 3])
    for slot in range(whole, active + 1):
        a += abs(m.weight[slot])
    m.head[0].total = (a + b) + (c + d)
    m.head[0].stale = 0


@kernel
def unload(m: Model) -> None:
    """The scale's power of two moves into the slots; their sum is to be made anew."""
    mantissa, exponent = math.frexp(m.head[0].scale)
    factor = math.ldexp(1.0, exponent)
    for slot in range(1, m.head[0].active + 1):
        m.weight[slot] *= factor
    m.head[0].scale = mantissa
    m.head[0].all_moved = 1


@kernel
def keep_largest(rows: Rows, row: int, m: Model, queue: BucketQueue, entrants: int, k: int) -> bool:
    """w <- truncate(w, k), after the step of the row. Whether the set of non-zero weights changed."""
    changed = False
    if m.head[0].all_moved != 0:
        changed = _vacate_zeros(m, queue)
    elif watch(rows, row, m, queue):
        changed = True
        first = rows.indptr[row]
        for j in range(first, rows.indptr[row + 1]):
            slot = m.slot_of[rows.indices[j]]
            if m.touched[j - first] > 0 and m.weight[slot] == 0.0:
                vacate(queue, m, slot)
    entrant, entrant_name = m.entrant, m.entrant_name
    arriving = 0
    for e in range(entrants):
        entrant[arriving] = entrant[e]
        entrant_name[arriving] = entrant_name[e]
        arriving += entrant[e] != 0.0
    m.head[0].total += admit(queue, m, arriving, k)
    m.head[0].stale += arriving
    changed |= queue.head[0].seated > 0
    if m.head[0].stale > m.head[0].active:
        add_up(m)
    if m.head[0].scale < _SMALL:
        unload(m)
        _forget_nothing(m)
        changed |= _vacate_zeros(m, queue)
    return bool(changed)


@kernel
def _vacate_zeros(m: Model, queue: BucketQueue) -> bool:
    m.head[0].all_moved = 0
    forget(queue)
    active = m.head[0].active
    for slot in range(active, 0, -1):
        if m.weight[slot] == 0.0:
            vacate(queue, m, slot)
    return bool(m.head[0].active < active)


@kernel
def keep_few(m: Model, queue: BucketQueue, entrants: int, k: int) -> bool:
    """The same where k is so small that going through all weights is quicker than the queue, which stays empty."""
    return _end_row(m, queue, truncate(m, entrants, k))


@kernel
def keep_non_zero(m: Model, queue: BucketQueue, entrants: int) -> bool:
    """Slots are given up and taken. Whether the set of non-zero weights changed."""
    return _end_row(m, queue, settle(m, entrants))


@kernel
def _end_row(m: Model, queue: BucketQueue, changed: bool) -> bool:
    if m.head[0].scale < _SMALL:
        unload(m)
        _forget_nothing(m)
        changed |= settle(m, 0)
    m.head[0].all_moved = 0
    add_up(m)
    note_all(queue, m)
    return changed
