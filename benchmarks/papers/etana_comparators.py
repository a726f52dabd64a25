"""The columns of OFS-A3M and OFS-Density in tables 2 and 3 of the ETANA paper: accuracy, and features selected.

Accuracy is that of three nearest neighbours by Euclid; of equal distances the lower row of the training part comes
first. Removals are tried in random order, so sets vary widely with the seed: what is shown is the range over seeds, or,
where the data set has no test part of its own, over folds drawn here. "reference" is a plain program's range over its
own seeds or folds; on madelon nothing depends on the order, so there it has to be equal. OFS-A3M on dexter is not run:
it takes hours (the paper: 43554 s), and ends with more than a hundred columns that replace each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.papers.saola import BLOCK
from sluiceway.operators.registry import column_selector

Vector = NDArray[np.float64]
Labels = NDArray[np.int8]
Split = tuple[Vector, Labels, Vector, Labels]
"""Training part, test part."""
NEIGHBOURS = 3


class Range(NamedTuple):
    low: float
    high: float

    @classmethod
    def of(cls, found: Iterable[float]) -> Range:
        found = sorted(found)
        return cls(found[0], found[-1])

    def shown(self, digits: int) -> str:
        low, high = (f"{value:.{digits}f}" for value in self)
        return low if low == high else f"{low}..{high}"


class Run(NamedTuple):
    """A cell to be made."""

    method: str
    printed: tuple[float, float]
    """Features and accuracy, as all that follow."""
    reference: tuple[Range, Range] | None
    seeds: int = 1
    folds: int | None = None
    """At most so many of the splits."""
    exact: bool = False


def _once(features: float, accuracy: float) -> tuple[Range, Range]:
    return Range(features, features), Range(accuracy, accuracy)


RUNS: dict[str, list[Run]] = {
    "madelon": [
        Run("ofs-density", (2, 0.5117), _once(2, 0.5117), exact=True),
        Run("ofs-a3m", (2, 0.5117), _once(2, 0.5117), exact=True),
    ],
    "dexter": [
        Run("ofs-density", (10, 0.8167), (Range(6, 9), Range(0.833, 0.843)), seeds=4),
        Run("ofs-a3m", (98, 0.7800), None, seeds=0),
    ],
    "mll5848": [
        Run("ofs-density", (12, 0.9333), (Range(4, 17), Range(0.80, 1.00)), seeds=8),
        Run("ofs-a3m", (9, 0.8667), (Range(6, 13), Range(0.73, 1.00)), seeds=8),
    ],
    "lung_cancer": [
        Run("ofs-density", (25.4, 0.9779), (Range(3, 12), Range(0.989, 0.989)), folds=5),
        Run("ofs-a3m", (8.2, 0.9557), (Range(5, 7), Range(0.972, 0.973)), folds=2),
    ],
    "car_11tumors": [
        Run("ofs-density", (34.8, 0.5854), (Range(7, 13), Range(0.57, 0.66)), folds=2),
        Run("ofs-a3m", (36.6, 0.7874), (Range(46, 55), Range(0.57, 0.60)), folds=2),
    ],
}


@dataclass(frozen=True)
class Cell:
    data: str
    method: str
    printed: tuple[float, float]
    reference: tuple[Range, Range] | None
    features: list[int]
    """Of each seed and fold; empty: not run."""
    accuracy: list[float]
    exact: bool

    @property
    def agrees(self) -> bool:
        """With what does not depend on seeds."""
        return not self.exact or all(
            (count, round(right, 4)) == self.printed
            for count, right in zip(self.features, self.accuracy, strict=True)
        )


def cells(data: str, splits: list[Split]) -> Iterator[Cell]:
    for run in RUNS.get(data, ()):
        found = [
            one(run.method, *split, seed=seed) for seed in range(run.seeds) for split in splits[: run.folds]
        ]
        features, accuracy = [count for count, _ in found], [right for _, right in found]
        yield Cell(data, run.method, run.printed, run.reference, features, accuracy, run.exact)


def one(method: str, X: Vector, y: Labels, X_test: Vector, y_test: Labels, *, seed: int) -> tuple[int, float]:
    """How many columns are selected, and how well rows are told by them."""
    model = column_selector(method)(seed=seed, max_rows=max(len(y), 3))  # type: ignore[call-arg]  # both have it
    model.begin(y)
    for start in range(0, X.shape[1], BLOCK):
        block = np.ascontiguousarray(X[:, start : start + BLOCK].T)
        model.learn_features([*map(str, range(start, start + len(block)))], block)
    chosen = sorted(int(selected.feature) for selected in model.selected)
    return len(chosen), float((nearest(X[:, chosen], y, X_test[:, chosen]) == y_test).mean())


def nearest(X: Vector, y: Labels, X_test: Vector) -> Labels:
    """The class that most of the nearest rows have; of as many, the lowest."""
    classes = np.unique(y)
    told = np.zeros(len(X_test), dtype=np.int8)
    for row, x in enumerate(X_test):
        near = np.argsort(((X - x) ** 2).sum(axis=1), kind="stable")[:NEIGHBOURS]
        told[row] = classes[(y[near][:, None] == classes).sum(axis=0).argmax()]
    return told


def shown(found: list[Cell]) -> Table:
    table = Table(
        title="Comparators in tables 2 and 3: accuracy / features selected",
        caption="where sets depend on the order of removals: the range over seeds, or folds\n"
        "ofs-a3m on dexter: not run, it takes hours",
    )
    for heading in ("data", "method", "runs", "printed", "reference", "ours", "as printed"):
        table.add_column(heading, justify="left" if heading in ("data", "method") else "right", overflow="fold")
    for cell in found:
        ours = (Range.of(cell.features), Range.of(cell.accuracy)) if cell.features else None
        table.add_row(
            cell.data, cell.method, str(len(cell.features)), f"{cell.printed[1]:.4f} / {cell.printed[0]:g}",
            _shown(cell.reference), _shown(ours) or "not run", ("yes" if cell.agrees else "no") if cell.exact else "",
            style=None if cell.agrees else "bold red", end_section=cell.method == "ofs-a3m",
        )  # fmt: skip
    return table


def _shown(pair: tuple[Range, Range] | None) -> str:
    return "" if pair is None else f"{pair[1].shown(4)} / {pair[0].shown(0)}"
