"""What rows really get, decided in a batch by each rule, against Bellman's recursion by brute force."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from sluiceway.operators.joint.policy import Plan, Policy
from sluiceway.operators.joint.rules import by_interval, by_planes, by_risk
from sluiceway.operators.kernels.joint.stages import enough, new_scratch

from .oracles import Vector, going_on, least, problem, risk
from .streams import dense

BINS, STAGES = 3, 5
GRID_ERROR = 5e-4
"""Of interpolation between 2001 points; planes have none that lets a row go on."""
EXECUTED = [(classes, seed) for classes in (2, 3, 4) for seed in range(10)]


def planes(seed: int) -> Callable[..., Any]:
    return partial(by_planes, points=512, seed=seed, version=1)


def policy_of(seed: int, classes: int, solve: Callable[..., Any]) -> tuple[Policy, Any, Vector]:
    """Feature k is looked at in stage k, and its value is the number of its bin."""
    stages, costs = problem(seed, classes, STAGES, BINS)
    plan = Plan(
        1, tuple(range(1, classes + 1)), stages.prior, tuple(map(str, range(STAGES))), costs, costs,
        np.tile(np.arange(BINS - 1) + 0.5, (STAGES, 1)), stages.zero, stages.ancestor, stages.tables,
    )  # fmt: skip
    return Policy(plan, stages.misclassification, solve), stages, costs


def every_row(policy: Policy, *more: float) -> tuple[Vector, Any]:
    X = np.array(list(product([*range(BINS), *more], repeat=STAGES)), dtype=np.float64)
    return X, policy.decide(dense(X, np.zeros(len(X))), np.arange(STAGES), absent_is_zero=True)


def beliefs(stages: Any, row: Vector) -> list[Vector]:
    """Before each stage, and after the last."""
    found = [stages.prior]
    for k, v in enumerate(row.astype(int)):
        q = found[-1] * stages.tables[k, 0, v]
        found.append(q / q.sum())
    return found


def each_belief(stages: Any, X: Vector, used: Vector) -> dict[tuple[float, ...], tuple[Vector, bool]]:
    """By the bins seen before it: the belief that a row comes to, and whether it goes on from there."""
    found: dict[tuple[float, ...], tuple[Vector, bool]] = {}
    for row, looks in zip(X, used, strict=True):
        for k, pi in enumerate(beliefs(stages, row)[: int(looks) + 1]):
            found[tuple(row[:k])] = pi, k < looks
    return found


@pytest.mark.parametrize(("classes", "seed"), EXECUTED)
def test_rows_stop_and_go_on_where_the_recursion_says(classes: int, seed: int) -> None:
    policy, stages, costs = policy_of(seed, classes, by_interval if classes == 2 else planes(seed))
    X, outcome = every_row(policy)
    error = GRID_ERROR if classes == 2 else 1e-12
    for seen, (pi, goes_on) in each_belief(stages, X, outcome.used).items():
        if len(seen) < STAGES:
            gain = risk(stages, pi) - going_on(stages, costs, len(seen), pi)
            assert gain > -error if goes_on else gain < error
    for row, used, decided in zip(X, outcome.used.tolist(), outcome.place.tolist(), strict=True):
        pi = beliefs(stages, row)[used]
        assert pi @ stages.misclassification[:, decided] == pytest.approx(risk(stages, pi))


@pytest.mark.parametrize(("classes", "seed"), EXECUTED)
@pytest.mark.parametrize("rule", ["best", "thresholds"])
def test_what_rows_cost_lies_between_the_best_policy_and_deciding_at_once(
    rule: str, classes: int, seed: int
) -> None:
    """The mean over all rows there are, by their chances under the model, of what they paid and of their mistakes."""
    best: Any = by_interval if classes == 2 else planes(seed)
    policy, stages, costs = policy_of(seed, classes, best if rule == "best" else partial(by_risk, seed=0, version=1))
    X, outcome = every_row(policy)
    bins = X.astype(int)
    joint = stages.prior * np.prod([stages.tables[k, 0, bins[:, k]] for k in range(STAGES)], axis=0)
    paid = joint.sum(axis=1) @ policy.spent[outcome.used]
    spent = paid + (joint * stages.misclassification[:, outcome.place].T).sum()
    exact, at_once = least(stages, costs, 0, stages.prior), risk(stages, stages.prior)
    assert exact - 1e-12 <= spent
    if rule == "best":
        assert spent <= min(at_once, exact + GRID_ERROR) + 1e-12
    else:
        assert spent <= exact * 1.1 + 1e-3


@pytest.mark.parametrize(("classes", "seed"), EXECUTED)
@pytest.mark.parametrize("rule", ["best", "thresholds"])
def test_the_reach_is_how_far_some_row_goes(rule: str, classes: int, seed: int) -> None:
    best: Any = by_interval if classes == 2 else planes(seed)
    policy, _, _ = policy_of(seed, classes, best if rule == "best" else partial(by_risk, seed=0, version=1))
    assert policy.reach == every_row(policy)[1].used.max()
    furthest = every_row(policy, np.nan)[1].used.max()
    assert furthest <= policy.reach_with_unknown <= STAGES


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("rule", "classes"), [("interval", 2), *product(("planes", "thresholds"), (2, 3, 4))])
def test_corners_stop_and_whatever_a_look_cannot_pay_for(rule: str, seed: int, classes: int) -> None:
    stages, costs = problem(seed, classes)
    if rule == "interval":
        solved = by_interval(stages, costs)
    elif rule == "planes":
        solved = by_planes(stages, costs, points=64, seed=seed, version=1)
    else:
        solved = by_risk(stages, costs, seed=seed, version=1)

    def stops(k: int, pi: Vector) -> bool:
        if rule != "interval":
            return enough(solved, k, pi, new_scratch())
        with np.errstate(divide="ignore"):
            odds = np.log(pi[1]) - np.log(pi[0])
        return not solved.low[k] < odds < solved.high[k]

    rng = np.random.default_rng(seed)
    for k in range(len(costs)):
        for corner in np.eye(classes):
            assert stops(k, corner)
            pi = corner + rng.dirichlet(np.full(classes, 0.5)) * 0.1
            pi /= pi.sum()
            if risk(stages, pi) <= costs[k]:
                assert stops(k, pi)
