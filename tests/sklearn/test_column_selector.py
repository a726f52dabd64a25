"""Column selectors under scikit-learn: its own checks, and that it is the selector underneath."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import sluiceway
from sluiceway.errors import SettingsError
from sluiceway.operators import registry
from sluiceway.sklearn import ColumnSelector, OnlineSelector

SELECTORS = [name for name, entry in registry.OPERATORS.items() if hasattr(entry.cls, "learn_features")]


@pytest.mark.filterwarnings("ignore:No features were selected")
@parametrize_with_checks([ColumnSelector("saola"), ColumnSelector("fcbf")])  # type: ignore[untyped-decorator]
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("name", SELECTORS)
def test_it_selects_what_the_selector_selects(name: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    if name == "fcbf":
        X = X.mean(axis=0) < X
    model = registry.get(name).cls()
    model.begin(y)
    verdicts = [model.learn_feature(str(at), column) for at, column in enumerate(X.T)]
    for given in (X, csr_array(X.astype(float)), pd.DataFrame(X)):
        selector = ColumnSelector(name).fit(given, y)
        assert selector.verdicts_ == verdicts
        assert selector.selector_.state() == model.state()
        kept = sorted(int(one.feature) for one in model.selected)
        assert selector.get_support(indices=True).tolist() == kept
        assert 0 < len(kept) < X.shape[1]


def test_classes_and_numbers() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"the target has 3 classes \(0, 1, 2\), but saola as it is set measures"):
        ColumnSelector("saola").fit(X, y)
    discrete = ColumnSelector("saola", measure="symmetric-uncertainty")
    by_number = discrete.fit(X.round(), y).get_support()
    np.testing.assert_array_equal(discrete.fit(X.round(), load_iris().target_names[y]).get_support(), by_number)
    assert by_number.any()
    X, y = load_diabetes(return_X_y=True)
    assert ColumnSelector("saola").fit(X, y).get_support().any()


def test_texts_and_booleans_are_classes() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    expected = ColumnSelector().fit(X, y).get_support()
    for labels in (y == 1, np.array(["benign", "malignant"])[1 - y]):
        np.testing.assert_array_equal(ColumnSelector().fit(X, labels).get_support(), expected)


def test_cloned_set_pickled_and_in_a_pipeline() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    selector = ColumnSelector("saola", significance=0.05).fit(X, y)
    assert clone(selector).get_params() == {"operator": "saola", "significance": 0.05}
    restored = pickle.loads(pickle.dumps(selector))
    assert restored.selector_.state() == selector.selector_.state()
    np.testing.assert_array_equal(restored.transform(X), selector.transform(X))
    with pytest.raises(ValueError, match="Invalid parameter 'k' for operator 'fcbf'"):
        selector.set_params(operator="fcbf", k=3)
    pipeline = make_pipeline(StandardScaler(), ColumnSelector("saola"), LogisticRegression()).fit(X, y)
    assert pipeline.score(X, y) > 0.8


def test_a_fit_that_fails_changes_nothing() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    selector = ColumnSelector().fit(X, y)
    support = selector.get_support()
    with pytest.raises(ValueError, match="classes"):
        selector.fit(X[:, :5], np.arange(len(X)) % 3)
    np.testing.assert_array_equal(selector.get_support(), support)


def test_the_wrong_kind_is_told() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(SettingsError, match=r'"ofs" does not learn this way; those that do: saola, '):
        ColumnSelector("ofs").fit(X, y)
    with pytest.raises(SettingsError, match=r'"saola" does not learn this way; those that do: ofs, '):
        OnlineSelector("saola").fit(X, y)
    assert not hasattr(sluiceway.Saola, "learn_one")
