"""Pearson correlation by sums of a fixed order: the same bits on every machine and for every split of blocks.

A column is shifted by its first value, centred and brought to length 1, so that a correlation is one dot
product. Correlations are rounded to multiples of 2**-40: rounding errors then decide no tie, and a column times
any factor plus any constant is the same column again.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel

Floats = NDArray[np.float64]

_GRAIN = 2.0**40
_SMALL, _LARGE = 1e-140, 1e140


@allocating_kernel
def dot(a: Floats, b: Floats, strand: Floats) -> float:
    """Four quarters side by side into `strand` (at least a quarter as long), then along it in four sums.

    No step depends on how many numbers the machine adds at once, yet it can add several.
    """
    quarter = len(a) // 4
    a0, a1, a2, a3 = a[:quarter], a[quarter : 2 * quarter], a[2 * quarter : 3 * quarter], a[3 * quarter : 4 * quarter]
    b0, b1, b2, b3 = b[:quarter], b[quarter : 2 * quarter], b[2 * quarter : 3 * quarter], b[3 * quarter : 4 * quarter]
    for i in range(quarter):
        strand[i] = (a0[i] * b0[i] + a1[i] * b1[i]) + (a2[i] * b2[i] + a3[i] * b3[i])
    p = q = r = s = 0.0
    whole = quarter // 4 * 4
    for i in range(0, whole, 4):
        p += strand[i]
        q += strand[i + 1]
        r += strand[i + 2]
        s += strand[i + 3]
    for i in range(whole, quarter):
        p += strand[i]
    for i in range(4 * quarter, len(a)):
        q += a[i] * b[i]
    return (p + r) + (q + s)


@allocating_kernel
def total(a: Floats) -> float:
    p = q = r = s = 0.0
    whole = len(a) // 4 * 4
    for i in range(0, whole, 4):
        p += a[i]
        q += a[i + 1]
        r += a[i + 2]
        s += a[i + 3]
    for i in range(whole, len(a)):
        p += a[i]
    return (p + r) + (q + s)


@allocating_kernel
def centre(x: Floats, z: Floats, strand: Floats) -> float:
    """z <- x - mean(x), scaled by a power of two where squares would leave the range; its squared length.

    0 if and only if the column is constant.
    """
    first = x[0]
    for i in range(len(x)):
        z[i] = x[i] - first
    mean = total(z) / len(x)
    for i in range(len(x)):
        z[i] = z[i] - mean
    square = dot(z, z, strand)
    if _SMALL < square < _LARGE:
        return square
    return _centre_extreme(x, z, strand)


@allocating_kernel
def _centre_extreme(x: Floats, z: Floats, strand: Floats) -> float:
    """For columns of huge, tiny or equal values: halves of huge ones are taken, so that no difference overflows."""
    widest = 0.0
    for i in range(len(x)):
        widest = max(widest, abs(x[i]))
    factor = 0.5 if widest > 1.0 else 1.0
    widest = 0.0
    for i in range(len(x)):
        z[i] = factor * x[i] - factor * x[0]
        widest = max(widest, abs(z[i]))
    if widest == 0.0:
        return 0.0
    exponent = math.frexp(widest)[1]
    for i in range(len(x)):
        z[i] = math.ldexp(math.ldexp(z[i], -(exponent // 2)), exponent // 2 - exponent)
    mean = total(z) / len(x)
    for i in range(len(x)):
        z[i] -= mean
    return dot(z, z, strand)


@allocating_kernel
def standardise(x: Floats, z: Floats, strand: Floats) -> bool:
    """z <- (x - mean(x)) / ‖x - mean(x)‖; whether the column varies at all."""
    square = centre(x, z, strand)
    if square == 0.0:
        return False
    factor = 1.0 / math.sqrt(square)
    for i in range(len(z)):
        z[i] *= factor
    return True


@allocating_kernel
def rounded(r: float) -> float:
    """|r| as a multiple of 2**-40, at most 1."""
    return min(math.floor(abs(r) * _GRAIN + 0.5) / _GRAIN, 1.0)


def significant_correlation(z: float, rows: int) -> float:
    """The smallest |r| with √(N-3) |atanh r| >= z; above 1 where nothing is significant."""
    return math.tanh(z / math.sqrt(rows - 3)) if rows > 3 else 2.0
