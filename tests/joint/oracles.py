"""The joint operators as their papers have them, written to be obviously right: dense tables, recursion, no kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.kernels.joint.stages import Stages

Vector = NDArray[np.float64]


def stages_of(tables: Vector, prior: Vector, M: Vector | None = None) -> Stages:
    """Of [stage, bin, class]."""
    horizon, bins, classes = tables.shape
    M = 1.0 - np.eye(classes) if M is None else M
    none = np.zeros(0)
    return Stages(
        np.full((horizon, bins - 1), np.inf), np.zeros(horizon, dtype=np.int64), np.full(horizon, -1),
        tables[:, None].copy(), none, none, np.zeros((0, 0)), none, np.zeros((0, classes, 0)), prior, M,
        np.array_equal(M, 1.0 - np.eye(classes)),
    )  # fmt: skip


def problem(seed: int, classes: int, stages: int = 5, bins: int = 3) -> tuple[Stages, Vector]:
    """Random chances, prior, costs and a misclassification table, every third time 0 and 1."""
    rng = np.random.default_rng(seed)
    tables = rng.dirichlet(np.full(bins, 0.7), size=(stages, classes)).transpose(0, 2, 1)
    M = rng.uniform(0.2, 1.5, (classes, classes)) * (1 - np.eye(classes)) if seed % 3 else None
    return stages_of(tables, rng.dirichlet(np.full(classes, 2.0)), M), rng.uniform(0.005, 0.08, stages)


def risk(stages: Stages, pi: Vector) -> float:
    return float((pi @ stages.misclassification).min())


def going_on(stages: Stages, costs: Vector, k: int, pi: Vector) -> float:
    """C_k(π) by theorem 2, without any approximation."""
    total = float(costs[k])
    for chances in stages.tables[k, 0]:
        p = float(chances @ pi)
        if p > 0:
            total += p * least(stages, costs, k + 1, chances * pi / p)
    return total


def least(stages: Stages, costs: Vector, k: int, pi: Vector) -> float:
    """J_k(π)"""
    g = risk(stages, pi)
    return g if k == len(costs) else min(g, going_on(stages, costs, k, pi))


class Plain(NamedTuple):
    """What a model is after its warm-up, from a dense table of the rows."""

    cuts: Vector
    chances: Vector
    """[feature, class, bin]"""
    prior: Vector
    order: list[int]

    @classmethod
    def of(cls, X: Vector, y: Sequence[int], bins: int, cost: Vector) -> Plain:
        labels = sorted(set(y))
        cuts = np.quantile(X, np.arange(1, bins) / bins, axis=0).T
        found = np.array([[int((x > cuts[f]).sum()) for f, x in enumerate(row)] for row in X])
        size = np.array([list(y).count(label) for label in labels])
        chances = np.zeros((X.shape[1], len(labels), bins))
        for f in range(X.shape[1]):
            for i, label in enumerate(labels):
                rows = [found[r, f] for r in range(len(X)) if y[r] == label]
                for v in range(bins):
                    chances[f, i, v] = (rows.count(v) + 1) / (size[i] + bins)
        worth = chances.var(axis=1).sum(axis=1) / cost
        worth[[len(set(found[:, f])) == 1 for f in range(X.shape[1])]] = -1
        order = sorted(range(X.shape[1]), key=lambda f: (-round(worth[f], 12), f))
        return cls(cuts, chances, (size + 1) / (len(y) + len(labels)), order)

    def posterior(self, x: Vector, features: Sequence[int]) -> Vector:
        """By Bayes' rule from these features alone; NaN tells nothing."""
        pi = self.prior.copy()
        for f in features:
            if not np.isnan(x[f]):
                pi = pi * self.chances[f, :, int((x[f] > self.cuts[f]).sum())]
        return np.asarray(pi / pi.sum())
