"""The River adapter: River's own checks, on labels of two classes, and that it is the operator underneath."""

from __future__ import annotations

import copy
import doctest
import functools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from river import base, checks, datasets, linear_model, preprocessing

import sluiceway.river
from sluiceway.errors import SettingsError
from sluiceway.operators import registry
from sluiceway.river import Selector

OPERATORS = [name for name, entry in registry.OPERATORS.items() if hasattr(entry.cls, "learn_one")]
LEARNERS = {name: Selector(name) for name in OPERATORS}


def of_two_classes(selector: Selector) -> Iterator[Any]:
    """River's checks; those that feed targets of a regression to all transformers get labels instead."""
    for check in checks.yield_checks(selector):
        if check.__name__ in selector._unit_test_skips():
            assert isinstance(check, functools.partial)
            check = functools.partial(check.func, dataset=list(datasets.Phishing().take(100)))
            functools.update_wrapper(check, check.func)
        yield pytest.param(selector.operator, check, id=f"{selector.operator}-{check.__name__}")


@pytest.mark.parametrize(
    ("operator", "check"), [each for name in ("ofs", "stsd", "saola-stream") for each in of_two_classes(LEARNERS[name])]
)
def test_the_checks_of_river(operator: str, check: Callable[[Selector], None]) -> None:
    check(LEARNERS[operator].clone())


@pytest.mark.parametrize("operator", OPERATORS)
def test_check_estimator_passes(operator: str) -> None:
    checks.check_estimator(LEARNERS[operator])
    assert isinstance(LEARNERS[operator], base.SupervisedTransformer)


def test_it_passes_what_the_operator_selects() -> None:
    selector, model = Selector("ofs", k=3), sluiceway.OFS(k=3)
    x: dict[Any, Any] = {}
    for x, y in datasets.Phishing().take(200):
        passed = {one.feature for one in model.selected} if model.version else x.keys()
        assert selector.transform_one(x).keys() == passed
        selector.learn_one(x, y)
        model.learn_one(x, y)
    assert selector.model.state() == model.state()
    restored, copied = pickle.loads(pickle.dumps(selector)), copy.deepcopy(selector)
    for one in (restored, copied):
        assert one.transform_one(x) == selector.transform_one(x)
        one.learn_one(x, True)
    assert restored.model.state() == copied.model.state() != selector.model.state()


def test_names_need_not_be_texts_and_values_may_be_booleans() -> None:
    selector = Selector("ofs", k=1)
    assert selector.transform_one({0: True, 1: 0.5}) == {0: True, 1: 0.5}
    selector.learn_one({0: True, 1: 0.5}, True)
    assert selector.transform_one({0: False, 1: 0.5, "b": 3.0}) == {0: False}


def test_mistakes() -> None:
    with pytest.raises(SettingsError, match=r'"saola" does not learn this way; those that do: ofs, .*saola-stream'):
        Selector("saola")
    with pytest.raises(SettingsError, match='did you mean "ofs"'):
        Selector("off")
    with pytest.raises(ValueError, match=r"label 43\.75 is not -1 or \+1, False or True"):
        Selector().learn_one({"a": 1.0}, 43.75)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="feature 'city' is 'Paris', not a number"):
        Selector().learn_one({"city": "Paris"}, True)


def test_in_a_pipeline() -> None:
    model = preprocessing.StandardScaler() | Selector("ofs", k=4) | linear_model.LogisticRegression()
    for x, y in datasets.Phishing().take(200):
        model.learn_one(x, y)
    assert len(model["Selector"].model.selected) == 4
    assert repr(model["Selector"].clone()) == repr(model["Selector"])


def test_the_examples_hold() -> None:
    assert doctest.testmod(sluiceway.river).failed == 0
