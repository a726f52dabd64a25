"""When a dependence counts, by a selector's hyper-parameters."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

from sluiceway.operators.kernels.columns.column_store import FISHER_Z, MEASURES
from sluiceway.operators.kernels.columns.correlation import significant_correlation
from sluiceway.operators.params import one_of


def measure_of(value: Any) -> str:
    return str(one_of("measure", value, tuple(MEASURES)))


def least_relevance(measure: int, rows: int, significance: float, delta: float) -> float:
    """The smallest dependence on the target that counts: significant (Fisher-Z), or above `delta`."""
    if measure == FISHER_Z:
        return significant_correlation(critical_value(significance), rows)
    return math.nextafter(delta, math.inf)


def critical_value(significance: float) -> float:
    """z with P(|Z| >= z) = significance."""
    return -NormalDist().inv_cdf(significance / 2)
