"""What learners with a weight for every feature share: lazy scaling, the limit on names, selection on demand.

The selection is the `k` largest weights, or the fewest that `keep` a share of ‖w‖²: the σ of the paper's Theorem
3.3 made relative (an absolute one above ‖w‖² would remove everything, for ever). It is computed when asked for, so
`since` says when the feature's weight last became non-zero, not when it last was large enough to be selected.

At `max_features` non-zero weights, features that have none are ignored, and counted, until one becomes 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import is_compiled
from sluiceway.operators.contract import Selected
from sluiceway.operators.kernels.dense.selection import mark
from sluiceway.operators.kernels.dense.storage import new_dense
from sluiceway.operators.kernels.dense.weights_by_name import weights_scaled
from sluiceway.operators.kernels.sparse.slots import Rows
from sluiceway.operators.learners.linear import LinearLearner
from sluiceway.operators.parameters import choice, count, positive

Trigger = Literal["error", "hinge"]

MARGINS = {"error": 0.0, "hinge": 1.0}
"""A row is learnt from if y f is at most this."""
_KEEP = 0.99


def learns_from(default: Trigger) -> Any:
    """The hyper-parameter of that name."""
    return choice("learn from errors alone, or from every loss", *MARGINS, default=default)


class DenseLearner(LinearLearner):
    """A `Learner` with as many non-zero weights as features; an algorithm adds `rule` and a kernel."""

    k: int | None = count("select so many features, those with the largest weights", default=None)
    keep: float | None = positive(
        "or the fewest features that have this share of ‖w‖²; 0.99 if neither is given", most=1.0, default=None
    )
    max_features: int = count(
        "how many weights may differ from 0: later features are ignored, and counted", most=2**30, default=1_000_000
    )

    def _check(self) -> None:
        if self.k is not None and self.keep is not None:
            raise ValueError("k and keep must not both be given: how many features, or what share of ‖w‖²")
        if self.k is None and self.keep is None:
            self.given = {**self.given, "keep": _KEEP}

    def _begin(self) -> None:
        super()._begin()
        self._dense = new_dense()

    @property
    def _slots_at_most(self) -> int:
        return self.max_features

    @classmethod
    def is_compiled(cls) -> bool:
        return super().is_compiled() and is_compiled(mark)

    @classmethod
    def compile(cls) -> None:
        model = cls(k=1)
        model.learn_one({"0": 1.0}, 1)
        assert model.selected

    @property
    def _top(self) -> int:
        """How many features to select, as the kernels have it; 0: `keep` says."""
        return self.k or 0

    @property
    def _keep(self) -> float:
        return self.keep or 0.0

    @property
    def selected(self) -> list[Selected]:
        self._settle_names()
        n = self._active
        weights, selected = self._weights(), np.zeros(n + 1, dtype=np.bool_)
        mark(weights, self._model.key, n, self._top, self._keep, selected, np.empty(n, dtype=np.int64))
        slots = np.flatnonzero(selected)
        weight = weights[slots]
        order = np.lexsort((self._model.key[slots], -np.abs(weight)))
        slots = slots[order]
        names = map(self._names.__getitem__, slots.tolist())
        return list(map(Selected, names, weight[order].tolist(), self._model.since[slots].tolist()))

    def metrics(self) -> dict[str, float]:
        return {"values_ignored": int(self._model.head["ignored"][0])}

    def state(self) -> dict[str, Any]:
        state = super().state()
        scale, squares, shrunk, ignored, stale = self._model.head[
            ["scale", "squares", "shrunk", "ignored", "stale"]
        ].item()
        return state | {"numbers": [scale, squares, shrunk], "values_ignored": ignored, "stale": stale}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        head = self._model.head
        head["scale"], head["squares"], head["shrunk"] = state["numbers"]
        head["ignored"], head["stale"] = state["values_ignored"], state["stale"]

    def _weights(self) -> NDArray[np.float64]:
        weights = np.zeros(self._active + 1)
        weights_scaled(self._model, weights)
        return weights

    def _weight_in(self, slot: int) -> float:
        return float(self._model.head["scale"][0]) * self._model.weight.item(slot)

    def _moved_slots(self, active: int) -> list[int]:
        log = self._dense.log[: self._model.head["logged"][0]]
        self._dense.in_log[log] = False
        self._model.head["logged"] = 0
        moved = log[log <= active]
        new = moved[self._model.local[moved] >= 0]
        self._model.key[new] = self._model.name_key[self._model.local[new]]
        slots: list[int] = moved.tolist()
        return slots

    def _make_room(self, indptr: NDArray[np.int64]) -> None:
        super()._make_room(indptr)
        if len(self._dense.found) < len(self._model.touched):
            self._dense = self._dense._replace(found=np.zeros(len(self._model.touched)))

    def _grow_slots(self, slots: int) -> None:
        super()._grow_slots(slots)
        more = len(self._model.weight) - len(self._dense.log)
        if more > 0:
            grown = {field: np.pad(getattr(self._dense, field), (0, more)) for field in ("log", "in_log", "current")}
            self._dense = self._dense._replace(**grown)

    def _learn_rows(self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool) -> int:
        row: int = type(self).KERNEL(
            rows, start, stop, self._model, self._dense, scores, until_change, self._top, self._keep, self.max_features,
            self.rule(),
        )  # fmt: skip
        return row

    @abstractmethod
    def rule(self) -> Any:
        """What the kernel must know of the hyper-parameters: a named tuple.

        All have `untouched_above`: a labelled row with y f above it changes no weight.
        """
