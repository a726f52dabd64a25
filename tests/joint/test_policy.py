"""Policies against Bellman's equation solved by brute force on small random problems."""

from __future__ import annotations

import numpy as np
import pytest

from sluiceway.operators.joint.rules import by_interval, by_planes, by_risk
from sluiceway.operators.kernels.joint.backups import back_up
from sluiceway.operators.kernels.joint.walks import walk

from .oracles import going_on, least, problem, risk, stages_of

MANY = [(classes, seed) for classes in (2, 3, 4) for seed in range(12)]


@pytest.mark.parametrize(("classes", "seed"), MANY)
def test_planes_are_exact_where_they_were_made_and_never_below(classes: int, seed: int) -> None:
    stages, costs = problem(seed, classes)
    solved = by_planes(stages, costs, points=256, seed=seed, version=1)
    horizon = len(costs)
    beliefs = np.zeros((horizon, 256, classes))
    walk(stages, costs, seed, 1, True, beliefs, np.zeros((256, horizon + 1)), np.zeros(horizon, dtype=np.int8))
    rng = np.random.default_rng(seed)
    for k in range(horizon):
        for pi in [*beliefs[k, rng.integers(256, size=2)], *rng.dirichlet(np.ones(classes), size=3)]:
            exact, ours = going_on(stages, costs, k, pi), (pi @ solved.planes[k]).min()
            assert ours >= exact - 1e-12
        # one stage before the end planes are exact at their points; earlier ones as far as later planes are
    last = horizon - 1
    for pi in beliefs[last, :8]:
        assert (pi @ solved.planes[last]).min() == pytest.approx(going_on(stages, costs, last, pi), abs=1e-15)
    assert least_of(solved, 0, stages.prior) == pytest.approx(least(stages, costs, 0, stages.prior), abs=2e-3)


@pytest.mark.parametrize(("classes", "seed"), MANY)
def test_planes_backed_up_at_every_belief_there_is_are_exact(classes: int, seed: int) -> None:
    stages, costs = problem(seed, classes, stages=5, bins=2)
    reached = [stages.prior[None]]
    for k in range(4):
        after = (reached[-1][:, None] * stages.tables[k, 0]).reshape(-1, classes)
        reached.append(after / after.sum(axis=1, keepdims=True))
    later = np.zeros((classes, 0))
    for k in range(4, -1, -1):
        planes = np.zeros((classes, len(reached[k])))
        back_up(stages.tables[k, 0], costs[k], stages.misclassification, later, reached[k], planes)
        for pi in reached[k]:
            assert (pi @ planes).min() == pytest.approx(going_on(stages, costs, k, pi), rel=1e-14)
        later = planes


def least_of(solved: object, k: int, pi: np.ndarray) -> float:
    return float(min(risk(solved, pi), (pi @ solved.planes[k]).min()))  # type: ignore[attr-defined, arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_is_where_going_on_pays(seed: int) -> None:
    stages, costs = problem(seed, 2)
    solved = by_interval(stages, costs)
    for k in range(len(costs)):
        for p in np.linspace(0.013, 0.987, 41):
            pi = np.array((1 - p, p))
            gain = risk(stages, pi) - going_on(stages, costs, k, pi)
            pays = solved.low[k] < np.log(p / (1 - p)) < solved.high[k]
            if abs(gain) > 5e-4:  # the grid's error
                assert pays == (gain > 0)


@pytest.mark.parametrize(("classes", "seed"), MANY)
def test_thresholds_cost_little_more_than_the_best_policy(classes: int, seed: int) -> None:
    stages, costs = problem(seed, classes)
    thresholds = by_risk(stages, costs, seed=seed, version=1).risk
    assert (thresholds >= costs).all()

    def spent(k: int, pi: np.ndarray) -> float:
        g = risk(stages, pi)
        if k == len(costs) or g <= thresholds[k]:
            return g
        found = stages.tables[k, 0] @ pi
        total = float(costs[k])
        for p, chances in zip(found.tolist(), stages.tables[k, 0], strict=True):
            total += p * spent(k + 1, chances * pi / p) if p > 0 else 0.0
        return total

    best, ours = least(stages, costs, 0, stages.prior), spent(0, stages.prior)
    assert best - 1e-12 <= ours <= best * 1.1 + 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_more_points_never_cost_more_than_rounding(seed: int) -> None:
    stages, costs = problem(seed, 3)
    few = by_planes(stages, costs, points=8, seed=0, version=1)
    many = by_planes(stages, costs, points=1024, seed=0, version=1)
    assert least_of(many, 0, stages.prior) <= least_of(few, 0, stages.prior) + 1e-4


def test_one_look_by_hand() -> None:
    """One binary feature, right nine times of ten, cost c: it saves .4 of .5 at even odds, so it pays below .4."""
    stages = stages_of(np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.array([0.5, 0.5]))
    for cost, pays in ((0.39, True), (0.41, False)):
        solved = by_interval(stages, np.array([cost]))
        assert (solved.low[0] < 0.0 < solved.high[0]) == pays
        planes = by_planes(stages, np.array([cost]), points=4, seed=0, version=1).planes[0]
        assert planes.min(axis=1) == pytest.approx(cost + 0.1)
        assert by_risk(stages, np.array([cost]), seed=0, version=1).risk[0] == (np.inf if not pays else cost)
    # where going on just pays: π .1 + (1 - π) .1 + c = min(π, 1 - π), so π = .1 + c
    solved = by_interval(stages, np.array([0.2]))
    assert 1 / (1 + np.exp(-solved.low[0])) == pytest.approx(0.3, abs=1e-9)
    assert 1 / (1 + np.exp(-solved.high[0])) == pytest.approx(0.7, abs=1e-9)
