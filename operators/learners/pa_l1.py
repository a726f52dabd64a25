"""The passive-aggressive learner inside a ball of the L1 norm: sparse weights.

Shen, Dietterich: "A Family of Large Margin Linear Classifiers and Its Application in Dynamic Environments", SDM
2009, Problem 3.10:

    min ½‖w' - w‖²    s.t.  y w'.x >= 1,  ‖w'‖₁ <= β

    f = w . x
    if y f <= m:    w <- S_θ(w + τ y x),    S_θ(w)_i = sign(w_i) max(|w_i| - θ, 0)

with θ = 0 if the passive-aggressive step stays in the ball, else τ and θ such that both constraints are met exactly
(`kernels/numbers/l1_ball.py`; the paper asks a quadratic programming package).

| symbol | here | what |
|---|---|---|
| m | `trigger` | 0: learns from errors alone ("error", as in the paper); 1: from every loss ("hinge") |
| β | `beta` | the radius of the ball |
| w | `weight` | weights |

No point of the ball has the margin if β max|x_i| < 1, and the paper does not say what then. Here w becomes a point of
the largest margin: β on the feature with the largest |x_i| (of equal ones the smaller key), nothing elsewhere.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from sluiceway.compiling import allocating_kernel, kernel
from sluiceway.operators.kernels.dense.lazy_thresholds import soft
from sluiceway.operators.kernels.dense.loop import dense_loop
from sluiceway.operators.kernels.dense.selection import fingerprint
from sluiceway.operators.kernels.dense.storage import (
    Dense,
    change_hands,
    give_up_zeros,
    know_keys,
    score_by_slot,
)
from sluiceway.operators.kernels.numbers.l1_ball import nearest
from sluiceway.operators.kernels.sparse.slots import Model, Rows
from sluiceway.operators.learners.dense import MARGINS, DenseLearner, Trigger, learns_from
from sluiceway.operators.parameters import positive


@kernel
def largest_in_row(rows: Rows, row: int, m: Model) -> int:
    """Where in the row the largest |x| stands, of equal ones that with the smaller key; -1: nowhere."""
    first = rows.indptr[row]
    best = -1
    for j in range(first, rows.indptr[row + 1]):
        size = abs(rows.values[j]) if m.touched[j - first] >= 0 else 0.0
        if size == 0.0:
            continue
        largest = abs(rows.values[best]) if best >= 0 else 0.0
        if size > largest or (size == largest and m.name_key[rows.indices[j]] < m.name_key[rows.indices[best]]):
            best = j
    return best


@allocating_kernel
def step(rows: Rows, row: int, m: Model, d: Dense, y: int, beta: float) -> None:
    first, end = rows.indptr[row], rows.indptr[row + 1]
    top = largest_in_row(rows, row, m)
    if top < 0:
        return
    largest = abs(rows.values[top])
    a, z = np.zeros(end - first), np.zeros(end - first)
    for slot in range(1, m.head[0].active + 1):
        d.current[slot] = abs(m.weight[slot])
    for j in range(first, end):
        slot = m.touched[j - first]
        if slot >= 0 and rows.values[j] != 0.0:
            a[j - first] = abs(rows.values[j]) / largest
            z[j - first] = m.weight[slot] * y * np.sign(rows.values[j])
            d.current[slot] = 0.0
    if 1.0 / largest < beta:
        tau, theta = nearest(a, z, d.current, 1, m.head[0].active + 1, 1.0 / largest, beta)
        others = theta
    else:
        a[:], z[:] = 0.0, 0.0
        a[top - first] = 1.0
        tau, theta, others = beta, 0.0, np.inf
    if others > 0.0:
        for slot in range(1, m.head[0].active + 1):
            m.weight[slot] = soft(m.weight[slot], others)
    entering = 0
    vacant = 0
    for j in range(first, end):
        if rows.values[j] == 0.0:
            continue
        slot = m.touched[j - first]
        weight = soft(z[j - first] + tau * a[j - first], theta) * y * np.sign(rows.values[j])
        if slot > 0:
            m.weight[slot] = weight
            m.ordering[vacant] = slot
            vacant += weight == 0.0
        elif slot == 0:
            m.entrant[entering] = weight
            m.entrant_name[entering] = rows.indices[j]
            entering += weight != 0.0
    if others > 0.0:
        give_up_zeros(m, d, entering)
    elif entering + vacant > 0:
        change_hands(m, d, entering, vacant)


@kernel
def selected_now(m: Model, d: Dense, k: int, keep: float) -> np.uint64:
    """A fingerprint of the features that are selected."""
    know_keys(m, d)
    return fingerprint(m.weight, m.key, m.head[0].active, k, keep, m.ordering)


class PAL1Rule(NamedTuple):
    untouched_above: float
    beta: float


@kernel
def learn(rows: Rows, row: int, m: Model, d: Dense, y: int, f: float, rule: PAL1Rule) -> bool:
    step(rows, row, m, d, y, rule.beta)
    return True


class PAL1(DenseLearner):
    """Passive-aggressive steps that end inside a ball of the L1 norm.

    >>> model = PAL1(k=5, beta=1.5)
    >>> model.learn_one({"a": 1.0}, 1)
    >>> model.learn_one({"b": 1.0}, -1)
    >>> [model.score_one({name: 1.0}) for name in "ab"]
    [0.5, -1.0]
    """

    NAME: ClassVar[str] = "pa-l1"
    KERNEL = dense_loop("pa_l1", score_by_slot, learn, selected_now)

    beta: float = positive("radius of the L1 ball that weights are kept in", default=100.0)
    trigger: Trigger = learns_from("error")

    def rule(self) -> PAL1Rule:
        return PAL1Rule(MARGINS[self.trigger], self.beta)
