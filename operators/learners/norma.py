"""NORMA, linear: stochastic gradient steps on the hinge loss, all weights shrunk at every instance.

Kivinen, Smola, Williamson: "Online Learning with Kernels", IEEE Transactions on Signal Processing 52(8), 2004; as
the comparator of Shen, Dietterich: "A Family of Large Margin Linear Classifiers and Its Application in Dynamic
Environments", SDM 2009.

    f = w . x
    w <- (1 - ηλ) w
    if y f <= ρ:    w <- w + η y x

| symbol | here | what |
|---|---|---|
| η | `eta` | step |
| λ | `lam` | ηλ is what weights lose at each labelled instance |
| ρ | `rho` | the margin asked for |
| w | `scale * weight` | weights |
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.dense.storage import Dense, leave_out_newcomers
from sluiceway.operators.kernels.dense.weights_by_name import add_row, score_by_name, selected_now, shrink
from sluiceway.operators.kernels.sparse.slots import Model, Rows
from sluiceway.operators.learners.by_name import ByNameLearner
from sluiceway.operators.parameters import from_zero, positive


@kernel
def learn_rows(
    rows: Rows, start: int, stop: int, m: Model, d: Dense, scores: NDArray[np.float64], until_change: bool,
    k: int, keep: float, limit: int, eta: float, shrinking: float, rho: float,
) -> int:  # fmt: skip
    before = selected_now(m, d, k, keep) if until_change else np.uint64(0)
    for row in range(start, stop):
        f = score_by_name(rows, row, m, d)
        scores[row] = f
        y = rows.y[row]
        if y == 0:
            continue
        m.head[0].version += 1
        leave_out_newcomers(rows, row, m, d, limit - m.head[0].active)
        if y * f <= rho:  # (1 - ηλ)(w + η y x/(1 - ηλ)): slots may move when weights are shrunk, so the row comes first
            add_row(rows, row, m, d, eta * y / shrinking, 1.0)
        shrink(m, d, shrinking)
        if until_change and selected_now(m, d, k, keep) != before:
            return row + 1
    return stop


class NORMA(ByNameLearner):
    """Gradient steps of one size; weights fade whether or not there is a step.

    >>> model = NORMA(k=1, eta=0.5, lam=0.5)
    >>> model.learn_one({"a": 1.0}, 1)
    >>> model.learn_one({"b": 1.0}, -1)
    >>> [model.score_one({name: 1.0}) for name in "ab"]
    [0.375, -0.5]
    """

    NAME: ClassVar[str] = "norma"
    KERNEL = learn_rows

    eta: float = positive("step", default=0.1)
    lam: float = from_zero("eta * lam is what weights lose at each labelled instance", default=0.001)
    rho: float = from_zero("the margin asked for", default=1.0)

    def _check(self) -> None:
        super()._check()
        if self.eta * self.lam >= 1:
            raise ValueError(f"eta * lam must be below 1, not {self.eta * self.lam!r}")

    def kernel_params(self) -> tuple[float, ...]:
        return self.eta, 1.0 - self.eta * self.lam, self.rho
