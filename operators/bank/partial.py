"""Learners in a bank that look at few features of an instance and say beforehand at which.

The sample of a model is drawn anew for each of its rows: it takes k draws, as many as a model by itself needs for each
labelled row, and no model has to keep one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import filled_in, loop_kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.bank import Bank, Emission
from sluiceway.operators.bank.book import Book
from sluiceway.operators.bank.book import name_of as name_in_book
from sluiceway.operators.bank.counting import BankedCounting
from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, Poll, Scratch, model_view, open_row, row_view
from sluiceway.operators.bank.seen import NAMES, name_seen, names_of_seen, open_seen, seen_view
from sluiceway.operators.bank.sparse import close_row
from sluiceway.operators.kernels.sparse.features_seen import Features
from sluiceway.operators.kernels.sparse.sampling import Sample, choose, new_sample
from sluiceway.operators.kernels.sparse.slots import Model, Rows
from sluiceway.operators.learners.ofs_partial import OFSPartial
from sluiceway.operators.learners.partial import PartialLearner
from sluiceway.operators.learners.perceptron_partial import PerceptronPartial

_NO_INSTANCE = -1


def _advance(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    known: NDArray[np.int32], sample: Sample, limit: int, k: int, seed: int, rule: Any,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version, count = heads[at].active, heads[at].version, heads[at].features
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        first, length = poll.first[row], poll.stop[row] - poll.first[row]
        if not open_seen(arena, heads, at, length, poll.y[row] != 0, limit, NAMES):
            return ~row
        if not open_row(poll, arena, heads, scratch, row, k, scaled):
            return ~row
        sample.head[0].instance = _NO_INSTANCE
        _learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row),
            scores[row : row + 1], False,
            seen_view(arena, heads, at, known, scratch.bound, length, NAMES), limit, sample, k, seed, rule,
        )  # fmt: skip
        if heads[at].features > count:
            name_seen(
                arena, heads, at, known, count, book, first, length,
                poll.address, poll.key, poll.text, poll.name_at, poll.name_size,
            )  # fmt: skip
        row += 1
        if close_row(poll, arena, heads, scratch, book, scores, row - 1, before, version, every, on_change, min_gap):
            scratch.signal[0] = 1
            return row
    return row


def _learn_rows(
    rows: Rows, start: int, stop: int, m: Model, scores: NDArray[np.float64], until_change: bool,
    seen: Features, limit: int, sample: Sample, k: int, seed: int, rule: Any,
) -> int:  # fmt: skip
    raise NotImplementedError  # a placeholder: `filled_in` puts a learner's own there


_LOOPS: dict[type[Any], Callable[..., int]] = {
    learner: loop_kernel(filled_in(_advance, f"advance_{name}", {"_learn_rows": learner.KERNEL}))
    for name, learner in (("ofs_partial", OFSPartial), ("perceptron_partial", PerceptronPartial))
}


class BankedPartial(BankedCounting):
    """What a bank needs of a learner with partial input: its parameters and its loop."""

    features = NAMES

    def __init__(self, model: PartialLearner) -> None:
        self.loop = _LOOPS[type(model)]
        self.slots_at_most = model.k
        self._model = model
        self._rule = model.rule()
        self._sample = new_sample(model.k, model.max_features)

    def wanted_features(self, bank: Bank, model: int) -> list[str]:
        coming = int(bank.heads["version"][model]) + 1
        if not self._model.explores(coming):
            return [entry.feature for entry in bank.selected(model)]
        names = names_of_seen(bank.arena, bank.heads, model)
        self._sample.head["instance"] = _NO_INSTANCE
        choose(self._sample, self._model.seed, coming, self.slots_at_most, len(names))
        numbers = np.sort(self._sample.numbers[: self._sample.head["chosen"][0]])
        return [name_in_book(bank.book, int(name)) for name in names[numbers]]

    def advance_bank(self, bank: Bank, row: int, poll: Poll, scores: NDArray[np.float64], emit: Emission) -> int:
        return self.loop(
            row, poll, bank.arena, bank.heads, bank.scratch, bank.book, scores, bank.scaled,
            emit.every, emit.on_change, emit.min_gap, self._known(bank), self._sample, self._model.max_features,
            self.slots_at_most, self._model.seed, self._rule,
        )  # fmt: skip
