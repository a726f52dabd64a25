"""Weights for as many features as there are: slots as in `slots`, but no step looks at more than its row.

A feature whose weight becomes 0 gives up its slot at once; an entrant takes it, or the last slot moves there. Which
slots have changed hands since the names were settled is kept in a log.

Where most weights are not 0 they stand by name as long as a batch's names are bound (`by_name.py`): what the slots of
these hold is old, but not 0. Where thresholds make most of them 0, slots hold them (`waiting.py`).

An array taken out of a named tuple inside a loop is counted anew each time, at the price of the loop's work: loops
that every row runs take their arrays before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel
from sluiceway.operators.kernels.slots import ACTIVE, VERSION, Model, Rows, bounded, find_slots
from sluiceway.operators.kernels.truncation import nth_smallest

SCALE, SQUARES, SHRUNK = 0, 1, 2
IGNORED, STALE, LOGGED, HAND, COUNTED = 0, 1, 2, 3, 4

_TIDY_AFTER = 1024


class Dense(NamedTuple):
    """What such a learner has beyond `Model`."""

    numbers: NDArray[np.float64]
    """[SCALE], [SQUARES]: ||w||^2 where it is followed, [SHRUNK]: all soft thresholds so far where they wait."""
    tally: NDArray[np.int64]
    """[IGNORED]: non-zero values of labelled rows left out at the limit, [STALE]: steps since all weights were gone
    through, [LOGGED]; where thresholds wait [HAND]: the slot last looked at for one to take over, and [COUNTED]:
    weights that were not 0 when all were gone through, and those that have become so since."""
    # by slot
    log: NDArray[np.int64]
    """`log[:tally[LOGGED]]`: the slots that have changed hands."""
    logged: NDArray[np.bool_]
    """Whether it is in the log."""
    whole: NDArray[np.float64]
    """Scratch: the weights as they are."""
    # by index in the batch's names
    by_name: NDArray[np.float64]
    """The weight, 0 where there is none; empty where weights stand by slot."""
    # scratch, by place in the row
    found: NDArray[np.float64]
    """The weights that the row has met."""


@inlined
def change_hands(m: Model, d: Dense, entering: int, vacant: int) -> None:
    """Entrants take the vacant slots, which are in `ordering`, in turn; slots left over are filled from the end.

    Keys wait for `know_keys`: of the many that enter, few may stay.
    """
    weight, since, local, slot_of, ordering = m.weight, m.since, m.local, m.slot_of, m.ordering
    key, held, entrant, entrant_name, log, logged = m.key, m.held, m.entrant, m.entrant_name, d.log, d.logged
    active, noted, version = m.counts[ACTIVE], d.tally[LOGGED], m.counts[VERSION]
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
        if not logged[slot]:
            logged[slot] = True
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
        held[slot] = held[active]
        local[slot] = local[active]
        if local[slot] >= 0:
            slot_of[local[slot]] = slot
        weight[active] = 0.0
        active -= 1
        if not logged[slot]:
            logged[slot] = True
            log[noted] = slot
            noted += 1
    m.counts[ACTIVE], d.tally[LOGGED] = active, noted


@kernel
def know_keys(m: Model, d: Dense) -> None:
    """The keys of features that have come from the batch since its names were bound."""
    for i in range(d.tally[LOGGED]):
        slot = d.log[i]
        if slot <= m.counts[ACTIVE] and m.local[slot] >= 0:
            m.key[slot] = m.name_key[m.local[slot]]


@kernel
def give_up_zeros(m: Model, d: Dense, entering: int) -> None:
    """After a step that may have set any weight to 0, by slot; no entrant has weight 0."""
    weight, ordering = m.weight, m.ordering
    vacant = 0
    for slot in range(1, m.counts[ACTIVE] + 1):
        ordering[vacant] = slot
        vacant += weight[slot] == 0.0
    change_hands(m, d, entering, vacant)


@inlined
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


@inlined
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
                d.tally[IGNORED] += 1


@inlined
def is_stale(m: Model, d: Dense) -> bool:
    """Whether it is time to go through all weights: so seldom that a step pays for one weight."""
    d.tally[STALE] += 1
    if d.tally[STALE] < max(_TIDY_AFTER, m.counts[ACTIVE]):
        return False
    d.tally[STALE] = 0
    return True
