"""A dense linear model: a weight for every feature, in the slots of a sparse model; a step touches its row alone.

A feature whose weight becomes 0 gives up its slot at once; an entrant takes it, or the last slot moves there. A log
keeps the slots that were given another name since Python last asked which name stands where.

There are two ways to keep the weights. Where most are not 0, they stand by bound name while names are bound
(`weights_by_name.py`), and the slots hold outdated values that only say that a weight is not 0. Where soft thresholds
make most of them 0, the slots hold them (`lazy_thresholds.py`).

Taking an array out of a named tuple costs Numba a reference count each time. Loops that run for every row take their
arrays before they start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.numbers.order_statistics import nth_smallest
from sluiceway.operators.kernels.sparse.slots import Model, Rows, bounded, find_slots

_TIDY_AFTER = 1024


class Dense(NamedTuple):
    """What a dense model has beyond `Model`."""

    # by slot
    log: NDArray[np.int64]
    """`log[:head.logged]`: the slots that were given another name."""
    in_log: NDArray[np.bool_]
    """Whether the slot is in the log."""
    current: NDArray[np.float64]
    """Scratch: the weights themselves, with scale or thresholds applied."""
    # by bound name
    by_name: NDArray[np.float64]
    """The weight, 0 where there is none; empty where weights stand by slot."""
    # scratch, by position in the row
    found: NDArray[np.float64]
    """The weight of each non-zero of the row."""


def new_dense() -> Dense:
    """With no slot but slot 0."""
    return Dense(
        log=np.zeros(1, dtype=np.int64),
        in_log=np.zeros(1, dtype=np.bool_),
        current=np.zeros(1),
        by_name=np.zeros(0),
        found=np.zeros(0),
    )


@kernel
def change_hands(m: Model, d: Dense, entering: int, vacant: int) -> None:
    """Entrants take the vacant slots, which stand in `ordering`, in order; slots left over are filled from the end.

    The keys of entrants are looked up later, by `know_keys`: of the many that enter, few may stay.
    """
    weight, since, local, slot_of, ordering = m.weight, m.since, m.local, m.slot_of, m.ordering
    key, origin, entrant, entrant_name, log, in_log = m.key, m.origin, m.entrant, m.entrant_name, d.log, d.in_log
    active, noted, version = m.head[0].active, m.head[0].logged, m.head[0].version
    for e in range(vacant, entering):
        active += 1
        ordering[e] = active
        local[active] = -1
    for e in range(entering):
        slot, name, before = ordering[e], entrant_name[e], local[ordering[e]]
        if before >= 0:
            slot_of[before] = 0
        weight[slot] = entrant[e]
        since[slot] = version
        local[slot] = name
        slot_of[name] = slot
        if not in_log[slot]:
            in_log[slot] = True
            log[noted] = slot
            noted += 1
    for i in range(entering, vacant):
        slot = ordering[i]
        if local[slot] >= 0:
            slot_of[local[slot]] = 0
        weight[slot] = 0.0
    for i in range(entering, vacant):
        while active > 0 and weight[active] == 0.0:
            active -= 1
        slot = ordering[i]
        if slot > active:
            continue
        weight[slot] = weight[active]
        key[slot] = key[active]
        since[slot] = since[active]
        origin[slot] = origin[active]
        local[slot] = local[active]
        if local[slot] >= 0:
            slot_of[local[slot]] = slot
        weight[active] = 0.0
        active -= 1
        if not in_log[slot]:
            in_log[slot] = True
            log[noted] = slot
            noted += 1
    m.head[0].active = active
    m.head[0].logged = noted
    m.head[0].moves += entering + vacant


@kernel
def know_keys(m: Model, d: Dense) -> None:
    """Look up the keys of features that have come since names were bound."""
    for i in range(m.head[0].logged):
        slot = d.log[i]
        if slot <= m.head[0].active and m.local[slot] >= 0:
            m.key[slot] = m.name_key[m.local[slot]]


@kernel
def give_up_zeros(m: Model, d: Dense, entering: int) -> None:
    """After a step that may have set any weight to 0, by slot; no entrant has weight 0."""
    weight, ordering = m.weight, m.ordering
    vacant = 0
    for slot in range(1, m.head[0].active + 1):
        ordering[vacant] = slot
        vacant += weight[slot] == 0.0
    change_hands(m, d, entering, vacant)


@kernel
def score_by_slot(rows: Rows, row: int, m: Model, d: Dense) -> float:
    """f = w . x, summed in the order of the record."""
    find_slots(rows, row, m)
    first, end, values = rows.indptr[row], rows.indptr[row + 1], rows.values
    weight, touched, found = m.weight, m.touched, d.found
    f = 0.0
    for j in range(first, end):
        found[j - first] = weight[touched[j - first]]
        f += found[j - first] * values[j]
    return bounded(f)


@kernel
def room_left(rows: Rows, row: int, m: Model, d: Dense, limit: int) -> int:
    """For how many features more there may be weights."""
    left: int = limit - m.head[0].active
    return left


@kernel
def leave_out_newcomers(rows: Rows, row: int, m: Model, d: Dense, room: int) -> None:
    """Of more new features than there is room for, those with the smallest keys come in; the others are ignored."""
    length = rows.indptr[row + 1] - rows.indptr[row]
    if room < length and room < _without_weight(d.found, length):
        _leave_out(rows, row, m, d, room)


@kernel
def _without_weight(found: NDArray[np.float64], length: int) -> int:
    """How many: no branch, so a model at its limit is hardly slower."""
    n = 0
    for i in range(length):
        n += found[i] == 0.0
    return n


@kernel
def _leave_out(rows: Rows, row: int, m: Model, d: Dense, room: int) -> None:
    first, end = rows.indptr[row], rows.indptr[row + 1]
    n = 0
    for j in range(first, end):
        if d.found[j - first] == 0.0 and rows.values[j] != 0.0:
            m.ordering[n] = m.name_key[rows.indices[j]]
            n += 1
    if n <= room:
        return
    last = nth_smallest(m.ordering, n, room) if room > 0 else np.int64(-1)
    for j in range(first, end):
        if d.found[j - first] == 0.0 and rows.values[j] != 0.0:
            if room > 0 and m.name_key[rows.indices[j]] <= last:
                room -= 1
            else:
                m.touched[j - first] = -1
                m.head[0].ignored += 1


@kernel
def is_stale(m: Model) -> bool:
    """Whether it is time to go through all weights: so seldom that it costs each step about one weight."""
    m.head[0].stale += 1
    if m.head[0].stale < max(_TIDY_AFTER, m.head[0].active):
        return False
    m.head[0].stale = 0
    return True
