"""Learners in a bank that must know how many features there have been: what they share, and the random perceptron."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import loop_kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.bank import Bank, Emission
from sluiceway.operators.bank.book import Book
from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, Poll, Scratch, model_view, open_row, row_view
from sluiceway.operators.bank.seen import KEYS, open_seen, seen_view
from sluiceway.operators.bank.sparse import BankedSparse, close_row
from sluiceway.operators.learners.perceptron_random import PerceptronRandom, learn_rows


@loop_kernel
def advance_perceptron_random(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    known: NDArray[np.int32], k: int, seed: int, limit: int,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        length = poll.stop[row] - poll.first[row]
        if not open_seen(arena, heads, at, length, poll.y[row] != 0, limit, KEYS):
            return ~row
        if not open_row(poll, arena, heads, scratch, row, k, scaled):
            return ~row
        learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row),
            scores[row : row + 1], False, k, seed,
            seen_view(arena, heads, at, known, scratch.bound, length, KEYS), limit,
        )  # fmt: skip
        row += 1
        if close_row(poll, arena, heads, scratch, book, scores, row - 1, before, version, every, on_change, min_gap):
            scratch.signal[0] = 1
            return row
    return row


class BankedCounting(BankedSparse):
    """What learners that count the features they have seen have in common."""

    features = KEYS

    def metrics(self, bank: Bank, model: int) -> dict[str, float]:
        return {"values_ignored": int(bank.heads["ignored"][model])}

    def _known(self, bank: Bank) -> NDArray[np.int32]:
        """Room to look up the features of a row."""
        length = len(bank.scratch.values)
        if bank.workspace is None or len(bank.workspace) < length:
            bank.workspace = np.zeros(length, dtype=np.int32)
        known: NDArray[np.int32] = bank.workspace
        return known


class BankedPerceptronRandom(BankedCounting):
    """What a bank needs of the random perceptron."""

    loop = staticmethod(advance_perceptron_random)

    def __init__(self, model: PerceptronRandom) -> None:
        given = model.params
        self.slots_at_most, self._seed, self._limit = given["k"], given["seed"], given["max_features"]

    def advance_bank(self, bank: Bank, row: int, poll: Poll, scores: NDArray[np.float64], emit: Emission) -> int:
        return advance_perceptron_random(
            row, poll, bank.arena, bank.heads, bank.scratch, bank.book, scores, bank.scaled,
            emit.every, emit.on_change, emit.min_gap, self._known(bank), self.slots_at_most, self._seed, self._limit,
        )  # fmt: skip
