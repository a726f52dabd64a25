"""What the ETANA authors' program does, said by rules: the printed cells come from its first version, P1.

It differs from the paper: bins of equal widths from ⌊min⌋ to ⌈max⌉, as many as classes; equal priors; features by
decreasing Σ_v var_i P(v | i), costs left out; costs to go on are known at beliefs that are multiples of a tenth, and
any other belief is taken for the nearest of them, also when deciding. What is carried along is the exact belief.

P1 leaves out points whose sum is not exactly 1 in floating point, looks before it asks whether to, and compares with
what going on cost one stage before. P2, its second version, rounds to tenths, mends the sum where that was most off,
and decides before it looks; if all K features are read it reports K - 1.

F-ETANA's program draws: for each class single rows of that class and directions, until both rules that it compares
happen to cost the same. A row takes the lowest class whose rule stops first, or a random one, and reports one feature
more than it read.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]
TENTHS = 10
MOST_CLASSES = 5
"""For more the program's grid, which it makes from all tuples of tenths, cannot be held."""
STEPS = 100_000
ALIKE = 1e-5


class Found(NamedTuple):
    accuracy: float
    features: float


class Model(NamedTuple):
    chances: Vector
    """[bin, stage, class]"""
    order: Integers
    low: Vector
    high: Vector

    @classmethod
    def of(cls, X: Vector, y: Integers) -> Model:
        """`y` from 0."""
        classes = int(y.max()) + 1
        low, high = np.floor(X.min(axis=0)), np.ceil(X.max(axis=0))
        binned, size = _binned(X, low, high, classes), np.bincount(y, minlength=classes)
        counts = np.array([[(binned[y == i] == v).sum(axis=0) for i in range(classes)] for v in range(classes)])
        chances = (counts.transpose(0, 2, 1) + 1) / (size + classes)
        order = np.argsort(-chances.var(axis=2).sum(axis=0), kind="stable")
        return cls(chances[:, order], order, low, high)

    def binned(self, X: Vector) -> Integers:
        return _binned(X, self.low, self.high, len(self.chances))[:, self.order]


def p1(model: Model, X: Vector, y: Integers, cost: float = 0.01) -> Found:
    classes, horizon = len(model.chances), model.chances.shape[1]
    points = np.array([p for p in _tenths(classes) if sum(p) == 1])

    def nearest(beliefs: Vector) -> Integers:
        return np.asarray(cdist(beliefs, points, "cityblock").argmin(axis=1))

    going_on = _solved(points, model.chances, cost, nearest)
    right = looks = 0
    for row, true in zip(model.binned(X), y, strict=True):
        belief, k = np.full(classes, 1 / classes), 0
        for k in range(horizon):
            belief = belief * model.chances[row[k], k]
            belief = belief / belief.sum()
            at = nearest(belief[None])[0]
            if 1 - points[at].max() <= going_on[k, at]:
                break
        right += int(belief.argmax()) == true
        looks += k + 1
    return Found(right / len(y), looks / len(y))


def p2(model: Model, X: Vector, y: Integers, cost: float = 0.01) -> Found:
    classes, horizon = len(model.chances), model.chances.shape[1]
    points = np.array(_tenths(classes))
    digits = (TENTHS + 1) ** np.arange(classes)
    place = np.zeros((TENTHS + 1) ** classes, dtype=np.int64)
    place[np.rint(points * TENTHS).astype(np.int64) @ digits] = np.arange(len(points))

    def rounded(beliefs: Vector) -> Integers:
        tenths = np.rint(beliefs * TENTHS)
        off = np.abs(beliefs * TENTHS - tenths).argmax(axis=1)
        tenths[np.arange(len(beliefs)), off] += TENTHS - tenths.sum(axis=1)
        return np.asarray(place[tenths.astype(np.int64) @ digits])

    going_on = _solved(points, model.chances, cost, rounded)
    right = looks = 0
    for row, true in zip(model.binned(X), y, strict=True):
        belief, used = np.full(classes, 1 / classes), horizon - 1
        for k in range(horizon):
            at = rounded(belief[None])[0]
            if 1 - points[at].max() <= going_on[k, at]:
                used = k
                break
            belief = belief * model.chances[row[k], k]
            belief = belief / belief.sum()
        right += int(belief.argmax()) == true
        looks += used
    return Found(right / len(y), looks / len(y))


