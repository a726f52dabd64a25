"""The batch comparators: against another library, a game with a known value, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from benchmarks.comparators.game import by_game, strategy
from benchmarks.comparators.information import by_information_gain, information_gain, levels, pair_gain
from benchmarks.comparators.mrmr import by_mrmr


def made() -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """Column 2 is the class with errors, 5 a copy of it, 0 the class with more errors of its own."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 400)
    X = rng.integers(0, 3, (400, 6))
    X[:, 2] = np.where(rng.random(400) < 0.9, y, 1 - y)
    X[:, 5] = X[:, 2]
    X[:, 0] = np.where(rng.random(400) < 0.8, y, 1 - y)
    return X, y


def test_information_gain_is_mutual_information_in_bits() -> None:
    X, y = made()
    expected = [mutual_info_score(column, y) / np.log(2) for column in X.T]
    assert information_gain(X, y) == pytest.approx(expected)
    assert by_information_gain(X, y, 2) == [2, 5]
    assert levels(np.array([[0.0], [0.49], [0.5], [1.0]])).ravel().tolist() == [0, 0, 1, 1]
    assert levels(np.full((4, 1), 7.0)).ravel().tolist() == [0, 0, 0, 0]


def test_pair_gain_is_that_of_the_pair_as_one_feature() -> None:
    X, y = made()
    pairs = pair_gain(X, y)
    for i, j in ((0, 1), (2, 5), (3, 3)):
        assert pairs[i, j] == pytest.approx(mutual_info_score(X[:, i] * 3 + X[:, j], y) / np.log(2))
    assert np.diag(pairs) == pytest.approx(information_gain(X, y))


def test_the_game_has_its_known_value() -> None:
    # k = 1 is an ordinary matrix game: matching pennies shifted by 1 has value 1 and equal parts.
    u, value = strategy(np.array([[2.0, 0.0], [0.0, 2.0]]), 1)
    assert value == pytest.approx(1.0)
    assert u == pytest.approx([0.5, 0.5])
    # all of two features: the sum of all payoffs
    _, value = strategy(np.array([[1.0, 2.0], [3.0, 4.0]]), 2)
    assert value == pytest.approx(10.0)
    X, y = made()
    assert set(by_game(X, y, 3)) == {0, 2, 5}


def test_mrmr_leaves_out_the_copy() -> None:
    X, y = made()
    assert by_mrmr(X, y, 1) == [2]
    assert by_mrmr(X, y, 2) == [2, 0]
    assert 5 in by_mrmr(X, y, 6)
