"""How pure the neighbourhoods of rows are under a set of columns: OFS-A3M's gap and OFS-Density's density.

Distances of a row to all rows in ascending order, equal ones by row: s_0 is dropped as the row itself, s_1 is kept, and
the next ones as long as the rule says. Most neighbourhoods are small, so a heap gives them without sorting the rest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel

GAP, DENSITY = 0, 1


class Neighbours(NamedTuple):
    rule: int
    labels: NDArray[np.float64]
    squares: NDArray[np.float64]
    """[row, row]: squared distances under the selected columns, summed in their order."""
    trial: NDArray[np.float64]
    """[row, row]: scratch."""
    distance: NDArray[np.float64]
    row: NDArray[np.int64]


def neighbours_of(rule: int, labels: NDArray[np.float64]) -> Neighbours:
    rows = len(labels)
    return Neighbours(
        rule, labels, np.zeros((rows, rows)), np.zeros((rows, rows)), np.zeros(rows), np.zeros(rows, dtype=np.int64)
    )


@allocating_kernel
def _sift(distance: NDArray[np.float64], row: NDArray[np.int64], root: int, size: int) -> None:
    d, r = distance[root], row[root]
    child = 2 * root + 1
    while child < size:
        other = child + 1
        if other < size and (
            distance[other] < distance[child] or (distance[other] == distance[child] and row[other] < row[child])
        ):
            child = other
        if distance[child] > d or (distance[child] == d and row[child] > r):
            break
        distance[root], row[root] = distance[child], row[child]
        root = child
        child = 2 * root + 1
    distance[root], row[root] = d, r


@allocating_kernel
def purity(n: Neighbours, squares: NDArray[np.float64]) -> float:
    """The mean over rows of the share of neighbours that have the row's label."""
    rows = len(n.labels)
    total = 0.0
    for i in range(rows):
        farthest = 0.0
        for j in range(rows):
            n.distance[j] = math.sqrt(squares[i, j])
            n.row[j] = j
            farthest = max(farthest, n.distance[j])
        for root in range(rows // 2 - 1, -1, -1):
            _sift(n.distance, n.row, root, rows)
        size, before, first = rows, 0.0, 0.0
        kept = alike = 0
        for t in range(rows):
            s, j = n.distance[0], n.row[0]
            if t == 1:
                first = s
            if t > 1:
                if n.rule == GAP:
                    if not s - before < 1.5 * (farthest - first) / (rows - 2):
                        break
                elif not (s / t <= before / (t - 1) or s == 0.0):
                    break
            if t > 0:
                kept += 1
                alike += n.labels[j] == n.labels[i]
            before = s
            size -= 1
            n.distance[0], n.row[0] = n.distance[size], n.row[size]
            _sift(n.distance, n.row, 0, size)
        total += alike / kept
    return total / rows


@allocating_kernel
def add_column(squares: NDArray[np.float64], x: NDArray[np.float64]) -> None:
    """The squared distances along one more column."""
    for i in range(len(x)):
        for j in range(len(x)):
            step = x[i] - x[j]
            squares[i, j] += step * step
