"""ETANA: features are looked at one by one until the next look costs more than it can save.

Warahena Liyanage, Zois, Chelmis: "On-the-Fly Joint Feature Selection and Classification", theorem 2.

    π_0 = class prior,  π_k = P_v ∘ π_k-1 / (P_v . π_k-1)                 v the bin of the k-th feature's value
    g(π) = min_j M_j . π
    C_k(π) = c_k+1 + Σ_v (P_v . π) min(g, C_k+1)(P_v ∘ π / P_v . π),      C_H = ∞
    stop at the first k with g(π_k) <= C_k(π_k), decide argmin_j M_j . π_k, of equal ones the first

| symbol | here | what |
|---|---|---|
| P_v | `Stages.tables` | chances of the bin by class: (count + 1) / (rows of the class + bins) |
| π | `posterior` | belief in each class, features taken as independent given the class |
| c | `cost` | what it costs to look at a feature: one number, or by name (`"*"`: all others) |
| M | `misclassification` | M[i][j]: what it costs to decide j where i is true; every mistake costs 1 by default |
| H | `horizon` | stages at most; no more than 3 g(π_0) / c, three times what a policy can spend in the mean |
| V | `bins` | values are cut at quantiles of the first `warm_up` labelled rows; x is above a cut if x > cut |

Features come in the order of how much the chances of their bins vary between the classes, divided by their cost. All
that is learnt are counts, so models add up exactly (`merge`). Every `refit_every` labelled rows a policy is made of the
counts, and rows are decided with that alone. Two classes: C_k on 2001 points between them; to go on pays in one
interval of the log-odds, so deciding is a sequential likelihood-ratio test, one addition and two comparisons a feature.
More classes: C_k as the least of `points` planes a stage, each backed up at a belief that a walk through the model
meets, never below the true C_k; 128 of them are exact for three classes, by default there are 512 for more.

Memory: K N V counts for K features, and H N `points` numbers for the planes of more than two classes, which are not
part of the state; until a feature has cuts, its values: of the warm-up's rows, or of at most `refit_every` + 50 rows.

The authors' program differs in many ways: equal priors, costs left out of the order, beliefs snapped to a grid of
tenths, which makes weak features worthless. This is the theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from sluiceway.operators.joint.policy import Vector
from sluiceway.operators.joint.rules import by_interval, by_planes
from sluiceway.operators.joint.sequential import SequentialClassifier
from sluiceway.operators.kernels.joint.backups import back_up
from sluiceway.operators.kernels.joint.deciding import posterior_of
from sluiceway.operators.kernels.joint.stages import Stages, enough, take_in
from sluiceway.operators.kernels.joint.walks import walk
from sluiceway.operators.parameters import count, parameter


def _independent(name: str, value: Any) -> str:
    if value == "tree":
        raise ValueError(f'{name} = "tree" is for f-etana: the backups of etana need independent features')
    if value != "none":
        raise ValueError(f"{name} must be none, not {value!r}")
    return "none"


class Etana(SequentialClassifier):
    """As few features as each instance needs, by dynamic programming.

    >>> model = Etana(cost=0.05, bins=2, warm_up=4)
    >>> for x, y in [({"free": 1.0}, 1), ({"free": 2.0, "len": 1.0}, 1), ({"len": 2.0}, -1), ({}, -1)]:
    ...     model.learn_one(x, y)
    >>> model.classify_one({"free": 3.0}).features_used
    ('free',)
    """

    NAME: ClassVar[str] = "etana"
    KERNELS = (posterior_of, enough, take_in, walk, back_up)

    dependence: str = parameter(
        "how features depend on each other, given the class", '"none"', _independent, default="none"
    )
    points: int | None = count(
        "planes a stage, with more than two classes; if not given, 128 for three and 512 for more",
        most=100_000, default=None,
    )  # fmt: skip

    def _solve(self, version: int) -> Callable[[Stages, Vector], Stages]:
        return partial(_solved, points=self.points, seed=self.seed, version=version)


def _solved(stages: Stages, costs: Vector, *, points: int | None, seed: int, version: int) -> Stages:
    classes = len(stages.prior)
    if classes == 2:
        return by_interval(stages, costs)
    return by_planes(stages, costs, points=points or (128 if classes <= 3 else 512), seed=seed, version=version)
