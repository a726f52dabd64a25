"""Weights for as many features as there are: slots as in `slots`, but no step looks at more than its row.

w = scale * weight: a uniform shrink costs one multiplication. A feature whose weight becomes 0 gives up its slot
at once; the last slot moves there. Which slots have changed hands since the names were settled is kept in a log.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.choice import fingerprint
from sluiceway.operators.kernels.slots import ACTIVE, Model, Rows, bounded, find_slots, seat
from sluiceway.operators.kernels.truncation import nth_smallest

SCALE, SQUARES, SHRUNK = 0, 1, 2
IGNORED, STALE, LOGGED = 0, 1, 2

_SMALLEST_SCALE = 2.0**-300
_TIDY_AFTER = 1024


class Dense(NamedTuple):
    """What such a learner has beyond `Model`."""

    numbers: NDArray[np.float64]
    """[SCALE], [SQUARES]: ||w||^2 where it is followed, [SHRUNK]: all soft thresholds so far where they wait."""
    tally: NDArray[np.int64]
    """[IGNORED]: non-zero values of labelled rows left out at the limit, [STALE]: steps since all weights were gone
    through, [LOGGED]."""
    shrunk: NDArray[np.float64]
    """By slot, the part of [SHRUNK] that its weight has had already; empty where no threshold waits."""
    log: NDArray[np.int64]
    """`log[:tally[LOGGED]]`: the slots that have changed hands."""
    logged: NDArray[np.bool_]
    """By slot, whether it is in the log."""
    whole: NDArray[np.float64]
    """Scratch, by slot: the weights as they are."""


@kernel
def score_scaled(rows: Rows, row: int, m: Model, d: Dense) -> float:
    """f = w . x, summed in the order of the record."""
    find_slots(rows, row, m)
    first = rows.indptr[row]
    scale = d.numbers[SCALE]
    f = 0.0
    for j in range(first, rows.indptr[row + 1]):
        f += (scale * m.weight[m.touched[j - first]]) * rows.values[j]
    return bounded(f)


@kernel
def leave_out_newcomers(rows: Rows, row: int, m: Model, d: Dense, limit: int) -> None:
    """Of more new features than the limit allows, those with the smallest keys come in; the others are ignored."""
    first, end = rows.indptr[row], rows.indptr[row + 1]
    room = limit - m.counts[ACTIVE]
    if room >= end - first or room >= _without_slot(m.touched[: end - first]):
        return
    n = 0
    for j in range(first, end):
        if m.touched[j - first] == 0 and rows.values[j] != 0.0:
            m.ordering[n] = m.name_key[rows.indices[j]]
            n += 1
    if n <= room:
        return
    last = nth_smallest(m.ordering, n, room) if room > 0 else np.int64(-1)
    for j in range(first, end):
        if m.touched[j - first] == 0 and rows.values[j] != 0.0:
            if room > 0 and m.name_key[rows.indices[j]] <= last:
                room -= 1
            else:
                m.touched[j - first] = -1
                d.tally[IGNORED] += 1


@kernel
def _without_slot(touched: NDArray[np.int32]) -> int:
    """How many of a row's features have none: no branch, so a model at its limit is hardly slower."""
    n = 0
    for slot in touched:
        n += slot == 0
    return n


@kernel
def add_row(rows: Rows, row: int, m: Model, d: Dense, step: float, inverse: float) -> int:
    """w <- w + step inverse^2 x, after a score of the same row. The number of entrants."""
    return spread_row(rows, row, m, bounded(step * inverse / d.numbers[SCALE]), inverse)


@kernel
def spread_row(rows: Rows, row: int, m: Model, factor: float, inverse: float) -> int:
    """weight <- weight + factor inverse x, whatever the scale. The number of entrants."""
    first = rows.indptr[row]
    entrants = 0
    for j in range(first, rows.indptr[row + 1]):
        slot = m.touched[j - first]
        change = factor * (rows.values[j] * inverse)
        if slot > 0:
            m.weight[slot] = bounded(m.weight[slot] + change)
        elif slot == 0:
            m.entrant[entrants] = bounded(change)
            m.entrant_name[entrants] = rows.indices[j]
            entrants += change != 0.0
    return entrants


