"""Sums in double-double numbers are as right as `comoments` derives, against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sluiceway.operators.kernels.columns.column_store import FISHER_Z
from sluiceway.operators.kernels.columns.comoments import Sums, add_rows, add_sums, comoment, variance

U = 2.0**-53
ROWS = 60
Floats = NDArray[np.float64]


def empty() -> Sums:
    line, square = np.zeros((3, 1)), np.zeros((3, 3))
    return Sums(FISHER_Z, line, line.copy(), square, square.copy(), np.zeros((0, 0), dtype=np.int64))


def summed(x: Floats, z: Floats, y: NDArray[np.int64]) -> Sums:
    """Place 0 is the target y, 1 is x and 2 is z."""
    rows, sums = len(y), empty()
    places, values = np.tile(np.array([1, 2]), rows), np.column_stack((x, z)).ravel()
    add_rows(np.arange(0, 2 * rows + 1, 2), places, values, y, 0, rows, sums, np.zeros(3, dtype=np.int64), np.zeros(3))
    return sums


def exact(a: Floats, b: Floats) -> Fraction:
    a_, b_ = [*map(Fraction, a.tolist())], [*map(Fraction, b.tolist())]
    return len(a_) * sum((p * q for p, q in zip(a_, b_, strict=True)), Fraction()) - sum(a_) * sum(b_)


def allowed(a: Floats, b: Floats, right: Fraction, additions: int) -> float:
    Q = len(a) * sqrt(float(a @ a)) * sqrt(float(b @ b))
    return 2 * U * abs(float(right)) + (24 * additions + 16) * U * U * Q


offsets = st.sampled_from([0.0, 0.3, -1e3, 1e6 + 0.1, 1e9 / 3, -1e12 / 7])


@given(st.integers(0, 2**32 - 1), offsets, offsets, st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_comoments_are_as_right_as_derived(seed: int, far: float, other: float, merged: bool) -> None:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=ROWS) + far, rng.normal(size=ROWS) * 10.0 ** rng.integers(-3, 4) + other
    if seed % 3 == 0:
        x[1::2] = -x[::2]  # sums that cancel
    y = np.where(rng.random(ROWS) < 0.5, 1, -1)
    if merged:
        sums = empty()
        for part in np.array_split(np.arange(ROWS), 4):
            add_sums(sums, summed(x[part], z[part], y[part]), np.arange(3))
    else:
        sums = summed(x, z, y)
    columns = [y.astype(np.float64), x, z]
    for a in range(3):
        for b in range(3):
            right = exact(columns[a], columns[b])
            wrong = abs(float(Fraction(comoment(sums, ROWS, a, b)) - right))
            assert wrong <= allowed(columns[a], columns[b], right, ROWS)


@given(st.integers(0, 2**32 - 1), st.sampled_from([10**6, 10**9, 10**12, 10**14]))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_integers_are_added_up_without_rounding(seed: int, far: int) -> None:
    rng = np.random.default_rng(seed)
    x, z = (rng.integers(-9, 9, ROWS).astype(float) + far for _ in range(2))
    sums = summed(x, z, np.where(rng.random(ROWS) < 0.5, 1, -1))
    for a, b, places in ((x, x, (1, 1)), (x, z, (2, 1))):
        together = Fraction(float(sums.product_high[places])) + Fraction(float(sums.product_low[places]))
        assert together == sum(int(p) * int(q) for p, q in zip(a.tolist(), b.tolist(), strict=True))
        right = exact(a, b)
        assert abs(float(Fraction(comoment(sums, ROWS, *places)) - right)) <= allowed(a, b, right, 0)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e9 / 7, 12345.678e-20])
def test_a_constant_has_no_variance_whatever_is_lost(value: float) -> None:
    for rows in (1, 2, 3, 7, 1000):
        x = np.full(rows, value)
        assert variance(summed(x, x, np.ones(rows, dtype=np.int64)), rows, 1) == 0.0
