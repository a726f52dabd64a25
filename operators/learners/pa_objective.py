"""The passive-aggressive learner that also pays for large weights.

Shen, Dietterich: "A Family of Large Margin Linear Classifiers and Its Application in Dynamic Environments", SDM
2009, Problem 3.1 and Lemma 3.1:

    min ½‖w' - w‖² + ½α‖w'‖²    s.t.  y w'.x >= 1

    f = w . x
    if y f <= m:    τ = (1 + α - y f) / ‖x‖²
                    w <- (w + τ y x) / (1 + α)

| symbol | here | what |
|---|---|---|
| m | `trigger` | 0: learns from errors alone ("error", as in the paper); 1: from every loss ("hinge") |
| α | `alpha` | how much weights are shrunk at each step; 0 is the passive-aggressive learner |
| w | `scale * weight` | weights; what was learnt long ago counts less and less |
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.dense.storage import Dense
from sluiceway.operators.kernels.dense.weights_by_name import add_row, shrink
from sluiceway.operators.kernels.sparse.passive_step import square_row
from sluiceway.operators.kernels.sparse.slots import Model, Rows
from sluiceway.operators.learners.by_name import ByNameLearner, by_name_loop
from sluiceway.operators.learners.dense import MARGINS, Trigger, learns_from
from sluiceway.operators.parameters import from_zero


class PAObjectiveRule(NamedTuple):
    untouched_above: float
    alpha: float


@kernel
def learn(rows: Rows, row: int, m: Model, d: Dense, y: int, f: float, rule: PAObjectiveRule) -> bool:
    squares, inverse = square_row(rows, row, m)
    if squares == 0.0:
        return False
    tau = (1.0 + rule.alpha - y * f) / squares
    add_row(rows, row, m, d, tau * y, inverse)
    shrink(m, d, 1.0 / (1.0 + rule.alpha))
    return True


class PAObjective(ByNameLearner):
    """Passive-aggressive steps, each of which shrinks all weights.

    >>> model = PAObjective(k=1, alpha=1.0)
    >>> model.learn_one({"a": 1.0}, 1)
    >>> model.learn_one({"b": 1.0}, -1)
    >>> [model.score_one({name: 1.0}) for name in "ab"]
    [0.5, -1.0]
    """

    NAME: ClassVar[str] = "pa-objective"
    KERNEL = by_name_loop("pa_objective", learn)

    alpha: float = from_zero("how much weights are shrunk at each step; with 0 it is `pa`", default=0.01)
    trigger: Trigger = learns_from("error")

    def rule(self) -> PAObjectiveRule:
        return PAObjectiveRule(MARGINS[self.trigger], self.alpha)
