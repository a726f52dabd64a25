"""The passive-aggressive learner inside a ball.

Shen, Dietterich: "A Family of Large Margin Linear Classifiers and Its Application in Dynamic Environments", SDM
2009, Problem 3.9 and Lemma 3.2:

    min ½‖w' - w‖²    s.t.  y w'.x >= 1,  ‖w'‖₂ <= β

    f = w . x
    if y f <= m:    Z = max(1, √((‖w‖²‖x‖² - f²) / (β²‖x‖² - 1)))
                    τ = (Z - y f) / ‖x‖²
                    w <- (w + τ y x) / Z

| symbol | here | what |
|---|---|---|
| m | `trigger` | 0: learns from errors alone ("error", as in the paper); 1: from every loss ("hinge") |
| β | `beta` | the radius of the ball |
| w | `scale * weight` | weights; shrunk only when they would leave the ball |

No point of the ball has the margin if β‖x‖ < 1, and the paper does not say what then. Here w becomes the point of
the largest margin, β y x/‖x‖: everything else is forgotten, so take β above 1/‖x‖ (rows of norm 1: above 1).

‖w‖² is followed from step to step (a step that ends on the ball ends at β²) and summed anew now and then.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.dense.storage import Dense, give_up_zeros, is_stale
from sluiceway.operators.kernels.dense.weights_by_name import (
    add_row,
    shrink,
    to_names,
    to_slots,
)
from sluiceway.operators.kernels.sparse.passive_step import square_row
from sluiceway.operators.kernels.sparse.slots import Model, Rows, bounded
from sluiceway.operators.learners.by_name import ByNameLearner, by_name_loop
from sluiceway.operators.learners.dense import MARGINS, Trigger, learns_from
from sluiceway.operators.parameters import positive


class PAL2Rule(NamedTuple):
    untouched_above: float
    beta: float


@kernel
def learn(rows: Rows, row: int, m: Model, d: Dense, y: int, f: float, rule: PAL2Rule) -> bool:
    squares, inverse = square_row(rows, row, m)
    if squares == 0.0:
        return False
    length = math.sqrt(squares) / inverse
    along = f / length  # the part of w in the direction of x
    across = max(m.head[0].squares - along * along, 0.0)
    reach = rule.beta * rule.beta - (1.0 / length) * (1.0 / length)
    Z = max(1.0, math.sqrt(across / reach)) if reach > 0.0 else np.inf
    if math.isinf(Z):
        _turn(rows, row, m, d, y * rule.beta / math.sqrt(squares), inverse)
        return True
    tau = (Z - y * f) / squares
    add_row(rows, row, m, d, tau * y, inverse)
    m.head[0].squares = bounded(across + (1.0 / length) * (1.0 / length))
    if Z > 1.0:
        m.head[0].squares = bounded(rule.beta * rule.beta)
        shrink(m, d, 1.0 / Z)
    if is_stale(m):
        m.head[0].squares = sum_squares(m, d)
    return True


@kernel
def _turn(rows: Rows, row: int, m: Model, d: Dense, length: float, inverse: float) -> None:
    """w <- length inverse x."""
    m.weight[1 : m.head[0].active + 1] = 0.0
    to_names(m, d)
    m.head[0].scale = 1.0
    first = rows.indptr[row]
    entering = 0
    for j in range(first, rows.indptr[row + 1]):
        name = rows.indices[j]
        weight = bounded(length * (rows.values[j] * inverse))
        if m.touched[j - first] < 0 or weight == 0.0:
            continue
        d.by_name[name] = weight
        slot = m.slot_of[name]
        if slot > 0:
            m.weight[slot] = weight
        else:
            m.entrant[entering] = weight
            m.entrant_name[entering] = name
            entering += 1
    give_up_zeros(m, d, entering)
    m.head[0].squares = sum_squares(m, d)


@kernel
def sum_squares(m: Model, d: Dense) -> float:
    to_slots(m, d)
    weight, scale = m.weight, m.head[0].scale
    squares = 0.0
    for slot in range(1, m.head[0].active + 1):
        squares += (scale * weight[slot]) * (scale * weight[slot])
    return bounded(squares)


class PAL2(ByNameLearner):
    """Passive-aggressive steps that end inside a ball of radius `beta`.

    >>> model = PAL2(k=2, beta=1.25)
    >>> model.learn_one({"a": 1.0}, 1)
    >>> model.learn_one({"b": 1.0}, -1)
    >>> [round(model.score_one({name: 1.0}), 12) for name in "ab"]
    [0.75, -1.0]
    """

    NAME: ClassVar[str] = "pa-l2"
    KERNEL = by_name_loop("pa_l2", learn)

    beta: float = positive("radius of the ball that weights are kept in", default=10.0)
    trigger: Trigger = learns_from("error")

    def rule(self) -> PAL2Rule:
        return PAL2Rule(MARGINS[self.trigger], self.beta)
