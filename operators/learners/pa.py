"""The passive-aggressive learner: the smallest change of weights that gives the instance a margin of 1.

Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: "Online Passive-Aggressive Algorithms", JMLR 7, 2006; as the
unregularised learner of Shen, Dietterich: "A Family of Large Margin Linear Classifiers and Its Application in
Dynamic Environments", SDM 2009.

    f = w . x
    if y f <= m:    ℓ = 1 - y f
                    τ = ℓ / ‖x‖²                    (variant 0)
                    τ = min(C, ℓ / ‖x‖²)            (variant 1, PA-I)
                    τ = ℓ / (‖x‖² + 1/(2C))         (variant 2, PA-II)
                    w <- w + τ y x

| symbol | here | what |
|---|---|---|
| m | `trigger` | 0: learns from errors alone ("error", as in the second paper); 1: from every loss ("hinge") |
| C | `C` | how aggressive a step may be; not used by variant 0 |
| w | `scale * weight` | weights |
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.dense.storage import Dense
from sluiceway.operators.kernels.dense.weights_by_name import spread_row
from sluiceway.operators.kernels.sparse.passive_step import square_row, step_size
from sluiceway.operators.kernels.sparse.slots import Model, Rows, bounded
from sluiceway.operators.learners.by_name import ByNameLearner, by_name_loop
from sluiceway.operators.learners.dense import MARGINS, Trigger, learns_from
from sluiceway.operators.parameters import choice, positive


class PARule(NamedTuple):
    untouched_above: float
    variant: int
    C: float


@kernel
def learn(rows: Rows, row: int, m: Model, d: Dense, y: int, f: float, rule: PARule) -> bool:
    squares, inverse = square_row(rows, row, m)
    if squares == 0.0:
        return False
    tau = step_size(1.0 - y * f, squares, inverse, rule.variant, rule.C)
    spread_row(rows, row, m, d, bounded(tau * y), inverse)
    return True


class PA(ByNameLearner):
    """The passive-aggressive learner, in its three variants.

    >>> model = PA(k=1)
    >>> model.learn_one({"free": 1.0, "len": 0.5}, 1)
    >>> model.selected
    [Selected(feature='free', weight=0.8, since=1)]
    >>> model.score_one({"free": 1.0, "len": 0.5})
    1.0
    """

    NAME: ClassVar[str] = "pa"
    KERNEL = by_name_loop("pa", learn)

    variant: int = choice("whole steps, PA-I: steps of at most C, or PA-II: steps damped by C", 0, 1, 2, default=0)
    C: float = positive("how aggressive a step may be; not used by variant 0", default=1.0)
    trigger: Trigger = learns_from("error")

    def rule(self) -> PARule:
        return PARule(MARGINS[self.trigger], self.variant, self.C)
