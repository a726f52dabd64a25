"""The k largest weights kept, row after row, without going through all of them: only the smallest are listed.

Every slot with |w| below a bound is in the list, a quarter of all or so, and the list is kept in buckets from small to
large: what must go is found in the first of them and among the entrants, in about as many steps as there are entrants.
When the list has run out it is made anew from all slots, which has then been paid for, four slots for each that had
to go. Where weights are so uneven that most of them share a bucket, the list is kept as short as √(k n) rows' losses
of n. Bound and buckets are read off a sample of the slots and decide nothing but the time. Buckets are even in the
logarithm: a ball that shrinks all weights at every step leaves them spread over many orders of magnitude.

A slot whose weight falls changes its bucket at once; one that grows is found in its old bucket later, and moved.

One factor for all weights changes no order. Sizes are the bits of |w|, which are ordered as the numbers are.
Slots that take or lose a name are noted in `moves`, so that nobody has to look at all slots to find them.

A call with a whole model as argument costs a tenth of a microsecond: loops over slots and entrants make none.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel
from sluiceway.operators.kernels.ahead import MANY, ask_for
from sluiceway.operators.kernels.slots import ACTIVE, VERSION, Model, Rows
from sluiceway.operators.kernels.sorting import sort_slots
from sluiceway.operators.kernels.truncation import nth_smallest

LISTED, SEATED, NEAR, LOW, BUCKETS, BOUND, BASE = 0, 1, 2, 3, 4, 5, 6
Numbers = NDArray[Any]

_NO_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_LEAST = 256
"""Listing fewer does not pay."""
_SAMPLE = 256
_PLACE = 32
_IN_PLACE = (1 << _PLACE) - 1
_MOST = 4096
_FILLING = 64
"""At most so many buckets, of about so many slots each."""
_SPARE = 8
"""Room that a bucket has in any case, beside half as much again as it holds."""
_UNEVEN = 1024
"""A bucket of more is too many, if it has an eighth of the list too."""


class Fringe(NamedTuple):
    """The list, by place and by slot; and the notes."""

    counts: NDArray[np.int64]
    """[LISTED], [SEATED], [NEAR]: how many slots were listed when the list was made; how many entrants the last `admit`
    gave one; how many listed slots are near to what must go. [LOW], [BUCKETS]: buckets below are empty; how many there
    are. [BOUND]: whatever is smaller is listed; [BASE]: the size at which buckets begin."""
    per: NDArray[np.float64]
    """[0]: how many buckets there are to a size of 1."""
    # by bucket
    start: NDArray[np.int64]
    """Where it begins in the list, with room to grow up to the start of the next."""
    filled: NDArray[np.int64]
    """How many slots it has."""
    # by place in the list
    slot: NDArray[np.int32]
    # by slot
    where: NDArray[np.int64]
    """1 + its place in the list, and above _PLACE its bucket: one look at memory for both; 0: not in the list."""
    near: NDArray[np.int32]
    """Scratch: the slots among which those that must go are."""
    moves: NDArray[np.int32]
    """[0] how many slots are noted, from [1] on; more than there is room for: any slot may have moved."""


def fringe_for(slots: int, notes: int) -> Fringe:
    """With room for so many slots and notes; nothing is listed."""
    buckets = min(max(slots // _FILLING, 1), _MOST)
    return Fringe(
        counts=np.zeros(7, dtype=np.int64),
        per=np.zeros(1),
        start=np.zeros(buckets + 1, dtype=np.int64),
        filled=np.zeros(buckets, dtype=np.int64),
        slot=np.zeros(slots + slots // 2 + _SPARE * buckets, dtype=np.int32),
        where=np.zeros(slots + 1, dtype=np.int64),
        near=np.zeros(slots + 1, dtype=np.int32),
        moves=np.zeros(notes + 1, dtype=np.int32),
    )


@kernel
def note(fringe: Fringe, slot: int) -> None:
    fringe.moves[0] = min(fringe.moves[0] + 1, len(fringe.moves))
    if fringe.moves[0] < len(fringe.moves):
        fringe.moves[fringe.moves[0]] = slot


@kernel
def note_all(fringe: Fringe) -> None:
    fringe.moves[0] = len(fringe.moves)


@kernel
def forget(fringe: Fringe) -> None:
    """An empty list, and a bound below which there is nothing."""
    start, filled, listed, where = fringe.start, fringe.filled, fringe.slot, fringe.where
    for g in range(fringe.counts[BUCKETS]):
        for at in range(start[g], start[g] + filled[g]):
            where[listed[at]] = 0
        filled[g] = 0
    fringe.counts[LISTED], fringe.counts[LOW], fringe.counts[BUCKETS], fringe.counts[BOUND] = 0, 0, 0, 0


@inlined
def _bucket_of(size: int, base: int, per: float, buckets: int) -> int:
    """Never a lower one for a larger size."""
    return min(int(max(size - base, 0) * per), buckets - 1)


@inlined
def _list(slot: int, g: int, listed: Numbers, start: Numbers, filled: Numbers, where: Numbers) -> bool:
    """Whether there was room in the bucket."""
    at = start[g] + filled[g]
    if at == start[g + 1]:
        return False
    listed[at] = slot
    where[slot] = (g << _PLACE) + at + 1
    filled[g] += 1
    return True


@inlined
def _unlist(slot: int, listed: Numbers, start: Numbers, filled: Numbers, where: Numbers) -> None:
    """The last slot of its bucket takes its place."""
    g, at = where[slot] >> _PLACE, where[slot] & _IN_PLACE
    filled[g] -= 1
    last = listed[start[g] + filled[g]]
    listed[at - 1] = last
    where[last] = where[slot]
    where[slot] = 0


@inlined
def watch(rows: Rows, row: int, m: Model, fringe: Fringe) -> bool:
    """After the step of the row: whoever has come below the bound is listed. Whether a weight has become 0."""
    weight, touched = m.weight.view(np.int64), m.touched
    listed, start, filled, where = fringe.slot, fringe.start, fringe.filled, fringe.where
    bound, base, per, buckets = fringe.counts[BOUND], fringe.counts[BASE], fringe.per[0], fringe.counts[BUCKETS]
    low = fringe.counts[LOW]
    fits = True
    zeros = False
    for i in range(rows.indptr[row + 1] - rows.indptr[row]):
        slot = touched[i]
        if slot > 0:
            size = weight[slot] & _NO_SIGN
            zeros |= size == 0
            if size < bound:
                g = _bucket_of(size, base, per, buckets)
                if where[slot] > 0:
                    if g >= where[slot] >> _PLACE:
                        continue
                    _unlist(slot, listed, start, filled, where)
                low = min(low, g)
                fits &= _list(slot, g, listed, start, filled, where)
    fringe.counts[LOW] = low
    if not fits:
        forget(fringe)
    return zeros


@kernel
def _relist(fringe: Fringe, m: Model, excess: int) -> None:
    """So many of the smallest that going through all slots is paid for by those that must go before the next time."""
    active = m.counts[ACTIVE]
    short = excess + max(_LEAST, int(math.sqrt(float(active) * excess)))
    if not _list_smallest(fringe, m, max(short, active // 4), excess):
        _list_smallest(fringe, m, short, excess)


@kernel
def _list_smallest(fringe: Fringe, m: Model, wanted: int, needed: int) -> bool:
    """About `wanted`, at least those `needed`, or all there are. Whether buckets are even."""
    active = m.counts[ACTIVE]
    if wanted >= active:
        return _list_below(fringe, m, int(_NO_SIGN), 0, 1)
    buckets = min(max(wanted // _FILLING, 1), len(fringe.filled))
    base, bound = _bound_for(m, wanted, max(active // _SAMPLE, 1))
    even = _list_below(fringe, m, bound, base, buckets)
    if fringe.counts[LISTED] < min(needed, active):  # the sample was not like the rest
        base, bound = _bound_for(m, wanted, 1)
        even = _list_below(fringe, m, bound, base, buckets)
    return even


@kernel
def _bound_for(m: Model, wanted: int, apart: int) -> tuple[int, int]:
    """The smallest size and what `wanted` are below, by one slot of so many `apart`; equal ones are below it too."""
    active = m.counts[ACTIVE]
    sizes, ordering = m.weight[1 : active + 1].view(np.int64), m.ordering
    n = 0
    least = _NO_SIGN
    for i in range(0, active, apart):
        ordering[n] = sizes[i] & _NO_SIGN
        least = min(least, ordering[n])
        n += 1
    return int(least), nth_smallest(ordering, n, min(wanted // apart + 1, n)) + 1


@kernel
def _list_below(fringe: Fringe, m: Model, bound: int, base: int, buckets: int) -> bool:
    """Whether no bucket has far too many."""
    forget(fringe)
    weight, near = m.weight.view(np.int64), fringe.near
    listed, start, filled, where = fringe.slot, fringe.start, fringe.filled, fringe.where
    per = buckets / float(bound - base)
    count = 0
    for slot in range(1, m.counts[ACTIVE] + 1):  # no branch to mispredict
        near[count] = slot
        count += (weight[slot] & _NO_SIGN) < bound
    for i in range(count):
        g = _bucket_of(weight[near[i]] & _NO_SIGN, base, per, buckets)
        where[near[i]] = g << _PLACE
        filled[g] += 1
    largest = 0
    for g in range(buckets):
        start[g + 1] = start[g] + filled[g] + filled[g] // 2 + _SPARE
        largest = max(largest, filled[g])
        filled[g] = 0
    for i in range(count):
        g = where[near[i]] >> _PLACE
        at = start[g] + filled[g]
        listed[at] = near[i]
        where[near[i]] += at + 1
        filled[g] += 1
    fringe.counts[LISTED], fringe.counts[LOW], fringe.counts[BUCKETS] = count, 0, buckets
    fringe.counts[BOUND], fringe.counts[BASE], fringe.per[0] = bound, base, per
    return bool(largest <= max(_UNEVEN, count // 8))


@inlined
def _cut(fringe: Fringe, m: Model, entrants: int, excess: int) -> int:
    """The `excess`-th smallest of listed slots and entrants, all slots up to it in `near`.

    -1 if so many are not below the bound: then slots outside the list may have to go.
    """
    sizes, weight, near = m.ordering, m.weight.view(np.int64), fringe.near
    entrant, local, slot_of = m.entrant.view(np.int64), m.local, m.slot_of
    listed, start, filled, where = fringe.slot, fringe.start, fringe.filled, fringe.where
    bound, base, per, buckets = fringe.counts[BOUND], fringe.counts[BASE], fringe.per[0], fringe.counts[BUCKETS]
    low = fringe.counts[LOW]
    while low < buckets - 1 and filled[low] == 0:
        low += 1
    fringe.counts[LOW] = low
    tail = len(sizes) - entrants  # where the entrants below the bound are put by
    small = 0
    for e in range(entrants):
        sizes[tail + small] = entrant[e] & _NO_SIGN
        small += sizes[tail + small] < bound
    found = -1
    n = 0
    for g in range(low, buckets):
        at = start[g]
        if filled[g] == 0 and g < buckets - 1:
            continue
        while at < start[g] + filled[g]:
            slot = listed[at]
            size = weight[slot] & _NO_SIGN
            now = _bucket_of(size, base, per, buckets)
            if now == g and size < bound:
                near[n] = slot
                sizes[n] = size
                n += 1
                at += 1
            elif size >= bound:
                _unlist(slot, listed, start, filled, where)
            elif start[now] + filled[now] < start[now + 1]:
                _unlist(slot, listed, start, filled, where)
                _list(slot, now, listed, start, filled, where)
            else:  # it has grown, but there is no room where it belongs
                at += 1
        if n + small < excess:
            continue
        arriving = 0
        for e in range(small):
            sizes[n + arriving] = sizes[tail + e]
            arriving += _bucket_of(sizes[tail + e], base, per, buckets) <= g
        if n + arriving >= excess:
            if len(weight) > MANY:
                for i in range(n):
                    if local[near[i]] >= 0:
                        ask_for(slot_of, local[near[i]])
            fringe.counts[NEAR] = n
            found = nth_smallest(sizes, n + arriving, excess)
            break
    return found


@inlined
def _drop(fringe: Fringe, m: Model, entrants: int, excess: int) -> tuple[float, int]:
    """The `excess` smallest of all weights and entrants become 0, of equal ones those with the largest keys.

    How much Σ|w| of the slots loses by it, and how many slots: they are in `ordering`, in turn. The list is no state,
    so nothing may depend on its order.
    """
    cut = -1
    while True:
        cut = _cut(fringe, m, entrants, excess)
        if cut >= 0:
            break
        _relist(fringe, m, excess)
    weight, near, count, ordering = m.weight.view(np.int64), fringe.near, fringe.counts[NEAR], m.ordering
    entrant, name, key, name_key = m.entrant.view(np.int64), m.entrant_name, m.key, m.name_key
    below = 0
    tied = 0
    for i in range(count):
        size = weight[near[i]] & _NO_SIGN
        below += size < cut
        if size == cut:
            ordering[tied] = key[near[i]]
            tied += 1
    for e in range(entrants):
        size = entrant[e] & _NO_SIGN
        below += size < cut
        if size == cut:
            ordering[tied] = name_key[name[e]]
            tied += 1
    staying = tied - (excess - below)
    last_key = nth_smallest(m.ordering, tied, staying) if staying > 0 else np.int64(-1)
    for e in range(entrants):
        size = entrant[e] & _NO_SIGN
        if size < cut or (size == cut and name_key[name[e]] > last_key):
            entrant[e] = 0
    vacant = 0
    for i in range(count):
        slot = near[i]
        size = weight[slot] & _NO_SIGN
        ordering[vacant] = slot
        if size == cut:
            vacant += key[slot] > last_key
        else:
            vacant += size < cut
    sort_slots(m.ordering, vacant)
    listed, start, filled, where = fringe.slot, fringe.start, fringe.filled, fringe.where
    lost, weights = 0.0, m.weight
    for i in range(vacant):
        lost += abs(weights[ordering[i]])
        weights[ordering[i]] = 0.0
        _unlist(ordering[i], listed, start, filled, where)
    return lost, vacant


@inlined
def admit(fringe: Fringe, m: Model, entrants: int, k: int) -> float:
    """Entrants get slots, the smallest weights lose them, so that the k largest stay. How much Σ|w| grows by it.

    No slot holds 0 before or after: for each weight dropped from a slot there is an entrant that stays.
    """
    grown, vacant = 0.0, 0
    excess = m.counts[ACTIVE] + entrants - k
    if excess > 0:
        lost, vacant = _drop(fringe, m, entrants, excess)
        grown -= lost
    weight, key, since, held, local, slot_of = m.weight, m.key, m.since, m.held, m.local, m.slot_of
    arriving, names, name_key, ordering, moves = m.entrant, m.entrant_name, m.name_key, m.ordering, fringe.moves
    listed, start, filled, where = fringe.slot, fringe.start, fringe.filled, fringe.where
    bound, base, per, buckets = fringe.counts[BOUND], fringe.counts[BASE], fringe.per[0], fringe.counts[BUCKETS]
    low, noted, active, version = fringe.counts[LOW], moves[0], m.counts[ACTIVE], m.counts[VERSION]
    sizes, fits = m.entrant.view(np.int64), True
    seated = 0
    for e in range(entrants):
        entrant = arriving[e]
        if entrant == 0.0:
            continue
        if seated < vacant:
            slot = ordering[seated]
            if local[slot] >= 0:
                slot_of[local[slot]] = 0
        else:
            active += 1
            slot = active
        name = names[e]
        weight[slot] = entrant
        key[slot] = name_key[name]
        since[slot] = version
        held[slot] = 0
        local[slot] = name
        slot_of[name] = slot
        size = sizes[e] & _NO_SIGN
        if size < bound:
            g = _bucket_of(size, base, per, buckets)
            low = min(low, g)
            fits &= _list(slot, g, listed, start, filled, where)
        grown += abs(entrant)
        seated += 1
        noted = min(noted + 1, len(moves))
        if noted < len(moves):
            moves[noted] = slot
    m.counts[ACTIVE] = active
    fringe.counts[SEATED], fringe.counts[LOW], moves[0] = seated, low, noted
    if not fits:
        forget(fringe)
    elif len(weight) > MANY:
        _ask_for_next(fringe, m, low, 2 * entrants)
    return grown


@kernel
def _ask_for_next(fringe: Fringe, m: Model, low: int, wanted: int) -> None:
    """What the next row will look at: the smallest there are."""
    weight, listed, where = m.weight, fringe.slot, fringe.where
    for g in range(low, fringe.counts[BUCKETS]):
        for at in range(fringe.start[g], fringe.start[g] + fringe.filled[g]):
            ask_for(weight, listed[at])
            ask_for(where, listed[at])
        wanted -= fringe.filled[g]
        if wanted <= 0:
            return


@kernel
def vacate(fringe: Fringe, m: Model, slot: int) -> None:
    """The slot is given up; the last slot moves into it."""
    if m.local[slot] >= 0:
        m.slot_of[m.local[slot]] = 0
    if fringe.where[slot] > 0:
        _unlist(slot, fringe.slot, fringe.start, fringe.filled, fringe.where)
    last = m.counts[ACTIVE]
    m.counts[ACTIVE] -= 1
    if slot == last:
        return
    m.weight[slot] = m.weight[last]
    m.key[slot] = m.key[last]
    m.since[slot] = m.since[last]
    m.held[slot] = m.held[last]
    m.local[slot] = m.local[last]
    if m.local[slot] >= 0:
        m.slot_of[m.local[slot]] = slot
    fringe.where[slot] = fringe.where[last]
    if fringe.where[slot] > 0:
        fringe.slot[(fringe.where[slot] & _IN_PLACE) - 1] = slot
    fringe.where[last] = 0
    note(fringe, slot)
