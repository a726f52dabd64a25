"""Rows of many models of joint operators on their way through them, in compiled code but for what is rare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.joint.counts import Counts
from sluiceway.operators.kernels.joint.advancing import (
    DUE,
    NEW_CLASS,
    NO_ROOM,
    Facts,
    Reach,
    decide,
    learn,
    new_decided,
)
from sluiceway.operators.kernels.joint.binding import Bound, Given, bind

Integers = NDArray[np.int64]


class Model(Protocol):
    """What is asked for here, seldom."""

    @property
    def counts(self) -> Counts: ...

    def know_class(self, label: int) -> None: ...

    def seat_policy(self) -> None:
        """Write into the line what rows are decided with."""


class Poll:
    def __init__(
        self, lines: Integers, model: Callable[[int], Model], ends: Integers, order: Integers, given: Given,
        facts: Facts, *, most_classes: int, classes: int = 0,
    ) -> None:  # fmt: skip
        """`lines`: where each model's line stands; `ends`: where its rows begin, and those of the next; `order`: which
        of the given rows each is, `facts` what is known of it. With `classes` chances are kept, of so many."""
        rows = len(order)
        self._lines, self._model = lines, model
        self._most_classes = most_classes
        self.facts = facts
        sizes = np.diff(given.indptr)[order]
        values = int(sizes.sum())
        self.bound = Bound(
            np.zeros(rows + 1, dtype=np.int64), np.empty(values, dtype=np.int32), np.empty(values),
            np.empty(rows, dtype=np.int64), np.empty(2 * int(sizes.max(initial=0)), dtype=np.int64),
        )  # fmt: skip
        self.decided = new_decided(rows, most_classes, classes)
        self._reach = Reach(ends[:-1].copy(), ends[:-1].copy(), ends[1:], np.zeros(len(lines), dtype=np.int8))
        whose, row = np.repeat(np.arange(len(lines)), np.diff(ends)), 0
        while row < rows:
            row = bind(lines, order, whose, facts.y, given, row, self.bound)
            if row < rows:
                letters = given.name_size[given.indptr[order[row]] : given.indptr[order[row] + 1]].max()
                model(int(whose[row])).counts.make_room_for_names(int(letters))

    def advance(self) -> list[int]:
        """On, up to the next row of each model after which something is due: of these models, the places. None: all
        rows are done."""
        reach = self._reach
        going = np.flatnonzero(reach.at < reach.stop)
        due: list[int] = []
        while len(going):
            done = self._lines, going, reach, self.bound, self.facts, self.decided
            decide(*done, self._most_classes)
            learn(*done)
            why = reach.why[going]
            due += going[why == DUE].tolist()
            going = going[why > DUE]
            for place, reason in zip(going.tolist(), reach.why[going].tolist(), strict=True):
                self._help(place, reason)
        return sorted(due)

    def last_row(self, model: int) -> int:
        """That a model has learnt."""
        return int(self._reach.at[model]) - 1

    def _help(self, place: int, reason: int) -> None:
        model, row = self._model(place), int(self._reach.at[place])
        if reason == NEW_CLASS:
            model.know_class(int(self.facts.y[row]))
        elif reason == NO_ROOM:
            model.counts.make_room_to_wait(int(self.bound.indptr[row + 1] - self.bound.indptr[row]))
        else:
            model.seat_policy()
