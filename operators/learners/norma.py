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

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.dense.storage import Dense, leave_out_newcomers
from sluiceway.operators.kernels.dense.weights_by_name import add_row, score_by_name, selected_now, shrink
from sluiceway.operators.kernels.sparse.slots import Model, Rows
from sluiceway.operators.learners.by_name import ByNameLearner
from sluiceway.operators.learners.dense import number_from_0
from sluiceway.operators.params import positive_number


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

    def __init__(
        self,
        *,
        k: int | None = None,
        keep: float | None = None,
        eta: float = 0.1,
        lam: float = 0.001,
        rho: float = 1.0,
        max_features: int = 1_000_000,
    ) -> None:
        super().__init__(k=k, keep=keep, max_features=max_features)
        self._eta = positive_number("eta", eta)
        self._lam = number_from_0("lam", lam)
        self._rho = number_from_0("rho", rho)
        if self._eta * self._lam >= 1:
            raise ValueError(f"eta * lam must be below 1, not {self._eta * self._lam!r}")

    def _own_params(self) -> dict[str, Any]:
        return {"eta": self._eta, "lam": self._lam, "rho": self._rho}

    def kernel_params(self) -> tuple[float, ...]:
        return self._eta, 1.0 - self._eta * self._lam, self._rho
