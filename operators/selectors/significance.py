"""When a dependence counts, by a selector's hyper-parameters."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

from sluiceway.operators.kernels.columns.column_store import FISHER_Z, MEASURES
from sluiceway.operators.kernels.columns.correlation import significant_correlation
from sluiceway.operators.parameters import Parameters, choice, share


class Relevance(Parameters):
    """The hyper-parameters of SAOLA in all its forms but the bound."""

    measure: str = choice("how much one column says about another", *MEASURES, default="fisher-z")
    ties: str = choice(
        "whether an equal relevance counts as a larger one; with strict, every copy of a column is kept",
        "inclusive", "strict", default="inclusive",
    )  # fmt: skip
    significance: float = share("with fisher-z, the level at which a column is relevant", default=0.01)
    delta: float = share("with the other measures, what the relevance must lie above", zero=True, default=0.0)

    @property
    def _measure(self) -> int:
        return MEASURES[self.measure]

    def _least_relevance(self, rows: int) -> float:
        """What counts at all."""
        return least_relevance(self._measure, rows, self.significance, self.delta)


def bound_of_dependence() -> Any:
    meaning = "of two columns' relevances, the one that their dependence must lie above for one to be redundant"
    return choice(meaning, "min", "max", default="min")


def least_relevance(measure: int, rows: int, significance: float, delta: float) -> float:
    """The smallest dependence on the target that counts: significant (Fisher-Z), or above `delta`."""
    if measure == FISHER_Z:
        return significant_correlation(critical_value(significance), rows)
    return math.nextafter(delta, math.inf)


def critical_value(significance: float) -> float:
    """z with P(|Z| >= z) = significance."""
    return -NormalDist().inv_cdf(significance / 2)
