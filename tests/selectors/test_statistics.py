"""The compiled statistics, each against scipy or plain counting."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sluiceway.operators.kernels.columns.contingency import entropy_terms, information, pair_content
from sluiceway.operators.kernels.numbers.tails import chi_square_tail, correlation_tail


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 97, 1000])
@pytest.mark.parametrize("times", [1e-3, 0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 10.0])
def test_the_tail_of_chi_square(freedom: int, times: float) -> None:
    statistic = times * freedom
    assert chi_square_tail(statistic, freedom) == pytest.approx(stats.chi2.sf(statistic, freedom), rel=1e-10, abs=1e-13)


@pytest.mark.parametrize("freedom", [1, 2, 5, 50, 998])
@pytest.mark.parametrize("r", [1e-6, 0.01, 0.1, 0.3, 0.7, 0.99, 1 - 1e-9])
def test_the_tail_of_a_correlation(freedom: int, r: float) -> None:
    t = r * np.sqrt(freedom / ((1 - r) * (1 + r)))
    assert correlation_tail(r * r, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-8)


def test_columns_that_share_nothing_share_nothing() -> None:
    """Every pair of values equally often: what the rounding of T leaves is not taken for information."""
    rounding = 0
    for levels in (2, 3, 5, 7):
        for each in (1, 3, 5, 11, 17):
            rows = levels * levels * each
            terms = entropy_terms(rows)
            a = np.repeat(np.arange(levels, dtype=np.int32), levels * each)
            b = np.tile(np.arange(levels, dtype=np.int32), levels * each)
            pair, cells = pair_content(a, levels, b, levels, terms, np.empty(rows, dtype=np.int32))
            one = levels * terms[levels * each]
            rounding += int(terms[rows] - one - one + pair) > 0
            assert cells == levels * levels
            assert information(terms[rows], one, one, pair, cells) == 0
    assert rounding > 0
