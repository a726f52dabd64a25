"""What the last snapshot of a model held: names, in its order, as numbers of the book in a run of the arena."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.bank import book as books
from sluiceway.operators.bank.arena import NO_ROOM, Arena, give_run, larger, run_words, take_run
from sluiceway.operators.bank.bank import Bank
from sluiceway.operators.bank.chosen import Chosen


def last_names(bank: Bank, model: int) -> list[str]:
    """The features of the model's last snapshot, as they stood in it."""
    start, size = 2 * int(bank.heads["snapshot"][model]), int(bank.heads["snapshot_size"][model])
    return [books.name_of(bank.book, number) for number in bank.arena.ints[start : start + size].tolist()]


def remember(bank: Bank, models: NDArray[np.int64], chosen: Chosen) -> None:
    """Snapshots of the models were made, with these features."""
    done = 0
    while True:
        done = _remember(bank.arena, bank.heads, models, done, chosen.ends, chosen.number)
        if done == len(models):
            break
        most = int(np.diff(chosen.ends, prepend=0).max())
        bank.arena = larger(bank.arena, run_words((most + 1) // 2))
    bank.emitted(models)


@kernel
def _remember(
    arena: Arena, heads: NDArray[Any], models: NDArray[np.int64], start: int, ends: NDArray[np.int64],
    number: NDArray[np.int32],
) -> int:  # fmt: skip
    """Models from `start` on; the first for which the arena has no room."""
    for at in range(start, len(models)):
        model, first = models[at], ends[at - 1] if at > 0 else 0
        before, count = heads[model].snapshot_size, ends[at] - first
        had, need = (before + 1) // 2, (count + 1) // 2
        if before == 0 or count == 0 or run_words(had) != run_words(need):
            run = 0
            if count > 0:
                run = take_run(arena, need)
                if run == NO_ROOM:
                    return at
            if before > 0:
                give_run(arena, heads[model].snapshot, had)
            heads[model].snapshot = run
        heads[model].snapshot_size = count
        to = 2 * heads[model].snapshot
        for i in range(count):
            arena.ints[to + i] = number[first + i]
    return len(models)