def drawn(model: Model, X: Vector, y: Integers, X_test: Vector, y_test: Integers, seed: int) -> Found:
    """F-ETANA: rules fitted to the training part by its stochastic approximation, and rows decided by them."""
    rng, binned, log = np.random.default_rng(seed), model.binned(X), np.log(model.chances)
    classes, horizon = len(model.chances), model.chances.shape[1]
    rules = np.stack([_fitted(log, binned[y == j], j, rng) for j in range(classes)])
    right = looks = 0
    for row, true in zip(model.binned(X_test), y_test, strict=True):
        stops = np.einsum("jki,ki->jk", rules, _beliefs(log, row)) < 0
        first = np.where(stops.any(axis=1), stops.argmax(axis=1), horizon)
        used = int(first.min())
        told = int(first.argmin()) if used < horizon else int(rng.integers(classes))
        right += told == true
        looks += min(used + 1, horizon)
    return Found(right / len(y_test), looks / len(y_test))


def _fitted(log: Vector, rows: Integers, label: int, rng: np.random.Generator, cost: float = 0.01) -> Vector:
    horizon, classes = log.shape[1:]
    rule = np.ones((horizon, classes))
    for t in range(STEPS):
        beliefs = _beliefs(log, rows[rng.integers(len(rows))])
        step, width = 0.1667 / (t + 1.5) ** 0.602, 2 / (t + 1) ** 0.2
        direction = 2.0 * rng.integers(2, size=(horizon, classes), dtype=np.int8) - 1
        least = [_spent(rule + side * width * direction, beliefs, label, cost) for side in (1, -1)]
        gradient = (least[0] - least[1]) / (2 * width) * direction
        if np.linalg.norm(gradient) < ALIKE:
            break
        rule -= step * gradient
    return rule


def _spent(rule: Vector, beliefs: Vector, label: int, cost: float) -> float:
    stops = (rule * beliefs).sum(axis=1) < 0
    k = int(stops.argmax()) if stops.any() else len(stops) - 1
    return float(cost * k + 1 - beliefs[k, label])


def _beliefs(log: Vector, row: Integers) -> Vector:
    """Before each stage: [stage, class]."""
    told = np.zeros(log.shape[1:])
    told[1:] = np.cumsum(log[row[:-1], np.arange(len(told) - 1)], axis=0)
    told = np.exp(told - told.max(axis=1, keepdims=True))
    return np.asarray(told / told.sum(axis=1, keepdims=True))


def _tenths(classes: int) -> list[list[float]]:
    return [[i * 0.1 for i in p] for p in product(range(TENTHS + 1), repeat=classes) if sum(p) == TENTHS]


def _binned(X: Vector, low: Vector, high: Vector, bins: int) -> Integers:
    width = np.where(high > low, (high - low) / bins, 1.0)
    return np.clip(np.floor((X - low) / width), 0, bins - 1).astype(np.int64)


def _solved(points: Vector, chances: Vector, cost: float, taken_for: Callable[[Vector], Integers]) -> Vector:
    """What going on costs at each point before each stage."""
    g = 1 - points.max(axis=1)
    later, going_on = g, np.zeros((chances.shape[1], len(points)))
    for k in range(chances.shape[1] - 1, -1, -1):
        total = np.full(len(points), cost)
        for v in range(len(chances)):
            after = points * chances[v, k]
            whole = after.sum(axis=1)
            total += whole * later[taken_for(after / whole[:, None])]
        going_on[k] = total
        later = np.minimum(g, total)
    return going_on
