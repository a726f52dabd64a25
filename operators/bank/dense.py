"""The learners with a weight for every feature in a bank: pa, pa-objective, pa-l1, pa-l2, norma, fobos."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.bank.bank import Bank, Banked, Emission
from sluiceway.operators.bank.block import slots_of
from sluiceway.operators.bank.chosen import Chosen, together
from sluiceway.operators.bank.dense_loops import bank_loop
from sluiceway.operators.bank.dense_rows import FRESH, know_selected, present_weights
from sluiceway.operators.bank.rows import Poll
from sluiceway.operators.bank.seen import NO_FEATURES
from sluiceway.operators.kernels.dense.selection import mark
from sluiceway.operators.kernels.dense.storage import Dense
from sluiceway.operators.learners.dense import DenseLearner
from sluiceway.operators.learners.fobos import FOBOS
from sluiceway.operators.learners.norma import NORMA
from sluiceway.operators.learners.pa import PA
from sluiceway.operators.learners.pa_l1 import PAL1
from sluiceway.operators.learners.pa_l2 import PAL2
from sluiceway.operators.learners.pa_objective import PAObjective

LOOPS: dict[type[Any], Callable[..., int]] = {
    learner: bank_loop(learner) for learner in (PA, PAObjective, PAL1, PAL2, NORMA, FOBOS)
}


def banked(model: object) -> Banked | None:
    """What a bank needs of a learner with a model's settings; None if it is of another family."""
    loop = LOOPS.get(type(model))
    return None if loop is None or not isinstance(model, DenseLearner) else BankedDense(model, loop)


class BankedDense:
    """What a bank needs of a dense learner: its parameters and its loop."""

    by_slot = False

    def __init__(self, model: DenseLearner, loop: Callable[..., int]) -> None:
        self.loop = loop
        given = model.params
        self._k, self._keep, self._limit = given.get("k", 0), given.get("keep", 0.0), given["max_features"]
        self._rule = model.rule()

    @property
    def slots_at_most(self) -> int:
        return int(self._limit)

    @property
    def features(self) -> int:
        return NO_FEATURES

    def advance_bank(self, bank: Bank, row: int, poll: Poll, scores: NDArray[np.float64], emit: Emission) -> int:
        return self.loop(
            row, poll, bank.arena, bank.heads, bank.scratch, _workspace(bank), bank.book, scores, bank.scaled,
            emit.every, emit.on_change, emit.min_gap, self._k, self._keep, self._limit, self._rule,
        )  # fmt: skip

    def choose(self, bank: Bank, models: NDArray[np.int64]) -> Chosen:
        return together([self._chosen(bank, model) for model in models.tolist()])

    def _chosen(self, bank: Bank, model: int) -> Chosen:
        block, room, active = (int(bank.heads[field][model]) for field in ("block", "room", "active"))
        weights, selected = np.zeros(active + 1), np.zeros(active + 1, dtype=np.bool_)
        present_weights(bank.arena, bank.heads, model, weights)
        _, since, key, name = slots_of(bank.arena, block, room)
        mark(weights, key, active, self._k, self._keep, selected, np.empty(active, dtype=np.int64))
        slots = np.flatnonzero(selected)
        slots = slots[np.lexsort((key[slots], -np.abs(weights[slots])))]
        return Chosen(np.array([len(slots)]), name[slots], weights[slots], since[slots])

    def know_selected(self, bank: Bank, model: int) -> None:
        if bank.heads["flags"][model] & FRESH == 0:
            d, ordering = _workspace(bank), bank.scratch.ordering
            know_selected(bank.arena, bank.heads, model, d.current, ordering, self._k, self._keep)

    def metrics(self, bank: Bank, model: int) -> dict[str, float]:
        return {"values_ignored": int(bank.heads["ignored"][model])}

    def wanted_features(self, bank: Bank, model: int) -> list[str] | None:
        return None


def _workspace(bank: Bank) -> Dense:
    """The arrays that dense kernels need beside the bank's own scratch arrays, as long as those.

    The log is where the bank is told which slots have moved.
    """
    made, scratch = bank.workspace, bank.scratch
    if not isinstance(made, Dense) or made.log is not scratch.moved:
        slots, length = len(scratch.origin), len(scratch.values)
        made = bank.workspace = Dense(
            log=scratch.moved,
            in_log=np.zeros(slots, dtype=np.bool_),
            current=np.zeros(slots),
            by_name=np.zeros(length),
            found=np.zeros(length),
        )
    return made
