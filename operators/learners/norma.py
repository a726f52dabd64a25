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

import math
from typing import ClassVar, NamedTuple

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.dense.storage import Dense
from sluiceway.operators.kernels.dense.weights_by_name import add_row, shrink
from sluiceway.operators.kernels.sparse.slots import Model, Rows
from sluiceway.operators.learners.by_name import ByNameLearner, by_name_loop
from sluiceway.operators.parameters import from_zero, positive


class NORMARule(NamedTuple):
    untouched_above: float
    eta: float
    shrinking: float
    rho: float


@kernel
def learn(rows: Rows, row: int, m: Model, d: Dense, y: int, f: float, rule: NORMARule) -> bool:
    if y * f <= rule.rho:
        # (1 - ηλ)(w + η y x/(1 - ηλ)): slots may move when weights are shrunk, so the row comes first
        add_row(rows, row, m, d, rule.eta * y / rule.shrinking, 1.0)
    shrink(m, d, rule.shrinking)
    return True


class NORMA(ByNameLearner):
    """Gradient steps of one size; weights fade whether or not there is a step.

    >>> model = NORMA(k=1, eta=0.5, lam=0.5)
    >>> model.learn_one({"a": 1.0}, 1)
    >>> model.learn_one({"b": 1.0}, -1)
    >>> [model.score_one({name: 1.0}) for name in "ab"]
    [0.375, -0.5]
    """

    NAME: ClassVar[str] = "norma"
    KERNEL = by_name_loop("norma", learn)

    eta: float = positive("step", default=0.1)
    lam: float = from_zero("eta * lam is what weights lose at each labelled instance", default=0.001)
    rho: float = from_zero("the margin asked for", default=1.0)

    def _check(self) -> None:
        super()._check()
        if self.eta * self.lam >= 1:
            raise ValueError(f"eta * lam must be below 1, not {self.eta * self.lam!r}")

    def rule(self) -> NORMARule:
        return NORMARule(math.inf, self.eta, 1.0 - self.eta * self.lam, self.rho)
