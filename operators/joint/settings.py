"""What looking and mistakes cost, and the parameters of a sort that only the joint operators have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.joint.cuts import BINNINGS
from sluiceway.operators.parameters import choice, finite, parameter

OTHERS = "*"
"""In a mapping of costs: every feature that it does not name."""
COST = 0.01
Binning = str | Mapping[str, Sequence[float]]
Cost = float | Mapping[str, float]
Table = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Terms:
    """What looking and mistakes cost."""

    costs: Mapping[str, float]
    misclassification: NDArray[np.float64] | None
    """[true class, decided class]; None: every mistake costs 1."""
    horizon: int

    def cost_of(self, name: str) -> float:
        return self.costs.get(name, self.costs.get(OTHERS, COST))

    def mistakes(self, classes: int) -> NDArray[np.float64]:
        return 1.0 - np.eye(classes) if self.misclassification is None else self.misclassification

    @property
    def labels(self) -> tuple[int, ...]:
        """Of the classes that the table of mistakes is for; empty where any may come."""
        classes = 0 if self.misclassification is None else len(self.misclassification)
        return (-1, 1) if classes == 2 else tuple(range(1, classes + 1))

    def check_labels(self, labels: Iterable[Any]) -> None:
        """0, no label, is one of them."""
        for y in labels:
            if isinstance(y, bool | np.bool_) or not isinstance(y, int | np.integer) or not -1 <= y <= 127:
                raise ValueError(f"label {y!r} is not -1, or 1, 2, ... up to 127")
            if self.labels and y and y not in self.labels:
                raise ValueError(f"label {y!r}: misclassification is for the classes {self.labels}")


def costs(meaning: str) -> Any:
    """A parameter: one number, or numbers by the names of features."""

    def check(name: str, cost: Any) -> Cost:
        given = cost if isinstance(cost, Mapping) else {OTHERS: cost}
        for feature, value in given.items():
            if not finite(value) >= 0:
                of = "" if feature == OTHERS else f" of {feature!r}"
                raise ValueError(f"{name}{of} must be a number of at least 0, not {value!r}")
        numbers = {str(feature): float(value) for feature, value in given.items()}
        return numbers if isinstance(cost, Mapping) else numbers[OTHERS]

    return parameter(meaning, "number of at least 0; or such numbers by feature", check, default=COST)


def cuts(meaning: str) -> Any:
    """A parameter: a way to make the cuts, or the cuts by the names of features."""
    ways = choice(meaning, *BINNINGS, default="quantiles")

    def check(name: str, binning: Any) -> Binning:
        if isinstance(binning, Mapping):
            return {str(feature): list(cuts) for feature, cuts in binning.items()}
        way: str = ways.check(name, binning)
        return way

    return parameter(meaning, f"{ways.values}; or cuts by feature, in ascending order", check, default=ways.default)


def mistakes(meaning: str) -> Any:
    """A parameter: a square table, or none."""

    def check(name: str, table: Any) -> list[list[float]]:
        try:
            M = np.array(table, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            M = np.zeros(0)
        if M.ndim != 2 or M.shape[0] != M.shape[1] or len(M) < 2 or not (np.isfinite(M) & (M >= 0)).all():
            raise ValueError(f"{name} must be a square table of numbers of at least 0, not {table!r}")
        rows: list[list[float]] = M.tolist()
        return rows

    return parameter(meaning, "square table of numbers of at least 0", check, default=None)
