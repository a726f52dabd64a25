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
| w | `soft(weight, threshold that has waited)` | weights |

The threshold waits until a feature comes again, so an instance costs its non-zeros, and the weights are those of
the rule as it stands, but for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel
from sluiceway.operators.kernels.dense import COUNTED, HAND, SHRUNK, Dense, change_hands, is_stale, leave_out_newcomers
from sluiceway.operators.kernels.slots import ACTIVE, VERSION, Model, Rows, bounded
from sluiceway.operators.kernels.waiting import (
    bring_all_up,
    make_room,
    score_waiting,
    selected_waiting,
    take_over,
    weigh_waiting,
)
from sluiceway.operators.learners.dense import MARGINS, DenseLearner, Trigger, number_from_0
from sluiceway.operators.params import one_of, positive_number


@inlined
def add_row(rows: Rows, row: int, m: Model, d: Dense, step: float, least: float) -> None:
    """w <- w + step x; what the threshold to come makes 0 is 0 at once."""
    first, end, indices, values = rows.indptr[row], rows.indptr[row + 1], rows.indices, rows.values
    weight, since, touched, ordering, entrant, entrant_name = (
        m.weight, m.since, m.touched, m.ordering, m.entrant, m.entrant_name,
    )  # fmt: skip
    found, shrunk, version = d.found, d.numbers[SHRUNK], m.counts[VERSION]
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
    d.tally[COUNTED] += counted
    if entering > vacant:
        vacant = take_over(m, d, entering, vacant)
    if entering + vacant > 0:
        change_hands(m, d, entering, vacant)


@kernel
def learn_rows(
    rows: Rows, start: int, stop: int, m: Model, d: Dense, scores: NDArray[np.float64], until_change: bool,
    k: int, keep: float, limit: int, margin: float, eta: float, lam: float, falling: bool,
) -> int:  # fmt: skip
    before = selected_waiting(m, d, k, keep) if until_change else np.uint64(0)
    for row in range(start, stop):
        f = score_waiting(rows, row, m, d)
        scores[row] = f
        y = rows.y[row]
        if y == 0:
            continue
        m.counts[VERSION] += 1
        step = eta / math.sqrt(m.counts[VERSION]) if falling else eta
        make_room(rows, row, m, d, limit)
        leave_out_newcomers(rows, row, m, d, limit - d.tally[COUNTED])
        if y * f <= margin:
            add_row(rows, row, m, d, step * y, step * lam)
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
    STATE_VERSION: ClassVar[int] = 2

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

    def state(self) -> dict[str, Any]:
        tally = self._dense.tally
        return super().state() | {"hand": int(tally[HAND]), "counted": int(tally[COUNTED])}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._dense.tally[[HAND, COUNTED]] = state["hand"], state["counted"]

    def _weights(self) -> NDArray[np.float64]:
        whole = np.zeros(int(self._model.counts[ACTIVE]) + 1)
        weigh_waiting(self._model, self._dense, whole)
        return whole

    def _weight_in(self, slot: int) -> float:
        weight = self._model.weight.item(slot)
        return math.copysign(max(abs(weight) - self._dense.numbers.item(SHRUNK), 0.0), weight)