@kernel
def settle_row(rows: Rows, row: int, m: Model, d: Dense, entrants: int, least: float) -> None:
    """Slots of the row whose |weight| is at most `least` are given up, entrants above it get one."""
    first = rows.indptr[row]
    entering = 0
    for e in range(entrants):
        if abs(m.entrant[e]) > least:
            m.entrant[entering] = m.entrant[e]
            m.entrant_name[entering] = m.entrant_name[e]
            entering += 1
    vacant = 0
    for j in range(first, rows.indptr[row + 1]):
        slot = m.touched[j - first]
        if slot > 0 and rows.values[j] != 0.0 and abs(m.weight[slot]) <= least:
            m.weight[slot] = 0.0
            m.ordering[vacant] = slot
            vacant += 1
    _change_hands(m, d, entering, vacant)


@kernel
def settle_all(m: Model, d: Dense, entrants: int) -> None:
    """After a step that may have set any weight to 0; no entrant has weight 0."""
    vacant = 0
    for slot in range(1, m.counts[ACTIVE] + 1):
        m.ordering[vacant] = slot
        vacant += m.weight[slot] == 0.0
    _change_hands(m, d, entrants, vacant)


@kernel
def _change_hands(m: Model, d: Dense, entering: int, vacant: int) -> None:
    """Entrants take the vacant slots, which are in `ordering`, in turn; slots left over are filled from the end."""
    for i in range(vacant):
        name = m.local[m.ordering[i]]
        if name >= 0:
            m.slot_of[name] = 0
    for e in range(entering):
        if e < vacant:
            _take(m, d, m.ordering[e], e)
        else:
            m.counts[ACTIVE] += 1
            _take(m, d, m.counts[ACTIVE], e)
    for i in range(entering, vacant):
        _fill(m, d, m.ordering[i])


@kernel
def _take(m: Model, d: Dense, slot: int, e: int) -> None:
    seat(m, slot, e)
    if len(d.shrunk) > 0:
        d.shrunk[slot] = d.numbers[SHRUNK]
    _log(d, slot)


@kernel
def _fill(m: Model, d: Dense, slot: int) -> None:
    """The last slot that is not vacant itself moves into this one."""
    last = m.counts[ACTIVE]
    while last > 0 and m.weight[last] == 0.0:
        last -= 1
    m.counts[ACTIVE] = last
    if slot > last:
        return
    m.weight[slot] = m.weight[last]
    m.key[slot] = m.key[last]
    m.since[slot] = m.since[last]
    m.held[slot] = m.held[last]
    m.local[slot] = m.local[last]
    if m.local[slot] >= 0:
        m.slot_of[m.local[slot]] = slot
    if len(d.shrunk) > 0:
        d.shrunk[slot] = d.shrunk[last]
    m.weight[last] = 0.0
    m.counts[ACTIVE] = last - 1
    _log(d, slot)


@kernel
def _log(d: Dense, slot: int) -> None:
    if not d.logged[slot]:
        d.logged[slot] = True
        d.log[d.tally[LOGGED]] = slot
        d.tally[LOGGED] += 1


@kernel
def shrink(m: Model, d: Dense, factor: float) -> None:
    """w <- factor w."""
    d.numbers[SCALE] *= factor
    if d.numbers[SCALE] < _SMALLEST_SCALE:
        for slot in range(1, m.counts[ACTIVE] + 1):
            m.weight[slot] *= d.numbers[SCALE]
        d.numbers[SCALE] = 1.0
        settle_all(m, d, 0)


@kernel
def is_stale(m: Model, d: Dense) -> bool:
    """Whether it is time to go through all weights: so seldom that a step pays for one weight."""
    d.tally[STALE] += 1
    if d.tally[STALE] < max(_TIDY_AFTER, m.counts[ACTIVE]):
        return False
    d.tally[STALE] = 0
    return True


@kernel
def selected_now(m: Model, d: Dense, k: int, keep: float) -> np.uint64:
    """A fingerprint of the features that are selected."""
    weigh_scaled(m, d.numbers[SCALE], d.whole)
    return fingerprint(d.whole, m.key, m.counts[ACTIVE], k, keep, m.ordering)


@kernel
def weigh_scaled(m: Model, scale: float, whole: NDArray[np.float64]) -> None:
    """The weights as they are, by slot."""
    for slot in range(1, m.counts[ACTIVE] + 1):
        whole[slot] = scale * m.weight[slot]
