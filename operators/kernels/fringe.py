"""The k largest weights kept, row after row, without going through all of them: only the smallest are listed.

Every slot with |w| below a bound is in the list, so what must go is found among the list and the entrants. When the
list runs short, or has grown too long, it is made anew from all slots, with room for about √(k n) rows' losses of n:
a row then costs O(nnz + √(k nnz)), shared out over the rows, and O(nnz + k) only where very many weights are equal.

One factor for all weights changes no order. Selection compares the bits of |w|, which are ordered as the numbers are.
Slots that take or lose a name are noted in `moves`, so that nobody has to look at all slots to find them.

A call with a whole model as argument costs a tenth of a microsecond: loops over slots and entrants make none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.slots import ACTIVE, VERSION, Model, Rows
from sluiceway.operators.kernels.truncation import nth_smallest

LISTED, SEATED = 0, 1

_NO_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_LEAST = 256
"""Listing fewer does not pay."""


class Fringe(NamedTuple):
    """The list, by place and by slot; and the notes."""

    counts: NDArray[np.int64]
    """[LISTED], [SEATED]: how many slots are listed; how many entrants the last `admit` gave one."""
    bound: NDArray[np.float64]
    """[0]."""
    slot: NDArray[np.int32]
    place: NDArray[np.int32]
    """By slot: 1 + its place in the list; 0: not in it."""
    moves: NDArray[np.int32]
    """[0] how many slots are noted, from [1] on; more than there is room for: any slot may have moved."""


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
    for at in range(fringe.counts[LISTED]):
        fringe.place[fringe.slot[at]] = 0
    fringe.counts[LISTED] = 0
    fringe.bound[0] = 0.0


@kernel
def watch(rows: Rows, row: int, m: Model, fringe: Fringe) -> bool:
    """After the step of the row: whoever has come below the bound is listed. Whether a weight has become 0."""
    weight, slot_of, place, listed = m.weight, m.slot_of, fringe.place, fringe.slot
    bound, count = fringe.bound[0], fringe.counts[LISTED]
    first = rows.indptr[row]
    zeros = False
    for j in range(first, rows.indptr[row + 1]):
        if m.touched[j - first] > 0:
            slot = slot_of[rows.indices[j]]
            size = abs(weight[slot])
            zeros |= size == 0.0
            if size < bound and place[slot] == 0:
                listed[count] = slot
                count += 1
                place[slot] = count
    fringe.counts[LISTED] = count
    return zeros


@kernel
def _unlist(fringe: Fringe, slot: int) -> None:
    fringe.counts[LISTED] -= 1
    last = fringe.slot[fringe.counts[LISTED]]
    at = fringe.place[slot]
    fringe.slot[at - 1] = last
    fringe.place[last] = at
    fringe.place[slot] = 0


@kernel
def _relist(fringe: Fringe, m: Model, wanted: int) -> None:
    """At least `wanted` of the smallest, or all there are."""
    forget(fringe)
    active = m.counts[ACTIVE]
    if wanted >= active:
        fringe.bound[0] = np.inf
    else:
        sizes = m.weight[1 : active + 1].view(np.int64)
        ordering = m.ordering
        for i in range(active):
            ordering[i] = sizes[i] & _NO_SIGN
        m.ordering[0] = nth_smallest(m.ordering, active, wanted) + 1  # the next float: equal ones are listed too
        fringe.bound[0] = m.ordering[:1].view(np.float64)[0]
    weight, place, listed = m.weight, fringe.place, fringe.slot
    bound, count = fringe.bound[0], 0
    for slot in range(1, active + 1):
        if abs(weight[slot]) < bound:
            listed[count] = slot
            count += 1
            place[slot] = count
    fringe.counts[LISTED] = count


@kernel
def _cut(fringe: Fringe, m: Model, entrants: int, excess: int) -> float:
    """The `excess`-th smallest of listed slots and entrants; at or above the bound it proves nothing."""
    sizes = m.ordering.view(np.float64)
    weight, place, listed, bound = m.weight, fringe.place, fringe.slot, fringe.bound[0]
    at = 0
    for was in range(fringe.counts[LISTED]):
        slot = listed[was]
        size = abs(weight[slot])
        if size < bound:
            listed[at] = slot
            sizes[at] = size
            at += 1
            place[slot] = at
        else:  # has grown since it was listed
            place[slot] = 0
    fringe.counts[LISTED] = at
    for e in range(entrants):
        sizes[at + e] = abs(m.entrant[e])
    if at + entrants < excess:
        return np.inf
    m.ordering[0] = nth_smallest(m.ordering, at + entrants, excess)
    return sizes[0]  # type: ignore[no-any-return]


@kernel
def _drop(fringe: Fringe, m: Model, entrants: int, excess: int) -> tuple[float, int]:
    """The `excess` smallest of all weights and entrants become 0, of equal ones those with the largest keys.

    How much Σ|w| of the slots loses by it, and how many slots: they are in `ordering`, in turn. The list is no state,
    so nothing may depend on its order.
    """
    wanted = excess + max(_LEAST, int(math.sqrt(float(m.counts[ACTIVE]) * excess)))
    if fringe.counts[LISTED] > 4 * wanted:
        _relist(fringe, m, wanted)
    cut = _cut(fringe, m, entrants, excess)
    if cut >= fringe.bound[0]:
        _relist(fringe, m, wanted)
        cut = _cut(fringe, m, entrants, excess)
    weight, listed, count, ordering = m.weight, fringe.slot, fringe.counts[LISTED], m.ordering
    below = 0
    tied = 0
    for at in range(count):
        size = abs(weight[listed[at]])
        below += size < cut
        if size == cut:
            ordering[tied] = m.key[listed[at]]
            tied += 1
    for e in range(entrants):
        size = abs(m.entrant[e])
        below += size < cut
        if size == cut:
            ordering[tied] = m.name_key[m.entrant_name[e]]
            tied += 1
    staying = tied - (excess - below)
    last_key = nth_smallest(m.ordering, tied, staying) if staying > 0 else np.int64(-1)
    for e in range(entrants):
        size = abs(m.entrant[e])
        if size < cut or (size == cut and m.name_key[m.entrant_name[e]] > last_key):
            m.entrant[e] = 0.0
    vacant = 0
    for at in range(count):
        slot = listed[at]
        size = abs(weight[slot])
        if size < cut or (size == cut and m.key[slot] > last_key):
            ordering[vacant] = slot
            vacant += 1
    m.ordering[:vacant].sort()
    lost = 0.0
    for i in range(vacant):
        lost += abs(weight[ordering[i]])
        weight[ordering[i]] = 0.0
    return lost, vacant


@kernel
def admit(fringe: Fringe, m: Model, entrants: int, k: int) -> float:
    """Entrants get slots, the smallest weights lose them, so that the k largest stay. How much Σ|w| grows by it.

    No slot holds 0 before or after: for each weight dropped from a slot there is an entrant that stays.
    """
    grown, vacant = 0.0, 0
    excess = m.counts[ACTIVE] + entrants - k
    if excess > 0:
        lost, vacant = _drop(fringe, m, entrants, excess)
        grown -= lost
    weight, place, listed, moves = m.weight, fringe.place, fringe.slot, fringe.moves
    count, bound, noted = fringe.counts[LISTED], fringe.bound[0], moves[0]
    seated = 0
    for e in range(entrants):
        entrant = m.entrant[e]
        if entrant == 0.0:
            continue
        if seated < vacant:
            slot = m.ordering[seated]
            if m.local[slot] >= 0:
                m.slot_of[m.local[slot]] = 0
        else:
            m.counts[ACTIVE] += 1
            slot = m.counts[ACTIVE]
            if abs(entrant) < bound:
                listed[count] = slot
                count += 1
                place[slot] = count
        name = m.entrant_name[e]
        weight[slot] = entrant
        m.key[slot] = m.name_key[name]
        m.since[slot] = m.counts[VERSION]
        m.held[slot] = 0
        m.local[slot] = name
        m.slot_of[name] = slot
        grown += abs(entrant)
        seated += 1
        noted = min(noted + 1, len(moves))
        if noted < len(moves):
            moves[noted] = slot
    fringe.counts[LISTED], fringe.counts[SEATED] = count, seated
    moves[0] = noted
    return grown


@kernel
def vacate(fringe: Fringe, m: Model, slot: int) -> None:
    """The slot is given up; the last slot moves into it."""
    if m.local[slot] >= 0:
        m.slot_of[m.local[slot]] = 0
    if fringe.place[slot] > 0:
        _unlist(fringe, slot)
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
    fringe.place[slot] = fringe.place[last]
    if fringe.place[slot] > 0:
        fringe.slot[fringe.place[slot] - 1] = slot
    fringe.place[last] = 0
    note(fringe, slot)
