"""What learners share whose weights are hardly ever 0: while a batch's names are bound, they stand by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.kernels.dense.loop import dense_loop
from sluiceway.operators.kernels.dense.weights_by_name import score_by_name, selected_now
from sluiceway.operators.kernels.sparse.slots import Rows
from sluiceway.operators.learners.dense import DenseLearner


def by_name_loop(name: str, learn: Callable[..., bool]) -> Callable[..., int]:
    """Such a learner's loop: all but what a labelled row changes is the same."""
    return dense_loop(name, score_by_name, learn, selected_now)


class ByNameLearner(DenseLearner):
    """A `DenseLearner` whose kernel finds weights by name; by slot they are brought up to date when someone asks."""

    def _begin(self) -> None:
        super()._begin()
        self._newer_by_name = False  # than those by slot

    def _bind(self, names: tuple[str, ...]) -> None:
        super()._bind(names)
        self._dense = self._dense._replace(by_name=self._model.weight[self._model.slot_of])

    def _settle_names(self) -> None:
        if self._newer_by_name:
            self._model.weight[self._model.slot_of] = self._dense.by_name  # without a slot it is 0, as in slot 0
            self._newer_by_name = False
        super()._settle_names()

    def _learn_rows(self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool) -> int:
        self._newer_by_name = True
        return super()._learn_rows(rows, start, stop, scores, until_change)
