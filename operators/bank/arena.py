"""Memory for the models of a bank: one array of words, cut into blocks.

The slots of a model are one block; slot 0 stands for every feature without a weight, as in `kernels.sparse.slots`. A
block has room for so many slots and holds, one after the other:

    index      the slot of an address: a hash table with linear probing, a byte an entry up to 255 slots, else four
    address    64-bit hash of the feature's name
    weight
    since      the version at which the feature last entered
    key        the feature key, which decides between equal weights
    name       the name's number in the book

A model that needs more room moves to a block twice as large; blocks that were given up are used again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel

SMALL = 255
"""Up to so many slots an entry of the index is one byte."""
NO_ROOM = -1
_LEAST = 4
_NEXT, _FREE_BLOCKS, _FREE_RUNS, _IN_USE = 0, 1, 65, 129


class Arena(NamedTuple):
    """One array, seen as what its blocks hold, and where it is free."""

    words: NDArray[np.int64]
    floats: NDArray[np.float64]
    addresses: NDArray[np.uint64]
    ints: NDArray[np.int32]
    octets: NDArray[np.uint8]
    free: NDArray[np.int64]
    """The first word never used; by size, the first of the blocks and of the plain runs of words given up; how many
    words are in use."""


def new_arena(words: int = 1 << 12) -> Arena:
    free = np.zeros(_IN_USE + 1, dtype=np.int64)
    free[_NEXT] = 1  # no block begins at 0, which means "none"
    return _views(np.zeros(words, dtype=np.int64), free)


def larger(arena: Arena, words: int) -> Arena:
    """With so many more words at least, and twice as many as before."""
    used = int(arena.free[_NEXT])
    grown = np.zeros(max(2 * len(arena.words), used + words), dtype=np.int64)
    grown[:used] = arena.words[:used]
    return _views(grown, arena.free)


def words_taken(arena: Arena) -> int:
    """From the first to the last that was ever used: so many of them take memory."""
    return int(arena.free[_NEXT])


def words_in_use(arena: Arena) -> int:
    """Without those given up."""
    return int(arena.free[_IN_USE])


def _views(words: NDArray[np.int64], free: NDArray[np.int64]) -> Arena:
    return Arena(
        words, words.view(np.float64), words.view(np.uint64), words.view(np.int32), words.view(np.uint8), free
    )


@kernel
def index_words(room: int) -> int:
    """For so many entries of the index that at most a third or half of them are used: a power of two."""
    size = 8
    while size < (3 * room if room <= SMALL else 2 * room):
        size *= 2
    return size // 8 if room <= SMALL else size // 2


@kernel
def index_size(room: int) -> int:
    """Entries of the index."""
    return 8 * index_words(room) if room <= SMALL else 2 * index_words(room)


@kernel
def block_words(room: int) -> int:
    return index_words(room) + 4 * (room + 1) + (room + 2) // 2


@kernel
def room_for(need: int, limit: int) -> int:
    """The room of the block that so many slots get: a power of two, but never more than there may be."""
    room = _LEAST
    while room < need:
        room *= 2
    return min(room, limit)


@kernel
def _size_class(size: int) -> int:
    order = 0
    while (1 << order) < size:
        order += 1
    return order


@kernel
def take_block(arena: Arena, room: int, limit: int) -> int:
    """Where a free block of this room begins; NO_ROOM if the arena must grow first. Its content is anything."""
    return _take(arena, _FREE_BLOCKS + _size_class(room), block_words(room))


@kernel
def give_block(arena: Arena, block: int, room: int) -> None:
    _give(arena, _FREE_BLOCKS + _size_class(room), block, block_words(room))


@kernel
def take_run(arena: Arena, words: int) -> int:
    """A run of words, zeros or not, rounded up to a power of two; NO_ROOM if the arena must grow first."""
    return _take(arena, _FREE_RUNS + _size_class(words), run_words(words))


@kernel
def give_run(arena: Arena, run: int, words: int) -> None:
    _give(arena, _FREE_RUNS + _size_class(words), run, run_words(words))


@kernel
def run_words(words: int) -> int:
    """How many words a run asked for with `words` has."""
    return 1 << _size_class(words)


@kernel
def _take(arena: Arena, at: int, words: int) -> int:
    """One of those given up, which the list at `at` has, or a new one."""
    start = arena.free[at]
    if start > 0:
        arena.free[at] = arena.words[start]
    else:
        start = arena.free[_NEXT]
        if start + words > len(arena.words):
            return NO_ROOM
        arena.free[_NEXT] = start + words
    arena.free[_IN_USE] += words
    return start  # type: ignore[no-any-return]  # numpy types an item as Any


@kernel
def _give(arena: Arena, at: int, start: int, words: int) -> None:
    arena.words[start] = arena.free[at]
    arena.free[at] = start
    arena.free[_IN_USE] -= words
