"""The scikit-learn adapter: its own checks, and that it is the learner underneath."""

from __future__ import annotations

import doctest
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import parametrize_with_checks

import sluiceway.sklearn
from sluiceway.errors import SettingsError
from sluiceway.operators import registry
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.operators.learners.pa_l1 import PAL1
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.sklearn import OnlineSelector

LEARNERS = [name for name, entry in registry.OPERATORS.items() if entry.kind is LEARNER]


@parametrize_with_checks([OnlineSelector(name) for name in LEARNERS])  # type: ignore[untyped-decorator]
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def cancer() -> tuple[Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return X / X.max(axis=0), y


def test_it_selects_what_the_learner_selects_however_rows_come() -> None:
    X, y = cancer()
    model = PAL1(keep=0.9, beta=20.0)
    model.learn_many(InstanceBatch.from_arrays(X, np.where(y == 1, 1, -1)))
    expected = sorted(int(selected.feature) for selected in model.selected)
    whole = OnlineSelector("pa-l1", keep=0.9, beta=20.0).fit(X, y)
    pieces = OnlineSelector("pa-l1", keep=0.9, beta=20.0)
    for start in range(0, len(X), 100):
        pieces.partial_fit(X[start : start + 100], y[start : start + 100], classes=[0, 1])
    sparse = OnlineSelector("pa-l1", keep=0.9, beta=20.0).fit(csr_array(X), y)
    for selector in (whole, pieces, sparse):
        assert selector.get_support(indices=True).tolist() == expected
        assert selector.learner_.state() == model.state()
    names = load_breast_cancer().feature_names
    assert whole.get_feature_names_out(names).tolist() == [names[i] for i in expected]
    assert whole.transform(X).shape == (len(X), len(expected))


def test_pickled_it_goes_on_as_if_it_had_not_been() -> None:
    X, y = cancer()
    selector = OnlineSelector("fobos", lam=0.01).partial_fit(X[:300], y[:300])
    restored = pickle.loads(pickle.dumps(selector))
    for one in (selector, restored):
        one.partial_fit(X[300:], y[300:])
    assert restored.learner_.state() == selector.learner_.state()


def test_parameters_are_those_of_the_operator() -> None:
    selector = OnlineSelector("ofs", k=4, eta=0.3)
    assert clone(selector).get_params() == {"operator": "ofs", "k": 4, "eta": 0.3}
    selector.set_params(operator="pa", k=2)
    X, y = cancer()
    with pytest.raises(TypeError, match="eta"):
        selector.fit(X, y)
    with pytest.raises(SettingsError, match='did you mean "norma"'):
        OnlineSelector("nroma").fit(X, y)


def test_labels_are_binary_and_known() -> None:
    X, _ = cancer()
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        OnlineSelector().fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="one class"):
        OnlineSelector().partial_fit(X[:5], [1] * 5)
    selector = OnlineSelector().partial_fit(X[:5], ["b"] * 5, classes=["a", "b"])
    with pytest.raises(ValueError, match="label 'c' is not one of the classes"):
        selector.partial_fit(X[:1], ["c"])
    assert (selector.scores(X[:5]) > 0).all()
    repeated = csr_array((np.ones(3), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, X.shape[1]))
    selector.partial_fit(repeated, ["a"])
    assert repeated.nnz == 3, "the caller's matrix is as it was"


@pytest.mark.parametrize("name", LEARNERS)
def test_scores_are_the_learner_s_and_teach_it_nothing(name: str) -> None:
    X, y = cancer()
    selector = OnlineSelector(name, **({} if name == "stsd" else {"k": 2})).fit(X, y)
    before = selector.learner_.state()
    expected = [selector.learner_.score_one({str(i): value for i, value in enumerate(row)}) for row in X.tolist()]
    np.testing.assert_allclose(selector.scores(X), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(selector.scores(csr_array(X)), expected, rtol=1e-12, atol=1e-12)
    assert selector.learner_.state() == before


def test_a_call_that_fails_changes_nothing() -> None:
    X, y = cancer()
    selector = OnlineSelector("ofs", k=3).fit(X, y)
    support = selector.get_support()
    with pytest.raises(ValueError, match="one class"):
        selector.fit(X[:, :5], np.ones(len(X)))
    np.testing.assert_array_equal(selector.get_support(), support)
    new = OnlineSelector("ofs", k=3)
    with pytest.raises(ValueError, match="one class"):
        new.partial_fit(X[:5], [1] * 5)
    assert not hasattr(new, "n_features_in_")


def test_another_operator_is_for_the_next_fit() -> None:
    X, y = cancer()
    selector = OnlineSelector("ofs", k=3).fit(X, y).set_params(operator="pa")
    restored = pickle.loads(pickle.dumps(selector))
    assert restored.learner_.state() == selector.learner_.state()
    assert restored.fit(X, y).learner_.state()["operator"] == "pa"
    with pytest.raises(ValueError, match="Invalid parameter 'kk' for operator 'pa'"):
        selector.set_params(kk=3)
    assert selector.get_params() == {"operator": "pa", "k": 3}


def test_in_a_pipeline_and_a_grid() -> None:
    X, y = cancer()
    pipeline = make_pipeline(Normalizer(), OnlineSelector("ofs"), LogisticRegression(C=100.0))
    search = GridSearchCV(pipeline, {"onlineselector__k": [1, 10], "onlineselector__eta": [0.2]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.7
    assert search.best_estimator_[1].get_support().sum() <= 10


def test_the_examples_hold() -> None:
    assert doctest.testmod(sluiceway.sklearn).failed == 0
