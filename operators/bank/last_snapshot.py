"""What the last snapshot of a model held: names, in its order, as numbers of the book in a run of the arena."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.bank import book as books
from sluiceway.operators.bank.arena import NO_ROOM, Arena, give_run, larger, run_words, take_run
from sluiceway.operators.bank.bank import Bank
from sluiceway.operators.bank.book import Book, number_of
from sluiceway.schemas.name_hash import hash_names
from sluiceway.schemas.swar import READABLE_BEYOND


def last_names(bank: Bank, model: int) -> list[str]:
    """The features of the model's last snapshot, as they stood in it."""
    start, size = 2 * int(bank.heads["snapshot"][model]), int(bank.heads["snapshot_size"][model])
    return [books.name_of(bank.book, number) for number in bank.arena.ints[start : start + size].tolist()]


def remember(bank: Bank, model: int, names: Sequence[str]) -> None:
    """A snapshot of the model was made, with these features."""
    spelt = [name.encode("utf-8", "surrogatepass") for name in names]
    text = np.frombuffer(b"".join([*spelt, READABLE_BEYOND]), dtype=np.uint8).copy()
    sizes = np.fromiter(map(len, spelt), dtype=np.int32, count=len(spelt))
    at = np.cumsum(sizes, dtype=np.int64) - sizes
    address, key = hash_names(text, at, sizes)
    bank.book = books.with_room(bank.book, len(spelt), len(text))
    while not _remember(bank.arena, bank.heads, model, bank.book, text, at, sizes, address, key):
        bank.arena = larger(bank.arena, run_words((len(spelt) + 1) // 2))
    bank.emitted(model)


@kernel
def _remember(
    arena: Arena, heads: NDArray[Any], model: int, book: Book, text: NDArray[np.uint8], at: NDArray[np.int64],
    size: NDArray[np.int32], address: NDArray[np.uint64], key: NDArray[np.int64],
) -> bool:  # fmt: skip
    """False, with nothing changed, if the arena has no room."""
    before, count = heads[model].snapshot_size, len(at)
    had, need = (before + 1) // 2, (count + 1) // 2
    if before == 0 or count == 0 or run_words(had) != run_words(need):
        run = 0
        if count > 0:
            run = take_run(arena, need)
            if run == NO_ROOM:
                return False
        if before > 0:
            give_run(arena, heads[model].snapshot, had)
        heads[model].snapshot = run
    heads[model].snapshot_size = count
    start = 2 * heads[model].snapshot
    for i in range(count):
        arena.ints[start + i] = number_of(book, address[i], key[i], text, at[i], size[i])
    return True
