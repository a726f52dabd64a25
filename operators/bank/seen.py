"""The features that a model has seen: their keys, by number, in a run of the arena (`head.extra`).

With room for R features, a power of two, a run holds

    key        of each feature, R words
    name       its number in the book, four bytes each; only for learners that know their features by name
    table      from a key to its number, 2R entries of four bytes, as in `kernels.sparse.features_seen`

Only keys or names are state; the table is made again from the keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel
from sluiceway.operators.bank.arena import NO_ROOM, Arena, give_run, take_run
from sluiceway.operators.bank.book import Book, number_of
from sluiceway.operators.kernels.sparse.features_seen import Features, refill

NO_FEATURES, KEYS, NAMES = 0, 1, 2
"""What a learner keeps of the features seen."""
_LEAST = 8


@kernel
def seen_words(room: int, kind: int) -> int:
    return 2 * room + room // 2 if kind == NAMES else 2 * room


@inlined
def key_of_seen(arena: Arena, run: int, room: int) -> NDArray[np.int64]:
    return arena.words[run : run + room]


@inlined
def table_of_seen(arena: Arena, run: int, room: int, kind: int) -> NDArray[np.int32]:
    start = 2 * run + (3 * room if kind == NAMES else 2 * room)
    return arena.ints[start : start + 2 * room]


@kernel
def room_for_seen(arena: Arena, heads: NDArray[Any], model: int, need: int, kind: int) -> bool:
    """Move what the model has seen into a larger run, if so many need it; False if the arena has none."""
    had, run, count = heads[model].extra_room, heads[model].extra, heads[model].features
    room = _LEAST
    while room < need:
        room *= 2
    if room <= had:
        return True
    to = take_run(arena, seen_words(room, kind))
    if to == NO_ROOM:
        return False
    for word in range(to, to + seen_words(room, kind)):
        arena.words[word] = 0
    if run > 0:
        for i in range(count):
            arena.words[to + i] = arena.words[run + i]
        if kind == NAMES:
            for i in range(count):
                arena.ints[2 * (to + room) + i] = arena.ints[2 * (run + had) + i]
        give_run(arena, run, seen_words(had, kind))
    refill(key_of_seen(arena, to, room), count, table_of_seen(arena, to, room, kind))
    heads[model].extra, heads[model].extra_room = to, room
    return True


@kernel
def open_seen(
    arena: Arena, heads: NDArray[Any], model: int, length: int, labelled: bool, limit: int, kind: int
) -> bool:
    """Make room for what the row can bring; False, with nothing changed, if there is none."""
    need = min(limit, heads[model].features + length) if labelled else heads[model].features
    if heads[model].extra_room >= max(need, 1):
        return True
    return room_for_seen(arena, heads, model, need, kind)


@kernel
def seen_view(
    arena: Arena, heads: NDArray[Any], model: int, known: NDArray[np.int32], bound: NDArray[np.int32], length: int,
    kind: int,
) -> Features:  # fmt: skip
    """The features of an opened row's model, as its learner's kernel knows them."""
    run, room = heads[model].extra, heads[model].extra_room
    opened = length
    for i in range(length):
        # what has a weight has been seen: where numbers do not matter, it need not be looked up
        found = kind == KEYS and bound[i] > 0
        known[i] = found
        opened -= found
    heads[model].open = opened
    return Features(key_of_seen(arena, run, room), table_of_seen(arena, run, room, kind), known)


@kernel
def name_seen(
    arena: Arena, heads: NDArray[Any], model: int, known: NDArray[np.int32], before: int, book: Book,
    first: int, length: int,
    address: NDArray[np.uint64], key: NDArray[np.int64], text: NDArray[np.uint8], name_at: NDArray[np.int64],
    name_size: NDArray[np.int32],
) -> None:  # fmt: skip
    """The names of the features that the row has brought, of a model that had seen so many `before`."""
    start = 2 * (heads[model].extra + heads[model].extra_room)
    for i in range(length):
        if known[i] > before:
            at = first + i
            arena.ints[start + known[i] - 1] = number_of(book, address[at], key[at], text, name_at[at], name_size[at])


def names_of_seen(arena: Arena, heads: NDArray[Any], model: int) -> NDArray[np.int32]:
    """Numbers in the book, by number of the feature."""
    run, room, count = (int(heads[field][model]) for field in ("extra", "extra_room", "features"))
    return arena.ints[2 * (run + room) : 2 * (run + room) + count]
