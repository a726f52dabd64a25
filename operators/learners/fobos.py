"""FOBOS with an L1 penalty: a gradient step on the hinge loss, then every weight moved towards 0 by as much.

Duchi, Singer: "Efficient Online and Batch Learning Using Forward Backward Splitting", JMLR 10, 2009.

    f = w . x
    η_t = η              (schedule "constant")
    η_t = η/√t           (schedule "sqrt")
    if y f <= m:    w <- w + η_t y x
    w <- S(w, η_t λ),    S(w, θ)_i = sign(w_i) max(|w_i| - θ, 0)

| symbol | here | what |
|---|---|---|
| η | `eta` | step |
| t | `head.version` | labelled instances, this one included |
| λ | `lam` | the penalty; weights of features that do not pay are exactly 0 |
| m | `trigger` | 1: learns from every loss ("hinge"); 0: from errors alone ("error") |
| w | `soft(weight, head.shrunk)` | weights |

Thresholds are applied when a feature comes again, so an instance costs its non-zeros, and the weights are those of
the rule as it stands, but for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.dense.lazy_thresholds import (
    bring_all_up,
    make_room,
    score_thresholded,
    selected_thresholded,
    take_over,
    weights_thresholded,
)
from sluiceway.operators.kernels.dense.loop import dense_loop
from sluiceway.operators.kernels.dense.storage import Dense, change_hands, is_stale
from sluiceway.operators.kernels.sparse.slots import Model, Rows, bounded
from sluiceway.operators.learners.dense import MARGINS, DenseLearner, Trigger, learns_from
from sluiceway.operators.parameters import choice, from_zero, positive


@kernel
def add_row(rows: Rows, row: int, m: Model, d: Dense, step: float, least: float) -> None:
    """w <- w + step x; what the threshold to come makes 0 is 0 at once."""
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    weight, since, touched, ordering, entrant, entrant_name = (
        m.weight, m.since, m.touched, m.ordering, m.entrant, m.entrant_name,
    )  # fmt: skip
    found, shrunk, version = d.found, m.head[0].shrunk, m.head[0].version
    entering = 0
    vacant = 0
    counted = 0
    for j in range(first, end):
        slot = touched[j - first]
        if slot < 0 or values[j] == 0.0:
            continue
        before = found[j - first]
        after = bounded(before + step * values[j])
        after = after if abs(after) > least else 0.0
        counted += (after != 0.0) - (before != 0.0)
        raised = bounded(after + math.copysign(shrunk, after)) if after != 0.0 else np.inf
        if slot == 0:
            entrant[entering] = raised
            entrant_name[entering] = indices[j]
            entering += after != 0.0
        else:
            weight[slot] = raised
            ordering[vacant] = slot
            vacant += after == 0.0
            if before == 0.0:
                since[slot] = version
    m.head[0].counted += counted
    if entering > vacant:
        vacant = take_over(m, d, entering, vacant)
    if entering + vacant > 0:
        change_hands(m, d, entering, vacant)


class FOBOSRule(NamedTuple):
    untouched_above: float
    margin: float
    eta: float
    lam: float
    falling: bool


@kernel
def learn(rows: Rows, row: int, m: Model, d: Dense, y: int, f: float, rule: FOBOSRule) -> bool:
    step = rule.eta / math.sqrt(m.head[0].version) if rule.falling else rule.eta
    if y * f <= rule.margin:
        add_row(rows, row, m, d, step * y, step * rule.lam)
    m.head[0].shrunk += step * rule.lam
    if is_stale(m):
        bring_all_up(m, d)
    return True


class FOBOS(DenseLearner):
    """Gradient steps and soft thresholds; what does not pay has weight 0.

    >>> model = FOBOS(k=5, eta=0.5, lam=0.5, schedule="constant")
    >>> model.learn_one({"free": 2.0, "len": 0.25}, 1)
    >>> model.selected
    [Selected(feature='free', weight=0.75, since=1)]
    """

    NAME: ClassVar[str] = "fobos"
    KERNEL = dense_loop("fobos", score_thresholded, learn, selected_thresholded, make_room)
    STATE_VERSION: ClassVar[int] = 2

    eta: float = positive("step", default=1.0)
    lam: float = from_zero("the penalty: how far a step moves every weight towards 0, times eta", default=0.001)
    schedule: str = choice("steps of eta/√t, or all of eta", "sqrt", "constant", default="sqrt")
    trigger: Trigger = learns_from("hinge")

    def _check(self) -> None:
        super()._check()
        if not math.isfinite(self.eta * self.lam * 2.0**31):
            raise ValueError(f"eta * lam must be a number far below {self.eta * self.lam!r}")

    def rule(self) -> FOBOSRule:
        return FOBOSRule(math.inf, MARGINS[self.trigger], self.eta, self.lam, self.schedule == "sqrt")

    def state(self) -> dict[str, Any]:
        hand, counted = self._model.head[["hand", "counted"]].item()
        return super().state() | {"hand": hand, "counted": counted}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._model.head["hand"], self._model.head["counted"] = state["hand"], state["counted"]

    def _weights(self) -> NDArray[np.float64]:
        weights = np.zeros(self._active + 1)
        weights_thresholded(self._model, weights)
        return weights

    def _weight_in(self, slot: int) -> float:
        weight = self._model.weight.item(slot)
        return math.copysign(max(abs(weight) - float(self._model.head["shrunk"][0]), 0.0), weight)
