"""What selectors are made of, checked at once: hyper-parameters (`ValueError` naming the one), or a state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from statistics import NormalDist
from typing import Any

import numpy as np

from sluiceway.operators.kernels.correlation import significant_correlation
from sluiceway.operators.kernels.shelf import FISHER_Z, MEASURES


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, not {value!r}")
    return str(value)


def measure_of(value: Any) -> str:
    return one_of("measure", value, list(MEASURES))


def share(name: str, value: Any, *, zero: bool = False) -> float:
    """A float in (0, 1), or in [0, 1) with `zero`."""
    least = "in [0, 1)" if zero else "between 0 and 1"
    if isinstance(value, bool) or not isinstance(value, Real) or not (0 <= float(value) < 1):
        raise ValueError(f"{name} must be a number {least}, not {value!r}")
    if float(value) == 0 and not zero:
        raise ValueError(f"{name} must be a number {least}, not {value!r}")
    return float(value)


def least_relevance(measure: int, rows: int, significance: float, delta: float) -> float:
    """The smallest dependence on the target that counts: significant (Fisher-Z), or above `delta`."""
    if measure == FISHER_Z:
        return significant_correlation(critical_value(significance), rows)
    return math.nextafter(delta, math.inf)


def critical_value(significance: float) -> float:
    """z with P(|Z| >= z) = significance."""
    return -NormalDist().inv_cdf(significance / 2)


def whole_number(name: str, value: Any, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, not {value!r}")
    return int(value)


def refuse_other_state(state: Mapping[str, Any], operator: str, version: int) -> None:
    if state.get("operator") != operator:
        raise ValueError(f"this is the state of {state.get('operator')!r}, not of {operator!r}")
    if state.get("state_version") != version:
        raise ValueError(
            f"this state of {operator!r} has version {state.get('state_version')!r}; "
            f"this release of sluiceway reads version {version}"
        )
