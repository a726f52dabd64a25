"""What stands beside our own cells in the ETANA tables: the authors' programs by rule, and three nearest neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers import etana_program
from benchmarks.papers.etana import Cell, Pair, Run, _cell, _trees
from benchmarks.papers.etana_comparators import nearest

Y = np.arange(100) % 2


def test_both_programs_look_once_where_that_tells_all() -> None:
    X = np.column_stack((Y, np.zeros(100), np.arange(100) // 2 % 2)).astype(float)
    model = etana_program.Model.of(X, Y)
    assert etana_program.p1(model, X, Y) == (1.0, 1.0)
    assert etana_program.p2(model, X, Y) == (1.0, 1.0)


def test_the_first_program_looks_before_it_asks_whether_to() -> None:
    X = np.column_stack([np.arange(100) // 2 % 2] * 3).astype(float)
    model = etana_program.Model.of(X, Y)
    assert etana_program.p1(model, X, Y).features == 1
    assert etana_program.p2(model, X, Y).features == 0


def test_what_f_etana_draws_follows_from_its_seed() -> None:
    X = np.column_stack((Y, np.arange(100) // 2 % 2)).astype(float)
    model = etana_program.Model.of(X, Y)
    found = [etana_program.drawn(model, X, Y, X, Y, seed) for seed in (1, 1, 2)]
    assert found[0] == found[1]
    assert all(0 <= accuracy <= 1 <= features <= 2 for accuracy, features in found)


def test_of_equal_distances_the_lower_row_is_nearer() -> None:
    X = np.array([[1.0], [-1.0], [1.0], [-1.0], [9.0]])
    assert nearest(X, np.array([1, 1, -1, -1, -1], dtype=np.int8), np.zeros((1, 1))).tolist() == [1]
    assert nearest(X[::-1], np.array([-1, -1, -1, 1, 1], dtype=np.int8), np.zeros((1, 1))).tolist() == [-1]


@pytest.mark.parametrize(
    ("exact", "ours", "agrees"),
    [
        (True, Pair(0.61, 3.0), True),
        (True, Pair(0.62, 3.0), False),
        (True, Pair(0.60, 3.4), False),
        (False, Pair(0.62, 4.0), True),
        (False, Pair(0.621, 3.0), False),
        (False, Pair(0.60, 4.1), False),
    ],
)
def test_a_row_apart_is_agreement_and_two_hundredths_where_chance_is_in_it(
    exact: bool, ours: Pair, agrees: bool
) -> None:
    assert _cell("data", Run("etana", {}, Pair(0.60, 3.0), exact=exact), ours, 100).agrees is agrees
    assert _cell("data", Run("etana", {}), ours, 100).agrees is None


def test_the_note_says_where_a_tree_is_less_accurate() -> None:
    def cell(data: str, method: str, accuracy: float) -> Cell:
        return Cell(data, method, None, None, accuracy, 1.0, None)

    cells = [cell(d, m, a) for d, m, a in (
        ("one", "f-etana, V = 2", 0.5), ("one", "f-etana, tree, V = 2", 0.6),
        ("two", "f-etana, V = 2", 0.5), ("two", "f-etana, tree, V = 2", 0.4),
    )]  # fmt: skip
    assert _trees(cells).endswith("on 1 of 2: less accurate on two (-0.1000)")
    assert _trees(cells[:2]).endswith("on 1 of 1: on every one")
