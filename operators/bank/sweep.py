"""Names that no model holds any longer leave the book."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.block import name_of
from sluiceway.operators.bank.book import ENTRIES, Book, keep_used
from sluiceway.operators.bank.seen import NAMES


def sweep(heads: NDArray[Any], arena: Arena, book: Book, features: int) -> None:
    """`features`: what the learner keeps of the features seen."""
    used = np.zeros(int(book.counts[ENTRIES]), dtype=np.int32)
    mark(heads, arena, features, used)
    keep_used(book, used)
    renumber(heads, arena, features, used)


@kernel
def mark(heads: NDArray[Any], arena: Arena, features: int, used: NDArray[np.int32]) -> None:
    """1 for each name that is held by a slot, by the last snapshot or among the features seen."""
    for model in range(len(heads)):
        names = _names(heads, arena, model)
        for slot in range(1, heads[model].active + 1):
            used[names[slot]] = 1
        for run, count in _runs(heads, model, features):
            for i in range(count):
                used[arena.ints[2 * run + i]] = 1


@kernel
def renumber(heads: NDArray[Any], arena: Arena, features: int, used: NDArray[np.int32]) -> None:
    for model in range(len(heads)):
        names = _names(heads, arena, model)
        for slot in range(1, heads[model].active + 1):
            names[slot] = used[names[slot]] - 1
        for run, count in _runs(heads, model, features):
            for i in range(count):
                arena.ints[2 * run + i] = used[arena.ints[2 * run + i]] - 1


@inlined
def _names(heads: NDArray[Any], arena: Arena, model: int) -> NDArray[np.int32]:
    if heads[model].block == 0:
        return arena.ints[:0]
    return name_of(arena, heads[model].block, heads[model].room)


@kernel
def _runs(heads: NDArray[Any], model: int, features: int) -> tuple[tuple[int, int], ...]:
    """Where numbers of names stand in runs of their own, and how many."""
    named = heads[model].features if features == NAMES else 0
    return (
        (heads[model].snapshot, heads[model].snapshot_size),
        (heads[model].extra + heads[model].extra_room, named),
    )
