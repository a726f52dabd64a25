"""The passive-aggressive step: how far along an instance weights must go.

Rows whose squares leave the range of floats are multiplied by a power of two first, the `inverse` of their size.
"""

from __future__ import annotations

import math

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.slots import Model, Rows


@kernel
def square_row(rows: Rows, row: int, m: Model) -> tuple[float, float]:
    """(||inverse x||^2, inverse) of what is not left out; the inverse is 1 for all but extreme rows."""
    first = rows.indptr[row]
    squares = 0.0
    largest = 0.0
    for j in range(first, rows.indptr[row + 1]):
        if m.touched[j - first] >= 0:
            squares += rows.values[j] * rows.values[j]
            largest = max(largest, abs(rows.values[j]))
    if largest == 0.0 or 1e-280 < squares < 1e280:
        return squares, 1.0
    inverse = math.ldexp(1.0, -max(math.frexp(largest)[1], -1000))
    squares = 0.0
    for j in range(first, rows.indptr[row + 1]):
        if m.touched[j - first] >= 0:
            squares += (rows.values[j] * inverse) * (rows.values[j] * inverse)
    return squares, inverse


@kernel
def step_size(loss: float, squares: float, inverse: float, variant: int, C: float) -> float:
    """τ/inverse: how often the row times `inverse`, whose squared norm is given, is added."""
    if variant == 1:
        return min(C / inverse, loss * inverse / squares)
    if variant == 2:
        return loss / (squares / inverse + 0.5 / C * inverse)
    return loss * inverse / squares
