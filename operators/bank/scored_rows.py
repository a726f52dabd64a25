"""A row is bound to its model and scored in one go, for learners whose score is w . x of the weights as they stand.

A sum in the order of the record goes no faster than one addition after the other; the slots of the features that come
next are looked up meanwhile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel
from sluiceway.operators.bank import index
from sluiceway.operators.bank.arena import SMALL, Arena
from sluiceway.operators.bank.block import address_of, large_index, small_index, weight_of
from sluiceway.operators.bank.rows import LARGE, Poll, Scratch, make_room, prefetch_slot, unit_row
from sluiceway.operators.kernels.sparse.slots import Rows, bounded


@kernel
def open_scored_row(
    poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, row: int, limit: int, scaled: bool,
    scores: NDArray[np.float64],
) -> bool:  # fmt: skip
    """As `rows.open_row` and `slots.score_row`; False, with nothing changed, if there is no room."""
    if not make_room(poll, arena, heads, scratch, row, limit):
        return False
    at, first, stop = poll.model[row], poll.first[row], poll.stop[row]
    if scaled:
        unit_row(poll.values, first, stop - first, scratch.values)
    scratch.indptr[1] = stop - first
    values = _values(poll, scratch, row, scaled)
    block, room = heads[at].block, heads[at].room
    address, weight = address_of(arena, block, room), weight_of(arena, block, room)
    if room <= SMALL:
        small = small_index(arena, block, room)
        scores[row] = _bind_and_score(small, address, weight, poll.address, first, values, scratch)
    else:
        large = large_index(arena, block, room)
        scores[row] = _bind_and_score(large, address, weight, poll.address, first, values, scratch)
    return True


@kernel
def scored_row_view(poll: Poll, scratch: Scratch, row: int, scaled: bool) -> Rows:
    return Rows(scratch.indptr, scratch.indices, _values(poll, scratch, row, scaled), poll.y[row : row + 1])


@inlined
def _values(poll: Poll, scratch: Scratch, row: int, scaled: bool) -> NDArray[np.float64]:
    first, stop = poll.first[row], poll.stop[row]
    return scratch.values[: stop - first] if scaled else poll.values[first:stop]


@kernel
def _bind_and_score(
    index_: NDArray[Any], address: NDArray[np.uint64], weight: NDArray[np.float64], addresses: NDArray[np.uint64],
    first: int, values: NDArray[np.float64], scratch: Scratch,
) -> float:  # fmt: skip
    """`addresses` are those of the whole poll, in which the row's begin at `first`."""
    bound, slot_of, touched, local = scratch.bound, scratch.slot_of, scratch.touched, scratch.local
    wanted = addresses[first : first + len(values)]
    large = len(index_) > LARGE
    f = 0.0
    for i in range(len(values)):
        if large:
            prefetch_slot(index_, address, weight, local, addresses, first + i)
        slot = index.slot_at(index_, address, wanted[i])
        bound[i] = slot
        slot_of[i] = slot
        touched[i] = slot
        local[slot] = i
        f += weight[slot] * values[i]
    return bounded(f)
