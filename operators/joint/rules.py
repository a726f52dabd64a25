"""When to stop looking: three ways to solve a policy, each adds to the stages what the kernels compare with.

    g(q) = min_j M_j . q                                  what deciding now costs
    C_k(q) = c_k + Σ_v min(g, C_k+1)(P_v ∘ q)             what going on costs, by Bellman's equation; C_H = ∞
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.kernels.joint.backups import back_up
from sluiceway.operators.kernels.joint.stages import Stages
from sluiceway.operators.kernels.joint.walks import walk

GRID = 2001
"""Points between the two classes at which the cost is computed; between them it is interpolated."""
WALKS = 4000
"""Drawn to fit thresholds on the risk."""
Vector = NDArray[np.float64]


def by_interval(stages: Stages, costs: Vector) -> Stages:
    """Two classes. To go on pays in one interval of beliefs a stage, which is one of log-odds."""
    p = np.linspace(0.0, 1.0, GRID)
    M = stages.misclassification
    g = np.minimum(M[0, 0] * (1 - p) + M[1, 0] * p, M[0, 1] * (1 - p) + M[1, 1] * p)
    later = g
    horizon = len(costs)
    low, high = np.full(horizon, np.inf), np.full(horizon, np.inf)
    for k in range(horizon - 1, -1, -1):
        going_on = np.full(GRID, costs[k])
        for first, second in stages.tables[k, 0]:
            second_part = second * p
            chance = first * (1 - p) + second_part
            if first or second:  # a bin that the feature has
                going_on += chance * np.interp(second_part / np.where(chance > 0, chance, 1.0), p, later)
        pays = np.flatnonzero(going_on < g)
        if len(pays):
            gain = g - going_on
            low[k], high[k] = _crossing(p, gain, pays[0], -1), _crossing(p, gain, pays[-1], 1)
        later = np.minimum(g, going_on)
    table = stages.tables[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where(table[:, :, 0] > 0, np.log(table[:, :, 1]) - np.log(table[:, :, 0]), 0.0)
    return stages._replace(low=low, high=high, odds=odds)


def _crossing(p: Vector, gain: Vector, inside: int, step: int) -> float:
    """The log-odds at which the gain is 0, next to a point inside where it is not."""
    outside = inside + step
    if not 0 <= outside < len(p):
        return np.inf * step
    share = gain[inside] / (gain[inside] - gain[outside])
    at = p[inside] + (p[outside] - p[inside]) * share
    with np.errstate(divide="ignore"):
        return float(np.log(at) - np.log1p(-at))


def by_planes(stages: Stages, costs: Vector, *, points: int, seed: int, version: int) -> Stages:
    """Any number of classes. Planes are backed up from stage to stage at beliefs that walks through the model meet.

    They are never below the true cost of going on.
    """
    horizon, classes = len(costs), len(stages.prior)
    beliefs = np.zeros((horizon, points, classes))
    _walked(stages, costs, seed, version, points, beliefs)
    planes = np.zeros((horizon, classes, points))
    later = np.zeros((classes, 0))
    for k in range(horizon - 1, -1, -1):
        back_up(stages.tables[k, 0], costs[k], stages.misclassification, later, beliefs[k], planes[k])
        later = planes[k]
    return stages._replace(planes=planes)


def by_risk(stages: Stages, costs: Vector, *, seed: int, version: int) -> Stages:
    """Any number of classes, and tables that depend on an earlier feature: one threshold on the risk a stage.

    Fitted last stage first on walks through the model. Beliefs do not depend on the rule, so one set of walks serves
    all stages, and no step is random after that.
    """
    horizon = len(costs)
    risks = _walked(stages, costs, seed, version, WALKS, np.zeros((0, 0, 0)))
    thresholds = np.zeros(horizon)
    later = risks[:, horizon]
    for k in range(horizon - 1, -1, -1):
        g, going_on = risks[:, k], costs[k] + later
        order = np.argsort(g, kind="stable")
        sorted_g = g[order]
        stopped = np.concatenate(([0.0], np.cumsum(sorted_g)))
        went_on = np.cumsum(going_on[order])
        total = stopped + (went_on[-1] - np.concatenate(([0.0], went_on)))
        splits = np.concatenate(([True], sorted_g[1:] > sorted_g[:-1], [True]))  # equal risks stay together
        count = int(np.argmin(np.where(splits, total, np.inf)))
        if count == WALKS:
            thresholds[k] = np.inf
        elif count:
            thresholds[k] = max(0.5 * (sorted_g[count - 1] + sorted_g[count]), costs[k])
        else:
            thresholds[k] = costs[k]
        later = np.where(g <= thresholds[k], g, going_on)
    return stages._replace(risk=thresholds)


def _walked(
    stages: Stages, costs: Vector, seed: int, version: int, walks: int, beliefs: Vector
) -> NDArray[np.float64]:
    risks = np.zeros((walks, len(costs) + 1))
    walk(
        stages, costs, seed, version, len(beliefs) > 0, beliefs, risks, np.zeros(max(len(costs), 1), dtype=np.int8)
    )
    return risks
