"""Walks through all stages of a model, drawn from the model itself: which beliefs and risks are met where."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.joint.stages import Stages, risk_of, sum_to_one, take_in
from sluiceway.operators.kernels.numbers.random import draw, stream_of, uniform


@allocating_kernel
def _one_of(weights: NDArray[np.float64], u: float) -> int:
    """An index drawn by weights of sum 1."""
    for i in range(len(weights) - 1):
        u -= weights[i]
        if u < 0.0:
            return i
    return len(weights) - 1


@allocating_kernel
def _anywhere(q: NDArray[np.float64], stream: np.uint64, counter: int) -> None:
    """A belief from the Dirichlet distribution whose parameters are all 1/2: squares of normal numbers, scaled."""
    for i in range(len(q)):
        radius = -2.0 * math.log(1.0 - uniform(draw(stream, counter + 2 * i)))
        angle = math.cos(2.0 * math.pi * uniform(draw(stream, counter + 2 * i + 1)))
        q[i] = radius * angle * angle + 1e-300
    sum_to_one(q)


@allocating_kernel
def walk(
    stages: Stages, costs: NDArray[np.float64], seed: int, version: int, restarting: bool,
    beliefs: NDArray[np.float64], risks: NDArray[np.float64], bins: NDArray[np.int8],
) -> None:  # fmt: skip
    """Walks, a row of `risks` [walk, stage] each: the risk before each stage, and after the last.

    Where `beliefs` [stage, walk, class] has room, the belief before each stage is kept. With `restarting` a walk
    that is sure enough for no feature to pay goes on from somewhere else, so that stages meet beliefs of all kinds.
    """
    horizon, classes = len(costs), len(stages.prior)
    depends = stages.tables.shape[1] > 1
    unknown = stages.tables.shape[1] - 1
    q = np.zeros(classes)
    likelihood = np.zeros(stages.tables.shape[2])
    streams = stream_of(seed, version, 1)
    for walker in range(len(risks)):
        stream, counter = draw(streams, walker), 1
        for i in range(classes):
            q[i] = stages.prior[i]
        true = _one_of(q, uniform(draw(stream, 0)))
        for k in range(horizon):
            risk = risk_of(stages, q)
            if restarting and k > 0 and risk <= costs[k]:
                _anywhere(q, stream, counter)
                counter += 2 * classes
                true = _one_of(q, uniform(draw(stream, counter)))
                counter += 1
                risk = risk_of(stages, q)
            risks[walker, k] = risk
            if len(beliefs) > 0:
                for i in range(classes):
                    beliefs[k, walker, i] = q[i]
            ancestor = stages.ancestor[k]
            before = bins[ancestor] if depends and ancestor >= 0 else unknown
            for v in range(len(likelihood)):
                likelihood[v] = stages.tables[k, before, v, true]
            found = _one_of(likelihood, uniform(draw(stream, counter)))
            counter += 1
            if depends:
                bins[k] = found
            take_in(stages, k, before, found, q)
            sum_to_one(q)
        risks[walker, horizon] = risk_of(stages, q)
