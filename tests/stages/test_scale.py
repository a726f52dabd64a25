"""Rows brought to length 1."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluiceway.operators.stages.scale import scaled
from sluiceway.schemas.batch import InstanceBatch

finite = st.floats(allow_nan=False, allow_infinity=False)


def batch(rows: list[list[float]]) -> InstanceBatch:
    indptr = np.cumsum([0, *map(len, rows)])
    indices = [at for row in rows for at in range(len(row))]
    names = [str(at) for at in range(max(map(len, rows), default=0))]
    return InstanceBatch.from_csr(indptr, indices, [value for row in rows for value in row], names=names)


@given(st.lists(st.lists(finite, max_size=6), max_size=5))
def test_every_row_has_length_one_and_keeps_its_direction(rows: list[list[float]]) -> None:
    given = batch(rows)
    before = given.values.copy()
    got = scaled(given, "l2")
    assert given.values.tobytes() == before.tobytes()
    assert not np.shares_memory(got.values, given.values)
    for row, original in enumerate(rows):
        values = got.values[got.indptr[row] : got.indptr[row + 1]].tolist()
        if not any(original):
            assert values == [0.0] * len(original)
            continue
        assert math.hypot(*values) == pytest.approx(1.0, abs=1e-12)
        length = _length(original)
        assert values == pytest.approx([float(Fraction(value) / length) for value in original], rel=1e-9, abs=1e-150)


def _length(row: list[float]) -> Fraction:
    """Exact to twenty digits or so, whatever the size."""
    largest = max(abs(Fraction(value)) for value in row)
    squares = sum((Fraction(value) / largest) ** 2 for value in row)
    return largest * Fraction(math.isqrt(int(squares * 10**40))) / 10**20


@pytest.mark.parametrize("size", [5e-324, 1e-308, 1e-160, 1e-141, 1.0, 1e139, 1e141, 1e200, 1.7e308])
def test_size_does_not_matter(size: float) -> None:
    assert scaled(batch([[size, -size]]), "l2").values == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)], rel=1e-15)
    assert scaled(batch([[size]]), "l2").values.tolist() == [1.0]


def test_a_huge_value_beside_a_tiny_one() -> None:
    assert scaled(batch([[1e300, 1e-300]]), "l2").values.tolist() == [1.0, 0.0]


def test_none_is_the_batch_itself() -> None:
    given = batch([[3.0, 4.0]])
    assert scaled(given, "none") is given


def test_a_row_is_scaled_by_itself() -> None:
    assert scaled(batch([[3.0, 4.0], [], [0.0], [5.0]]), "l2").values.tolist() == [0.6, 0.8, 0.0, 1.0]
