"""A policy as kernels read it: which feature is looked at in which stage, what it tells, and when that is enough.

A belief is q, a number a class, not brought to sum 1: stopping and deciding compare risks, which grow with q alike.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel

RENORMALISE = 16
"""So many stages can q shrink before it is brought to sum 1 again."""
CHUNK = 64
"""Planes of the cost to go on that are compared together."""


class Stages(NamedTuple):
    # by stage
    cuts: NDArray[np.float64]
    """A value above so many of them is in the bin of that number; unused ones are infinite."""
    zero: NDArray[np.int64]
    """The bin of 0."""
    ancestor: NDArray[np.int64]
    """The earlier stage on whose bin this one's table depends, or -1."""
    tables: NDArray[np.float64]
    """[stage, bin of the ancestor, bin, class]: P(bin | class); the last bin of an ancestor is "not known"."""
    # when to stop: what one of the rules has; the others' are empty
    low: NDArray[np.float64]
    """Two classes: the log-odds of the second one between which it pays to go on."""
    high: NDArray[np.float64]
    odds: NDArray[np.float64]
    """[stage, bin]: log P(bin | second class) - log P(bin | first)."""
    risk: NDArray[np.float64]
    """Stop when the risk is no more than this."""
    planes: NDArray[np.float64]
    """[stage, class, plane]: going on costs the least of planes . q."""
    # for all stages
    prior: NDArray[np.float64]
    misclassification: NDArray[np.float64]
    """[true class, decided class]"""
    zero_one: bool
    """Whether every mistake costs 1: then the risk is one minus the largest belief."""


@allocating_kernel
def risk_of(stages: Stages, q: NDArray[np.float64]) -> float:
    """min_j M_j . q"""
    classes = len(q)
    if stages.zero_one:
        whole, largest = 0.0, 0.0
        for i in range(classes):
            whole += q[i]
            largest = max(largest, q[i])
        return whole - largest
    least = math.inf
    for j in range(classes):
        risk = 0.0
        for i in range(classes):
            risk += stages.misclassification[i, j] * q[i]
        least = min(least, risk)
    return least


@allocating_kernel
def decided(stages: Stages, q: NDArray[np.float64]) -> int:
    """The class of the least risk; of equal ones the first."""
    classes = len(q)
    best, least = 0, math.inf
    for j in range(classes):
        risk = 0.0
        if stages.zero_one:
            risk = -q[j]
        else:
            for i in range(classes):
                risk += stages.misclassification[i, j] * q[i]
        if risk < least:
            best, least = j, risk
    return best


@allocating_kernel
def enough(stages: Stages, k: int, q: NDArray[np.float64], sums: NDArray[np.float64]) -> bool:
    """Whether to decide before stage k; `sums` is scratch."""
    risk = risk_of(stages, q)
    if len(stages.risk) > 0:
        whole = 0.0
        for i in range(len(q)):
            whole += q[i]
        return bool(risk <= stages.risk[k] * whole)
    planes = stages.planes[k]
    for start in range(0, planes.shape[1], CHUNK):
        stop = min(start + CHUNK, planes.shape[1])
        for p in range(start, stop):
            sums[p - start] = 0.0
        for i in range(len(q)):
            for p in range(start, stop):
                sums[p - start] += planes[i, p] * q[i]
        for p in range(stop - start):
            if sums[p] < risk:
                return False
    return True


@allocating_kernel
def take_in(stages: Stages, k: int, before: int, found: int, q: NDArray[np.float64]) -> None:
    """Bayes' rule for the bin found in stage k, given the ancestor's bin."""
    table = stages.tables[k, before, found]
    for i in range(len(q)):
        q[i] *= table[i]
    if k % RENORMALISE == RENORMALISE - 1:
        sum_to_one(q)


@allocating_kernel
def sum_to_one(q: NDArray[np.float64]) -> None:
    whole = 0.0
    for i in range(len(q)):
        whole += q[i]
    for i in range(len(q)):
        q[i] /= whole


@allocating_kernel
def bin_of(cuts: NDArray[np.float64], x: float) -> int:
    """How many cuts x is above."""
    above = 0
    for cut in cuts:
        above += x > cut
    return above


def new_scratch() -> NDArray[np.float64]:
    return np.zeros(CHUNK)
