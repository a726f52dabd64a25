"""Tail probabilities of the tests: χ² and Student's t, as series and continued fractions.

Abramowitz, Stegun: Handbook of Mathematical Functions, 6.5.29, 6.5.31, 26.5.8, 26.7.1; fractions by Lentz's method.
"""

from __future__ import annotations

import math

from sluiceway.compiling import kernel

_TINY = 1e-300
_EPSILON = 1e-16
_STEPS = 10_000


@kernel
def chi_square_tail(statistic: float, freedom: int) -> float:
    """P(χ² >= statistic)."""
    if statistic <= 0.0 or freedom <= 0:
        return 1.0
    a, x = 0.5 * freedom, 0.5 * statistic
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:
        term = 1.0 / a
        below = term
        for n in range(1, _STEPS):
            term *= x / (a + n)
            below += term
            if term < below * _EPSILON:
                break
        return max(1.0 - scale * below, 0.0)
    b = x + 1.0 - a
    c = 1.0 / _TINY
    d = 1.0 / b
    fraction = d
    for n in range(1, _STEPS):
        step = -n * (n - a)
        b += 2.0
        d = step * d + b
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = b + step / c
        c = c if abs(c) > _TINY else _TINY
        fraction *= d * c
        if abs(d * c - 1.0) < 4e-16:
            break
    return scale * fraction


@kernel
def _beta_fraction(a: float, b: float, x: float) -> float:
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    fraction = d
    for m in range(1, _STEPS):
        step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 + step * d
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = 1.0 + step / c
        c = c if abs(c) > _TINY else _TINY
        fraction *= d * c
        step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 + step * d
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = 1.0 + step / c
        c = c if abs(c) > _TINY else _TINY
        fraction *= d * c
        if abs(d * c - 1.0) < 4e-16:
            break
    return fraction


@kernel
def correlation_tail(square: float, freedom: int) -> float:
    """P(r² >= square) of a sample correlation that is truly 0: the two-sided t test of one coefficient.

    t² = ν r² / (1 - r²), so with ν degrees of freedom P = I_{1-r²}(ν/2, 1/2), the incomplete beta function.
    """
    if freedom <= 0 or square <= 0.0:
        return 1.0
    if square >= 1.0:
        return 0.0
    a, b = 0.5 * freedom, 0.5
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log1p(-square) + b * math.log(square)
    )
    x = 1.0 - square
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return max(1.0 - front * _beta_fraction(b, a, square) / b, 0.0)
