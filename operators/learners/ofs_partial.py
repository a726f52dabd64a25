"""Online feature selection that looks at no more than B features of an instance.

Wang, Zhao, Hoi, Jin: "Online Feature Selection and Its Applications", IEEE TKDE 26(3), 2014, algorithm 4 (OFS_P).

    with probability ε:  C = a random set of B of the d features       explore
    otherwise:           C = {i : w_i ≠ 0}                             exploit
    f = w . x over C
    if y f <= m:    x̂_i = x_i / (ε B/d + (1 - ε) [w_i ≠ 0])  for i in C,  else 0
                    w <- w + η y x̂
                    w <- min(1, R / ‖w‖₂) w
                    w <- truncate(w, B)

| symbol | here | what |
|---|---|---|
| B | `k` | how many features may be looked at, and how many weights may differ from 0 |
| ε | `epsilon` | how often to explore |
| d | `d` | how many features labelled instances have had before this one |
| m | `margin` | 1 as listed; 0 as the paper's table 3 was made, learning from mistakes only |
| η, R | `eta`, `radius` | step; radius of the ball that weights are kept in |
| w | `weight` | weights |

C is known before the instance: `wanted_features()`. `input = "random"` is the paper's OFS_rand: it always explores, and
takes the steps of OFS on what it sees, x̂ = x over C.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.sparse.features_seen import Features, has_room, look
from sluiceway.operators.kernels.sparse.projection import project
from sluiceway.operators.kernels.sparse.sampling import (
    Sample,
    choose,
    explores,
    score_sampled,
    score_selected,
    step_row,
)
from sluiceway.operators.kernels.sparse.slots import Model, Rows
from sluiceway.operators.kernels.sparse.truncation import truncate
from sluiceway.operators.learners.partial import PartialLearner
from sluiceway.operators.parameters import choice, positive


class OFSPartialRule(NamedTuple):
    always: bool
    """Whether features are drawn for every instance."""
    epsilon: float
    eta: float
    radius: float
    margin: float


@kernel
def learn_rows(
    rows: Rows, start: int, stop: int, m: Model, scores: NDArray[np.float64], until_change: bool,
    seen: Features, limit: int, sample: Sample, k: int, seed: int,
    rule: OFSPartialRule,
) -> int:  # fmt: skip
    for row in range(start, stop):
        t, d = m.head[0].version + 1, m.head[0].features
        if rule.always or explores(seed, t, rule.epsilon):
            choose(sample, seed, t, k, d)
            f = score_sampled(rows, row, m, seen, sample)
        else:
            f = score_selected(rows, row, m)
        scores[row] = f
        y = rows.y[row]
        if y == 0:
            continue
        if not has_room(rows, row, m, seen, limit):
            return ~row
        m.head[0].version = t
        look(rows, row, m, seen, limit)
        if y * f > rule.margin or d == 0:
            continue
        step = rule.eta * y
        if rule.always:
            entrants = step_row(rows, row, m, step, step)
        else:
            chance = rule.epsilon * min(k / d, 1.0)
            entrants = step_row(rows, row, m, step / (chance + 1.0 - rule.epsilon), step / chance)
        project(m, entrants, rule.radius)
        if truncate(m, entrants, k) and until_change:
            return row + 1
    return stop


class OFSPartial(PartialLearner):
    """Online feature selection that looks at `k` features an instance: those it holds, or now and then random ones.

    >>> model = OFSPartial(k=1, epsilon=0.5, seed=2)
    >>> model.learn_one({"free": 1.0, "len": 0.5}, 1)
    >>> model.wanted_features()
    ['len']
    >>> model.learn_one({"len": 1.0}, -1)
    >>> model.selected
    [Selected(feature='len', weight=-0.8, since=2)]
    """

    NAME: ClassVar[str] = "ofs-partial"
    KERNEL = learn_rows

    epsilon: float = positive("the share of instances of which random features are looked at", most=1.0, default=0.2)
    eta: float = positive("step", default=0.2)
    radius: float = positive("of the ball that weights are kept in", default=10.0)
    margin: int = choice("learn from errors alone (0), or from every score within 1 (1)", 0, 1, default=1)
    input: str = choice(
        "which features are looked at: mostly those that have a weight, or always random ones",
        "greedy", "random", default="greedy",
    )  # fmt: skip

    def explores(self, instance: int) -> bool:
        return self.input == "random" or explores(self.seed, instance, self.epsilon)

    def rule(self) -> OFSPartialRule:
        return OFSPartialRule(self.input == "random", self.epsilon, self.eta, self.radius, float(self.margin))
