"""STSD in a bank: lazily scaled weights, the features seen as keys, and a bucket queue for models with many weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel, loop_kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.bank import Bank, Emission
from sluiceway.operators.bank.book import Book
from sluiceway.operators.bank.counting import BankedCounting
from sluiceway.operators.bank.queue import open_queue, queue_view
from sluiceway.operators.bank.rows import (
    LABEL_OF_NOTHING,
    Poll,
    Scratch,
    all_moved,
    count_row,
    model_view,
    open_row,
    row_view,
    settle,
    unbind,
)
from sluiceway.operators.bank.seen import KEYS, open_seen, seen_view
from sluiceway.operators.kernels.sparse.bucket_queue import QUEUE_HEAD
from sluiceway.operators.learners.stsd import PERCEPTRON, STSD, learn_rows

_LOG = 4096
"""Slots that are logged when a row gives them another name; if there are more, all slots are examined."""


@kernel
def logged_moved(heads: NDArray[Any], model: int, scratch: Scratch, log: NDArray[np.int32]) -> int:
    """Which slots have another name than before the row, by the log if it has them all; how many."""
    logged, active = heads[model].logged, heads[model].active
    if logged > len(log):
        return all_moved(heads, model, scratch)
    origin, moved = scratch.origin, scratch.moved
    count = 0
    for i in range(logged):
        slot = log[i]
        if slot <= active and origin[slot] >= 0 and origin[slot] != slot:
            moved[count] = slot
            origin[slot] = ~origin[slot]  # a slot may be in the log more than once
            count += 1
    for i in range(count):
        origin[moved[i]] = ~origin[moved[i]]
    return count


@loop_kernel
def advance_stsd(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    known: NDArray[np.int32], queues: NDArray[Any], near: NDArray[np.int32], log: NDArray[np.int32], limit: int,
    rule: int, C: float, lam: float, proportion: float, at_random: bool, seed: int, few: int,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        labelled, length = poll.y[row] != 0, poll.stop[row] - poll.first[row]
        if not open_seen(arena, heads, at, length, labelled, limit, KEYS):
            return ~row
        if not open_row(poll, arena, heads, scratch, row, limit, scaled):
            return ~row
        many = proportion * min(limit, heads[at].features + length) + 1e-9 > few
        if labelled and many and not at_random and not open_queue(arena, heads, queues, at):
            unbind(poll, arena, heads, scratch, row, before)
            return ~row
        heads[at].logged = 0
        learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row),
            scores[row : row + 1], False,
            seen_view(arena, heads, at, known, scratch.bound, length, KEYS), limit,
            queue_view(arena, heads, queues, at, near, log),
            rule, C, lam, proportion, at_random, seed, few,
        )  # fmt: skip
        if heads[at].moves > 0:
            settle(poll, arena, heads, scratch, book, row, before, logged_moved(heads, at, scratch, log))
        unbind(poll, arena, heads, scratch, row, before)
        row += 1
        if count_row(poll, heads, scores, row - 1, version, every, on_change, min_gap):
            scratch.signal[0] = 1
            return row
    return row


class BankedSTSD(BankedCounting):
    """What a bank needs of STSD: its parameters and its loop."""

    loop = staticmethod(advance_stsd)

    def __init__(self, model: STSD) -> None:
        given = model.params
        self.slots_at_most = given["max_features"]
        self._rule = PERCEPTRON if given["update"] == "perceptron" else given["variant"]
        self._C, self._lam, self._seed = given["C"], given["lam"], given["seed"]
        self._proportion = 1.0 if given["selection"] == "all" else given["proportion"]
        self._at_random = given["selection"] == "random"
        self._few = model.FEW
        self._queues = np.zeros(0, dtype=QUEUE_HEAD)
        self._near = np.zeros(0, dtype=np.int32)
        self._log = np.zeros(_LOG, dtype=np.int32)

    def metrics(self, bank: Bank, model: int) -> dict[str, float]:
        return super().metrics(bank, model) | {"features_seen": int(bank.heads["features"][model])}

    def advance_bank(self, bank: Bank, row: int, poll: Poll, scores: NDArray[np.float64], emit: Emission) -> int:
        if len(self._queues) < len(bank.heads):
            queues = np.zeros(len(bank.heads), dtype=QUEUE_HEAD)
            queues[: len(self._queues)] = self._queues
            self._queues = queues
        if len(self._near) < len(bank.scratch.origin):
            self._near = np.zeros(len(bank.scratch.origin), dtype=np.int32)
        return advance_stsd(
            row, poll, bank.arena, bank.heads, bank.scratch, bank.book, scores, bank.scaled,
            emit.every, emit.on_change, emit.min_gap, self._known(bank), self._queues, self._near, self._log,
            self.slots_at_most, self._rule, self._C, self._lam, self._proportion, self._at_random, self._seed,
            self._few,
        )  # fmt: skip
