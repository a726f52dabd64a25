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
| t | `counts[VERSION]` | labelled instances, this one included |
| λ | `lam` | the penalty; weights of features that do not pay are exactly 0 |
| m | `trigger` | 1: learns from every loss ("hinge"); 0: from errors alone ("error") |
| w | `soft(weight, waiting threshold)` | weights |

The threshold waits until a feature comes again, so an instance costs its non-zeros, and the weights are those of
the rule as it stands, but for rounding.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.ahead import MANY, ask_ahead, ask_for_slots
from sluiceway.operators.kernels.dense import SHRUNK, Dense, add_row, is_stale, leave_out_newcomers, settle_row
from sluiceway.operators.kernels.slots import ACTIVE, VERSION, Model, Rows
from sluiceway.operators.kernels.waiting import (
    bring_all_up,
    bring_up,
    make_room,
    score_waiting,
    selected_waiting,
    weigh_waiting,
)
from sluiceway.operators.learners.dense import MARGINS, DenseLearner, Trigger, number_from_0
from sluiceway.operators.params import one_of, positive_number


@kernel
def learn_rows(
    rows: Rows, start: int, stop: int, m: Model, d: Dense, scores: NDArray[np.float64], until_change: bool,
    k: int, keep: float, limit: int, margin: float, eta: float, lam: float, falling: bool,
) -> int:  # fmt: skip
    before = selected_waiting(m, d, k, keep) if until_change else np.uint64(0)
    for row in range(start, stop):
        if len(m.slot_of) > MANY:
            ask_ahead(rows.indptr, rows.indices, row, m.slot_of, m.weight)
            ask_for_slots(rows.indptr, rows.indices, row, m.slot_of, d.shrunk)
        f = score_waiting(rows, row, m, d)
        scores[row] = f
        y = rows.y[row]
        if y == 0:
            continue
        m.counts[VERSION] += 1
        step = eta / math.sqrt(m.counts[VERSION]) if falling else eta
        make_room(rows, row, m, d, limit)
        leave_out_newcomers(rows, row, m, d, limit)
        if y * f <= margin:
            bring_up(rows, row, m, d)
            settle_row(rows, row, m, d, add_row(rows, row, m, d, step * y, 1.0), step * lam)
        d.numbers[SHRUNK] += step * lam
        if is_stale(m, d):
            bring_all_up(m, d)
        if until_change and selected_waiting(m, d, k, keep) != before:
            return row + 1
    return stop


class FOBOS(DenseLearner):
    """Gradient steps and soft thresholds; what does not pay has weight 0.

    >>> model = FOBOS(k=5, eta=0.5, lam=0.5, schedule="constant")
    >>> model.learn_one({"free": 2.0, "len": 0.25}, 1)
    >>> model.selected
    [Selected(feature='free', weight=0.75, since=1)]
    """

    NAME: ClassVar[str] = "fobos"
    KERNEL = learn_rows
    WAITS: ClassVar[bool] = True

    def __init__(
        self,
        *,
        k: int | None = None,
        keep: float | None = None,
        eta: float = 1.0,
        lam: float = 0.001,
        schedule: str = "sqrt",
        trigger: Trigger = "hinge",
        max_features: int = 1_000_000,
    ) -> None:
        super().__init__(k=k, keep=keep, max_features=max_features)
        self._eta = positive_number("eta", eta)
        self._lam = number_from_0("lam", lam)
        self._schedule = one_of("schedule", schedule, ("sqrt", "constant"))
        self._trigger = one_of("trigger", trigger, ("error", "hinge"))
        if not math.isfinite(self._eta * self._lam * 2.0**31):
            raise ValueError(f"eta * lam must be a number far below {self._eta * self._lam!r}")

    def _own_params(self) -> dict[str, Any]:
        return {"eta": self._eta, "lam": self._lam, "schedule": self._schedule, "trigger": self._trigger}

    def _kernel_params(self) -> tuple[float, ...]:
        return MARGINS[self._trigger], self._eta, self._lam, self._schedule == "sqrt"

    def _weights(self) -> NDArray[np.float64]:
        whole = np.zeros(int(self._model.counts[ACTIVE]) + 1)
        weigh_waiting(self._model, self._dense, whole)
        return whole

    def _weight_in(self, slot: int) -> float:
        weight = self._model.weight.item(slot)
        left = abs(weight) - (self._dense.numbers.item(SHRUNK) - self._dense.shrunk.item(slot))
        return math.copysign(left, weight) if left > 0.0 else 0.0
