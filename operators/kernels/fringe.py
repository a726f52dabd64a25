"""The k largest weights kept, row after row, without going through all of them: only the smallest are listed.

Every slot with |w| below a bound is in the list, so what must go is found among the list and the entrants. When the
list runs short, or has grown too long, it is made anew from all slots, with room for about √(k n) rows' losses of n:
a row then costs O(nnz + √(k nnz)), shared out over the rows, and O(nnz + k) only where very many weights are equal.
The bound is read off a sample of the slots. Of the list, most is left aside at a glance: what is above a guess, below
which there are twice as many as had to go last time if the list is evenly spread. Neither bound nor guess decides
anything but the time: where one is too low, more is looked at.

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
from sluiceway.operators.kernels.sorting import sort_slots
from sluiceway.operators.kernels.truncation import nth_smallest

LISTED, SEATED, NEAR = 0, 1, 2
BOUND, GUESS = 0, 1

_NO_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_LEAST = 256
"""Listing fewer does not pay."""
_SAMPLE = 256


class Fringe(NamedTuple):
    """The list, by place and by slot; and the notes."""

    counts: NDArray[np.int64]
    """[LISTED], [SEATED], [NEAR]: how many slots are listed; how many entrants the last `admit` gave one; how many
    listed slots are near to what must go."""
    bound: NDArray[np.float64]
    """[BOUND]: whatever is below is listed; [GUESS]: above, nothing may have to go this time."""
    slot: NDArray[np.int32]
    place: NDArray[np.int32]
    """By slot: 1 + its place in the list; 0: not in it."""
    near: NDArray[np.int32]
    """Scratch: the slots among which those that must go are."""
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
    fringe.bound[BOUND] = 0.0


@kernel
def watch(rows: Rows, row: int, m: Model, fringe: Fringe) -> bool:
    """After the step of the row: whoever has come below the bound is listed. Whether a weight has become 0."""
    weight, touched, place, listed = m.weight, m.touched, fringe.place, fringe.slot
    bound, count = fringe.bound[BOUND], fringe.counts[LISTED]
    zeros = False
    for i in range(rows.indptr[row + 1] - rows.indptr[row]):
        slot = touched[i]
        if slot > 0:
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
def _relist(fringe: Fringe, m: Model, wanted: int, needed: int) -> None:
    """About `wanted` of the smallest, at least those `needed`, or all there are."""
    active = m.counts[ACTIVE]
    bound = np.inf if wanted >= active else _bound_for(m, wanted, max(active // _SAMPLE, 1))
    _list_below(fringe, m, bound)
    if fringe.counts[LISTED] < min(needed, active):  # the sample was not like the rest
        _list_below(fringe, m, _bound_for(m, wanted, 1))


@kernel
def _bound_for(m: Model, wanted: int, apart: int) -> float:
    """What `wanted` of the weights are below, by one slot of so many `apart`; equal ones are below it too."""
    active = m.counts[ACTIVE]
    sizes, ordering = m.weight[1 : active + 1].view(np.int64), m.ordering
    n = 0
    for i in range(0, active, apart):
        ordering[n] = sizes[i] & _NO_SIGN
        n += 1
    m.ordering[0] = nth_smallest(m.ordering, n, min(wanted // apart + 1, n)) + 1  # the next float
    bound: float = m.ordering[:1].view(np.float64)[0]
    return bound


@kernel
def _list_below(fringe: Fringe, m: Model, bound: float) -> None:
    """No branch to mispredict."""
    forget(fringe)
    weight, place, listed = m.weight, fringe.place, fringe.slot
    count = 0
    for slot in range(1, m.counts[ACTIVE] + 1):
        listed[count] = slot
        count += abs(weight[slot]) < bound
    for at in range(count):
        place[listed[at]] = at + 1
    fringe.counts[LISTED], fringe.bound[BOUND] = count, bound


@kernel
def _cut(fringe: Fringe, m: Model, entrants: int, excess: int) -> float:
    """The `excess`-th smallest of listed slots and entrants, all slots up to it in `near`.

    Infinity if so many are not below the bound: then slots outside the list may have to go.
    """
    sizes = m.ordering.view(np.float64)
    guess = min(fringe.bound[GUESS], fringe.bound[BOUND])
    n = _look_below(fringe, m, entrants, guess, sizes)
    if n < excess and guess < fringe.bound[BOUND]:
        n = _look_below(fringe, m, entrants, fringe.bound[BOUND], sizes)
    if n < excess:
        return np.inf
    m.ordering[0] = nth_smallest(m.ordering, n, excess)
    cut: float = sizes[0]
    next_time = min(2.0 * excess / max(fringe.counts[LISTED] - excess, 1), 1.0)
    fringe.bound[GUESS] = cut + next_time * (fringe.bound[BOUND] - cut)
    return cut


@kernel
def _look_below(fringe: Fringe, m: Model, entrants: int, guess: float, sizes: NDArray[np.float64]) -> int:
    """The sizes below the guess, of slots, which are then in `near`, and of entrants; how many."""
    weight, place, listed, near, bound = m.weight, fringe.place, fringe.slot, fringe.near, fringe.bound[BOUND]
    at = 0
    n = 0
    for was in range(fringe.counts[LISTED]):
        slot = listed[was]
        size = abs(weight[slot])
        near[n] = slot
        sizes[n] = size
        n += size < guess
        stays = size < bound  # else it has grown since it was listed
        listed[at] = slot
        at += stays
        place[slot] = at * stays
    fringe.counts[LISTED], fringe.counts[NEAR] = at, n
    for e in range(entrants):
        size = abs(m.entrant[e])
        sizes[n] = size
        n += size < guess
    return n


@kernel
def _drop(fringe: Fringe, m: Model, entrants: int, excess: int) -> tuple[float, int]:
    """The `excess` smallest of all weights and entrants become 0, of equal ones those with the largest keys.

    How much Σ|w| of the slots loses by it, and how many slots: they are in `ordering`, in turn. The list is no state,
    so nothing may depend on its order.
    """
    wanted = excess + max(_LEAST, int(math.sqrt(float(m.counts[ACTIVE]) * excess)))
    if fringe.counts[LISTED] > 4 * wanted:
        _relist(fringe, m, wanted, excess)
    cut = _cut(fringe, m, entrants, excess)
    if cut == np.inf:
        _relist(fringe, m, wanted, excess)
        cut = _cut(fringe, m, entrants, excess)
    weight, near, count, ordering = m.weight, fringe.near, fringe.counts[NEAR], m.ordering
    below = 0
    tied = 0
    for i in range(count):
        size = abs(weight[near[i]])
        below += size < cut
        if size == cut:
            ordering[tied] = m.key[near[i]]
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
    for i in range(count):
        slot = near[i]
        size = abs(weight[slot])
        ordering[vacant] = slot
        vacant += (size < cut) | ((size == cut) & (m.key[slot] > last_key))
    sort_slots(m.ordering, vacant)
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
    count, bound, noted = fringe.counts[LISTED], fringe.bound[BOUND], moves[0]
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
