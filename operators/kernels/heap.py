"""A heap over the slots with the weight that goes first on top: the smallest |w|, of equal ones the largest key.

Every active slot stands in it, so its size is `m.counts[ACTIVE]`. One factor for all weights changes no order.
Slots that take or lose a name are noted in `moves`, so that nobody has to look at all slots to find them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.kernels.compile import kernel
from sluiceway.operators.kernels.slots import ACTIVE, Model, seat


class Heap(NamedTuple):
    """By place, the top at 1; by slot; and the notes."""

    slot: NDArray[np.int32]
    size: NDArray[np.float64]
    """|w| of that slot: comparisons then stay in one array."""
    place: NDArray[np.int32]
    moves: NDArray[np.int32]
    """[0] how many slots are noted, from [1] on; more than there is room for: any slot may have moved."""


@kernel
def _goes_before(h: Heap, m: Model, size: float, slot: int, at: int) -> bool:
    if size != h.size[at]:
        return bool(size < h.size[at])
    return bool(m.key[slot] > m.key[h.slot[at]])


@kernel
def _put(h: Heap, at: int, size: float, slot: int) -> None:
    h.size[at] = size
    h.slot[at] = slot
    h.place[slot] = at


@kernel
def _arrange(h: Heap, m: Model, at: int, slot: int) -> None:
    """The slot may stand at this place, whose own is given up, or must go up or down."""
    size = abs(m.weight[slot])
    while at > 1 and _goes_before(h, m, size, slot, at // 2):
        _put(h, at, h.size[at // 2], h.slot[at // 2])
        at //= 2
    _sink(h, m, at, size, slot)


@kernel
def _sink(h: Heap, m: Model, at: int, size: float, slot: int) -> None:
    last = m.counts[ACTIVE]
    while 2 * at <= last:
        child = 2 * at
        if child < last and _goes_before(h, m, h.size[child + 1], h.slot[child + 1], child):
            child += 1
        if _goes_before(h, m, size, slot, child):
            break
        _put(h, at, h.size[child], h.slot[child])
        at = child
    _put(h, at, size, slot)


@kernel
def rebuild(h: Heap, m: Model) -> None:
    active = m.counts[ACTIVE]
    for slot in range(1, active + 1):
        _put(h, slot, abs(m.weight[slot]), slot)
    for at in range(active // 2, 0, -1):
        _sink(h, m, at, h.size[at], h.slot[at])


@kernel
def note(h: Heap, slot: int) -> None:
    h.moves[0] += 1
    if h.moves[0] < len(h.moves):
        h.moves[h.moves[0]] = slot
    else:
        h.moves[0] = len(h.moves)


@kernel
def note_all(h: Heap) -> None:
    h.moves[0] = len(h.moves)


@kernel
def reweigh(h: Heap, m: Model, slot: int) -> None:
    """After the weight in the slot has changed."""
    _arrange(h, m, h.place[slot], slot)


@kernel
def admit(h: Heap, m: Model, e: int, k: int) -> float:
    """The entrant gets a slot if its weight is one of the k largest; how much Σ|w| grows by it, -1 if it does not."""
    size = float(abs(m.entrant[e]))
    if m.counts[ACTIVE] < k:
        m.counts[ACTIVE] += 1
        slot = m.counts[ACTIVE]
        seat(m, slot, e)
        note(h, slot)
        _arrange(h, m, slot, slot)
        return size
    first = h.slot[1]
    gone = float(h.size[1])
    if size < gone or (size == gone and m.name_key[m.entrant_name[e]] > m.key[first]):
        return -1.0
    if m.local[first] >= 0:
        m.slot_of[m.local[first]] = 0
    seat(m, first, e)
    note(h, first)
    _arrange(h, m, 1, first)
    return size - gone


@kernel
def vacate(h: Heap, m: Model, slot: int) -> None:
    """The slot is given up; the last slot moves into it."""
    if m.local[slot] >= 0:
        m.slot_of[m.local[slot]] = 0
    last = m.counts[ACTIVE]
    at, orphan = h.place[slot], h.slot[last]
    m.counts[ACTIVE] -= 1
    if at != last:
        _arrange(h, m, at, orphan)
    if slot != last:
        m.weight[slot] = m.weight[last]
        m.key[slot] = m.key[last]
        m.since[slot] = m.since[last]
        m.held[slot] = m.held[last]
        m.local[slot] = m.local[last]
        if m.local[slot] >= 0:
            m.slot_of[m.local[slot]] = slot
        _put(h, h.place[last], h.size[h.place[last]], slot)
        note(h, slot)
