"""OFS and the truncated perceptron in a bank: the kernel that a single model has, a row at a time on whichever model
the row belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel, loop_kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.bank import Bank, Emission
from sluiceway.operators.bank.book import Book
from sluiceway.operators.bank.chosen import Chosen, every_weight
from sluiceway.operators.bank.rows import (
    LABEL_OF_NOTHING,
    Poll,
    Scratch,
    all_moved,
    count_row,
    model_view,
    settle,
    unbind,
)
from sluiceway.operators.bank.scored_rows import open_scored_row, scored_row_view
from sluiceway.operators.bank.seen import NO_FEATURES
from sluiceway.operators.learners import ofs, perceptron_truncated
from sluiceway.operators.learners.ofs import OFS
from sluiceway.operators.learners.perceptron_truncated import PerceptronTruncated


@kernel
def close_row(
    poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, book: Book, scores: NDArray[np.float64], row: int,
    before: int, version: int, every: int, on_change: bool, min_gap: int,
) -> bool:  # fmt: skip
    """After a row has been learnt from: what surrounds the weights is brought up to them. Whether a snapshot is due."""
    at = poll.model[row]
    if heads[at].moves > 0:
        settle(poll, arena, heads, scratch, book, row, before, all_moved(heads, at, scratch))
    unbind(poll, arena, heads, scratch, row, before)
    return count_row(poll, heads, scores, row, version, every, on_change, min_gap)


@loop_kernel
def advance_ofs(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    k: int, eta: float, radius: float, shrink: float,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        if not open_scored_row(poll, arena, heads, scratch, row, k, scaled, scores):
            return ~row
        ofs.learn_scored_row(
            scored_row_view(poll, scratch, row, scaled), 0, model_view(poll, arena, heads, scratch, row), scores[row],
            k, eta, radius, shrink,
        )  # fmt: skip
        row += 1
        if close_row(poll, arena, heads, scratch, book, scores, row - 1, before, version, every, on_change, min_gap):
            scratch.signal[0] = 1
            return row
    return row


@loop_kernel
def advance_perceptron_truncated(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int, k: int,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        if not open_scored_row(poll, arena, heads, scratch, row, k, scaled, scores):
            return ~row
        perceptron_truncated.learn_scored_row(
            scored_row_view(poll, scratch, row, scaled), 0, model_view(poll, arena, heads, scratch, row), scores[row],
            k,
        )  # fmt: skip
        row += 1
        if close_row(poll, arena, heads, scratch, book, scores, row - 1, before, version, every, on_change, min_gap):
            scratch.signal[0] = 1
            return row
    return row


class BankedSparse:
    """What all learners with few weights have in common, as a bank asks for it."""

    slots_at_most: int
    features = NO_FEATURES
    by_slot = True

    def choose(self, bank: Bank, models: NDArray[np.int64]) -> Chosen:
        return every_weight(models, bank.heads, bank.arena)

    def know_selected(self, bank: Bank, model: int) -> None:
        """Nothing to do: it is known after every row."""

    def metrics(self, bank: Bank, model: int) -> dict[str, float]:
        return {}

    def wanted_features(self, bank: Bank, model: int) -> list[str] | None:
        return None


class BankedOFS(BankedSparse):
    """What a bank needs of OFS: its parameters and its loop."""

    loop = staticmethod(advance_ofs)

    def __init__(self, model: OFS) -> None:
        given = model.params
        self.slots_at_most = given["k"]
        self._eta = given["eta"]
        self._radius = 1.0 / float(np.sqrt(given["lam"]))
        self._shrink = 1.0 - given["lam"] * given["eta"] if given["decay"] else 1.0

    def advance_bank(self, bank: Bank, row: int, poll: Poll, scores: NDArray[np.float64], emit: Emission) -> int:
        return advance_ofs(
            row, poll, bank.arena, bank.heads, bank.scratch, bank.book, scores, bank.scaled,
            emit.every, emit.on_change, emit.min_gap, self.slots_at_most, self._eta, self._radius, self._shrink,
        )  # fmt: skip


class BankedPerceptronTruncated(BankedSparse):
    """What a bank needs of the truncated perceptron."""

    loop = staticmethod(advance_perceptron_truncated)

    def __init__(self, model: PerceptronTruncated) -> None:
        self.slots_at_most = model.params["k"]

    def advance_bank(self, bank: Bank, row: int, poll: Poll, scores: NDArray[np.float64], emit: Emission) -> int:
        return advance_perceptron_truncated(
            row, poll, bank.arena, bank.heads, bank.scratch, bank.book, scores, bank.scaled,
            emit.every, emit.on_change, emit.min_gap, self.slots_at_most,
        )  # fmt: skip
