"""Every selector against its oracle, column by column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits

from . import oracles
from .cases import Oracle, each, make, names_of
from .streams import SHAPES, stream

ORACLES: dict[str, Oracle] = {
    "saola": oracles.saola,
    "saola-order-free": oracles.order_free,
    "osfs": oracles.osfs,
    "fast-osfs": oracles.fast_osfs,
    "alpha-investing": oracles.alpha_investing,
    "fcbf": oracles.fcbf,
    "ofs-a3m": oracles.ofs_a3m,
    "ofs-density": oracles.ofs_density,
}
SEEDS = st.integers(0, 2**32 - 1)


def expected(name: str, variant: dict[str, Any], target: Any, columns: Any) -> set[str]:
    return {str(i) for i in ORACLES[name](target, columns, **variant)}


@each()
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "extreme"])
@given(seed=SEEDS)
@settings(max_examples=3, deadline=None, derandomize=True)
def test_the_selection_is_the_oracle_s(name: str, variant: dict[str, Any], shape: str, seed: int) -> None:
    target, names, columns = stream(shape, seed, count=20)
    model = make(name, variant)
    model.begin(target)
    model.learn_features(names, columns)
    assert set(names_of(model)) == expected(name, variant, target, columns)


@each()
def test_so_it_is_after_every_single_column(name: str, variant: dict[str, Any]) -> None:
    target, names, columns = stream("levels", 7, count=16)
    model = make(name, variant)
    model.begin(target)
    before: set[str] = set()
    for at, (column_name, column) in enumerate(zip(names, columns, strict=True), start=1):
        verdict = model.learn_feature(column_name, column)
        now = set(names_of(model))
        assert now == expected(name, variant, target, columns[:at])
        gone = {removed.feature for removed in verdict.removed}
        assert now == (before - gone) | ({column_name} if verdict.kept else set()) | set(verdict.returned)
        assert gone <= before
        assert verdict.kept == (column_name in now)
        before = now


@pytest.mark.parametrize("name", ["saola", "saola-order-free", "fast-osfs", "osfs", "alpha-investing"])
def test_on_the_breast_cancer_data(name: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    columns = list(np.asarray(X, dtype=float).T)
    model = make(name, {})
    model.begin(y)
    model.learn_features([*map(str, range(len(columns)))], columns)
    assert set(names_of(model)) == expected(name, {}, np.asarray(y, dtype=float), columns)
    assert 1 <= len(model.selected) < len(columns)


@pytest.mark.parametrize("name", ["saola", "saola-order-free", "fcbf"])
def test_on_the_digits(name: str) -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[::4], y[::4]
    columns = list(np.asarray(X, dtype=float).T)
    variant = {} if name == "fcbf" else {"measure": "symmetric-uncertainty"}
    model = make(name, variant)
    model.begin(y)
    model.learn_features([*map(str, range(len(columns)))], columns)
    assert set(names_of(model)) == expected(name, variant, np.asarray(y, dtype=float), columns)
    assert len(model.selected) > 2


@pytest.mark.parametrize("measure", oracles.MEASURES)
@pytest.mark.parametrize("shape", ["continuous", "binary", "levels", "copies"])
def test_relevance_is_the_measure(measure: str, shape: str) -> None:
    target, names, columns = stream(shape, 3)
    model = make("saola-order-free", {"measure": measure, "significance": 0.5})
    model.begin(target)
    for name, column in zip(names, columns, strict=True):
        model.learn_feature(name, column)
    assert model.selected
    for feature, weight, _ in model.selected:
        assert weight == pytest.approx(oracles.MEASURES[measure](columns[int(feature)], target), abs=1e-9)
