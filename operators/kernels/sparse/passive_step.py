"""The passive-aggressive step: the multiple of a row that is added to the weights.

A row whose squares would leave the range of floats is multiplied first by a power of two, the `inverse` of its size.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.sparse.slots import Model, Rows


@kernel
def square_row(rows: Rows, row: int, m: Model) -> tuple[float, float]:
    """(||inverse x||^2, inverse) of what is not left out; the inverse is 1 for all but extreme rows."""
    first, end, values, touched = rows.indptr[row], rows.indptr[row + 1], rows.values, m.touched
    squares, inverse = 0.0, 1.0
    for j in range(first, end):
        if touched[j - first] >= 0:
            squares += values[j] * values[j]
    if not 1e-280 < squares < 1e280:
        squares, inverse = _square_extreme_row(values[first:end], touched)
    return squares, inverse


@kernel
def _square_extreme_row(values: NDArray[np.float64], touched: NDArray[np.int32]) -> tuple[float, float]:
    largest = 0.0
    for i in range(len(values)):
        if touched[i] >= 0:
            largest = max(largest, abs(values[i]))
    if largest == 0.0:
        return 0.0, 1.0
    inverse = math.ldexp(1.0, -max(math.frexp(largest)[1], -1000))
    squares = 0.0
    for i in range(len(values)):
        if touched[i] >= 0:
            squares += (values[i] * inverse) * (values[i] * inverse)
    return squares, inverse


@kernel
def step_size(loss: float, squares: float, inverse: float, variant: int, C: float) -> float:
    """τ/inverse: how often the row times `inverse`, whose squared norm is given, is added."""
    if variant == 1:
        return min(C / inverse, loss * inverse / squares)
    if variant == 2:
        return loss / (squares / inverse + 0.5 / C * inverse)
    return loss * inverse / squares
