"""Made columns for the laws and the oracles: the shapes that break selectors, by seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
SHAPES = ("continuous", "binary", "levels", "copies", "extreme")


class Stream(NamedTuple):
    target: Column
    names: list[str]
    columns: list[Column]


def stream(shape: str, seed: int, count: int = 30, rows: int = 90) -> Stream:
    """Columns in groups that share a hidden cause; a third of the groups has to do with the target."""
    rng = np.random.default_rng(seed)
    groups = max(count // 5, 1)
    causes = rng.normal(size=(groups, rows))
    signal = causes[: max(groups // 3, 1)].sum(axis=0) + 0.5 * rng.normal(size=rows)
    target = np.where(signal > 0, 1.0, -1.0)
    if shape == "levels":
        target = np.digitize(signal, np.quantile(signal, [0.3, 0.7])).astype(float)
    columns: list[Column] = []
    for _ in range(count):
        cause = causes[rng.integers(groups)]
        column = cause * rng.choice([-1, 1]) + rng.choice([0.2, 0.7, 2.0]) * rng.normal(size=rows)
        if shape == "binary":
            column = (column > rng.normal()).astype(float)
        elif shape == "levels":
            column = np.floor(column * rng.choice([0.7, 1.5])) * 0.5
        elif shape == "extreme":
            column = column * 10.0 ** rng.integers(-200, 200) if rng.random() < 0.5 else column + 1e7
        elif shape == "copies" and columns and rng.random() < 0.5:
            column = columns[rng.integers(len(columns))] * rng.choice([1.0, -2.0, 4.0])
        if rng.random() < 0.05:
            column = np.full(rows, rng.normal())
        columns.append(column)
    return Stream(target, [*map(str, range(count))], columns)


def split(count: int, seed: int) -> list[tuple[int, int]]:
    """Blocks [start, stop) of random sizes, some of them empty."""
    rng = np.random.default_rng(seed)
    cuts = sorted(rng.integers(0, count + 1, size=rng.integers(1, 12)).tolist())
    return list(zip([0, *cuts], [*cuts, count], strict=True))
