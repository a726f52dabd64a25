"""Learners in a bank that look at few features of an instance and say beforehand at which.

The sample of a model is drawn anew for each of its rows: it takes k draws, as many as a model by itself needs for each
labelled row, and no model has to keep one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import loop_kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.bank import Bank, Emission
from sluiceway.operators.bank.book import Book
from sluiceway.operators.bank.book import name_of as name_in_book
from sluiceway.operators.bank.counting import BankedCounting
from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, Poll, Scratch, model_view, open_row, row_view
from sluiceway.operators.bank.seen import NAMES, name_seen, names_of_seen, open_seen, seen_view
from sluiceway.operators.bank.sparse import close_row
from sluiceway.operators.kernels.sparse.sampling import Sample, choose, explores, new_sample
from sluiceway.operators.learners import ofs_partial, perceptron_partial
from sluiceway.operators.learners.ofs_partial import OFSPartial
from sluiceway.operators.learners.perceptron_partial import PerceptronPartial

_NO_INSTANCE = -1


@loop_kernel
def advance_ofs_partial(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    known: NDArray[np.int32], sample: Sample, limit: int, k: int, seed: int,
    always: bool, epsilon: float, eta: float, radius: float, margin: float,
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
        ofs_partial.learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row),
            scores[row : row + 1], False,
            seen_view(arena, heads, at, known, scratch.bound, length, NAMES), limit, sample, k, seed,
            always, epsilon, eta, radius, margin,
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


@loop_kernel
def advance_perceptron_partial(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    known: NDArray[np.int32], sample: Sample, limit: int, k: int, seed: int, at_random: bool,
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
        perceptron_partial.learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row),
            scores[row : row + 1], False,
            seen_view(arena, heads, at, known, scratch.bound, length, NAMES), limit, sample, k, seed, at_random,
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


class BankedPartial(BankedCounting, ABC):
    """What learners with partial input have in common."""

    features = NAMES

    def __init__(self, model: OFSPartial | PerceptronPartial) -> None:
        given = model.params
        self.slots_at_most, self._seed, self._limit = given["k"], given["seed"], given["max_features"]
        self._sample = new_sample(given["k"], given["max_features"])

    @abstractmethod
    def _explores(self, instance: int) -> bool:
        """Whether that instance is asked for a random set of features, not for those that have a weight."""

    def wanted_features(self, bank: Bank, model: int) -> list[str]:
        coming = int(bank.heads["version"][model]) + 1
        if not self._explores(coming):
            return [entry.feature for entry in bank.selected(model)]
        names = names_of_seen(bank.arena, bank.heads, model)
        self._sample.head["instance"] = _NO_INSTANCE
        choose(self._sample, self._seed, coming, self.slots_at_most, len(names))
        numbers = np.sort(self._sample.numbers[: self._sample.head["chosen"][0]])
        return [name_in_book(bank.book, int(name)) for name in names[numbers]]


class BankedOFSPartial(BankedPartial):
    """What a bank needs of OFS with partial input."""

    loop = staticmethod(advance_ofs_partial)

    def __init__(self, model: OFSPartial) -> None:
        super().__init__(model)
        given = model.params
        self._always, self._epsilon = given["input"] == "random", given["epsilon"]
        self._eta, self._radius, self._margin = given["eta"], given["radius"], float(given["margin"])

    def _explores(self, instance: int) -> bool:
        return self._always or explores(self._seed, instance, self._epsilon)

    def advance_bank(self, bank: Bank, row: int, poll: Poll, scores: NDArray[np.float64], emit: Emission) -> int:
        return advance_ofs_partial(
            row, poll, bank.arena, bank.heads, bank.scratch, bank.book, scores, bank.scaled,
            emit.every, emit.on_change, emit.min_gap, self._known(bank), self._sample, self._limit,
            self.slots_at_most, self._seed, self._always, self._epsilon, self._eta, self._radius, self._margin,
        )  # fmt: skip


class BankedPerceptronPartial(BankedPartial):
    """What a bank needs of the perceptron with partial input."""

    loop = staticmethod(advance_perceptron_partial)

    def __init__(self, model: PerceptronPartial) -> None:
        super().__init__(model)
        self._at_random = model.params["selection"] == "random"

    def _explores(self, instance: int) -> bool:
        return True

    def advance_bank(self, bank: Bank, row: int, poll: Poll, scores: NDArray[np.float64], emit: Emission) -> int:
        return advance_perceptron_partial(
            row, poll, bank.arena, bank.heads, bank.scratch, bank.book, scores, bank.scaled,
            emit.every, emit.on_change, emit.min_gap, self._known(bank), self._sample, self._limit,
            self.slots_at_most, self._seed, self._at_random,
        )  # fmt: skip
