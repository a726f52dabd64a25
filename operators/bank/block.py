"""The parts of a block: where in the arena a model's index, addresses, weights and names stand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel, plain
from sluiceway.operators.bank import index
from sluiceway.operators.bank.arena import SMALL, Arena, index_size, index_words


class Slots(NamedTuple):
    """What a block says of each slot."""

    weight: NDArray[np.float64]
    since: NDArray[np.int64]
    key: NDArray[np.int64]
    name: NDArray[np.int32]


def slots_of(arena: Arena, block: int, room: int) -> Slots:
    """Slots 0 to `room`, for Python."""
    start, slots = block + plain(index_words)(room), room + 1
    names = 2 * (start + 4 * slots)
    return Slots(
        arena.floats[start + slots : start + 2 * slots],
        arena.words[start + 2 * slots : start + 3 * slots],
        arena.words[start + 3 * slots : start + 4 * slots],
        arena.ints[names : names + slots],
    )


@inlined
def small_index(arena: Arena, block: int, room: int) -> NDArray[np.uint8]:
    return arena.octets[8 * block : 8 * block + index_size(room)]


@inlined
def large_index(arena: Arena, block: int, room: int) -> NDArray[np.int32]:
    return arena.ints[2 * block : 2 * block + index_size(room)]


@inlined
def address_of(arena: Arena, block: int, room: int) -> NDArray[np.uint64]:
    start = block + index_words(room)
    return arena.addresses[start : start + room + 1]


@inlined
def weight_of(arena: Arena, block: int, room: int) -> NDArray[np.float64]:
    start = block + index_words(room) + room + 1
    return arena.floats[start : start + room + 1]


@inlined
def since_of(arena: Arena, block: int, room: int) -> NDArray[np.int64]:
    start = block + index_words(room) + 2 * (room + 1)
    return arena.words[start : start + room + 1]


@inlined
def key_of(arena: Arena, block: int, room: int) -> NDArray[np.int64]:
    start = block + index_words(room) + 3 * (room + 1)
    return arena.words[start : start + room + 1]


@inlined
def name_of(arena: Arena, block: int, room: int) -> NDArray[np.int32]:
    start = 2 * (block + index_words(room) + 4 * (room + 1))
    return arena.ints[start : start + room + 1]


@kernel
def fill_index(arena: Arena, block: int, room: int, active: int) -> None:
    """The index anew, from the addresses."""
    address = address_of(arena, block, room)
    if room <= SMALL:
        index.fill(small_index(arena, block, room), address, active)
    else:
        index.fill(large_index(arena, block, room), address, active)
