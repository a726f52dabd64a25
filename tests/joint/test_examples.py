"""The joint operators by hand, and against a plain program on dense tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sluiceway.operators.joint.etana import Etana
from sluiceway.operators.joint.f_etana import FEtana

from .cases import OPERATORS
from .oracles import Plain
from .streams import dense

X_BY_HAND = [[1, 5], [1, 6], [1, 5], [0, 6], [0, 5], [0, 6], [0, 5], [1, 6]]
Y_BY_HAND = [1, 1, 1, 1, -1, -1, -1, -1]


def by_hand(cls: Any, **params: Any) -> Any:
    """x0 says right six of eight times, x1 nothing; bins of two, cut at the median, four rows of each class."""
    model = cls(**{"bins": 2, "warm_up": 8, "cost": 0.1, **params})
    for x, y in zip(X_BY_HAND, Y_BY_HAND, strict=True):
        model.learn_one({"a": x[0], "b": x[1]}, y)
    return model


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=OPERATORS)
def test_a_look_by_hand(cls: Any) -> None:
    """P(above | class): 4/6 and 2/6; prior 5/10. After the look the posterior is 2/3: it saves 1/6 for .1."""
    model = by_hand(cls)
    assert model.cuts == {"a": [0.5], "b": [5.5]}
    assert model.order == ("a", "b")
    decision = model.classify_one({"a": 1, "b": 5})
    assert decision.label == 1
    assert decision.posterior == pytest.approx((1 / 3, 2 / 3))
    assert decision.features_used == ("a",)
    assert decision.cost == pytest.approx(0.1)
    assert model.classify_one({"a": 0}).label == -1
    assert model.classify_one({"a": None}).posterior == (0.5, 0.5)
    assert by_hand(cls, cost=0.2).classify_one({"a": 1, "b": 5}) == (-1, (0.5, 0.5), (), 0.0)


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=OPERATORS)
def test_what_a_mistake_costs_decides(cls: Any) -> None:
    """To take -1 for +1 costs 9 times as much as the other way round: at 1/3 for +1 it is still +1."""
    model = by_hand(cls, misclassification=[[0, 1], [9, 0]], cost=1.0)
    assert model.classify_one({"a": 0}).label == 1
    assert model.classify_one({"a": 0}).features_used == ()
    with pytest.raises(ValueError, match=r"label 2: misclassification is for the classes \(-1, 1\)"):
        model.learn_one({"a": 1}, 2)


def test_the_cheaper_of_two_equal_features_comes_first() -> None:
    rng = np.random.default_rng(1)
    y = rng.choice([-1, 1], 200)
    x = y + rng.normal(size=200)
    for cls in OPERATORS.values():
        model = cls(cost={"0": 0.02, "1": 0.01}, warm_up=200)
        model.learn_many(dense(np.column_stack((x, x)), y))
        assert model.order == ("1", "0")


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_beliefs_and_order_are_those_of_a_plain_program(cls: Any, classes: int) -> None:
    rng = np.random.default_rng(classes)
    labels = np.array([-1, 1]) if classes == 2 else np.arange(1, classes + 1)
    told = rng.normal(size=(classes, 12)) * rng.choice([0.2, 1.0], 12)
    place = rng.integers(classes, size=400)
    X = rng.normal(size=(400, 12)) + told[place]
    X[:, 3] = np.where(rng.random(400) < 0.8, 0, X[:, 3])
    X[:, 5] = 7.0
    cost = rng.uniform(0.002, 0.02, 12)
    model = cls(bins=4, warm_up=300, cost={str(f): c for f, c in enumerate(cost.tolist())})
    model.learn_many(dense(X[:300], labels[place[:300]]))
    plain = Plain.of(X[:300], labels[place[:300]].tolist(), 4, cost)
    np.testing.assert_allclose([model.cuts[str(f)] for f in range(12)], plain.cuts, rtol=1e-12)
    assert [int(f) for f in model.order] == plain.order
    X[350:, ::3] = np.nan
    looks = 0
    for row, decision in zip(X[300:], model.classify(dense(X[300:], np.zeros(100))), strict=True):
        pi = plain.posterior(row, [int(f) for f in decision.features_used])
        np.testing.assert_allclose(decision.posterior, pi, rtol=1e-9)
        assert decision.label == labels[int(np.argmax(np.round(pi, 12)))]
        looks += len(decision.features_used)
    assert 100 < looks < 1200


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=OPERATORS)
def test_a_single_class_is_decided_at_once(cls: Any) -> None:
    model = cls(warm_up=20)
    model.learn_many(dense(np.random.default_rng(1).normal(size=(20, 3)), np.full(20, 3)))
    assert model.classify_one({"0": 1.0}) == (3, (1.0,), (), 0.0)


def test_the_same_class_may_have_any_label() -> None:
    rng = np.random.default_rng(2)
    place = rng.integers(3, size=300)
    X = rng.normal(size=(300, 4)) + 2 * place[:, None]
    one, other = Etana(warm_up=200), Etana(warm_up=200)
    ours = one.prequential(dense(X, place + 1))
    theirs = other.prequential(dense(X, np.array([5, 17, 127])[place]))
    np.testing.assert_array_equal(np.array([0, 5, 17, 127])[ours.label], theirs.label)


def test_a_class_that_comes_later_joins_at_the_next_policy() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2)) * 0.1
    y = np.where(np.arange(300) < 120, rng.choice([2, 3], 300), rng.choice([1, 2, 3], 300))
    X[np.arange(300), np.minimum(y - 1, 1)] += y
    model = Etana(warm_up=100, refit_every=100)
    decisions = model.prequential(dense(X, y))
    assert {len(decision.posterior) for decision in decisions[100:200]} == {2}
    assert {len(decision.posterior) for decision in decisions[200:]} == {3}
    assert model.classes == (1, 2, 3)
    assert (decisions.label[200:] == y[200:]).mean() > 0.8


@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_a_name_that_comes_after_the_warm_up_gets_cuts_of_its_own(absent: str) -> None:
    rng = np.random.default_rng(4)
    y = rng.choice([-1, 1], 400)
    noise, told = rng.normal(size=400), y * 3 + rng.normal(size=400) + 100
    model = Etana(warm_up=100, refit_every=100, absent=absent, bins=2)
    for row in range(400):
        x = {"noise": noise[row]} | ({"told": told[row]} if row >= 170 else {})
        model.learn_one(x, int(y[row]))
        if row == 199:
            assert "told" not in model.cuts, "30 rows are too few"
    assert model.cuts["told"] == pytest.approx([np.quantile(told[170:300], 0.5)])
    assert model.order[0] == "told"
    late = Etana.from_state(model.state())
    assert late.order == model.order


def test_absent_is_zero_or_not_known() -> None:
    """Features a and b come with class +1 alone, as 1: absence tells as much as presence where it is 0."""
    records = [({"a": 1.0, "c": 1.0}, 1), ({"c": 2.0}, -1)] * 50
    for absent, label in (("zero", -1), ("missing", -1)):
        model = Etana(warm_up=100, absent=absent, bins=2)
        for x, y in records:
            model.learn_one(x, y)
        posterior = model.classify_one({}).posterior
        if absent == "zero":
            assert posterior[0] > 0.95
        else:
            assert posterior == (0.5, 0.5)
        assert model.classify_one({}).label == label


def test_a_null_tells_nothing_of_its_class() -> None:
    """Nulls are not counted as zeros: P(bin of 0 | class) comes from the rows that have a value."""
    model = Etana(warm_up=40, bins=2, cost=0.001, binning={"a": [0.5]})
    for i in range(40):
        model.learn_one({"a": None if i % 4 < 2 else float(i % 4 == 3)}, 1 if i % 2 else -1)
    # +1: ten of ten known rows are 1; -1: none of ten
    assert model.classify_one({"a": 1.0}).posterior == pytest.approx((1 / 12, 11 / 12))


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("budget", [1.5, 4.0])
def test_a_budget_sets_the_cost(cls: Any, budget: float) -> None:
    rng = np.random.default_rng(5)
    y = rng.choice([-1, 1], 6000)
    X = rng.normal(size=(6000, 12)) + 0.35 * y[:, None]
    model = cls(budget=budget, warm_up=300, refit_every=300)
    decisions = model.prequential(dense(X, y))
    assert decisions.used[3000:].mean() == pytest.approx(budget, rel=0.15)
    assert model.metrics()["cost_scale"] != 1.0


def test_a_tree_sees_what_one_feature_alone_does_not_tell() -> None:
    """The class is whether a and b agree: alone neither tells anything."""
    rng = np.random.default_rng(6)
    a, b = rng.choice([0.0, 1.0], (2, 2000))
    y = np.where((a == b) ^ (rng.random(2000) < 0.05), 1, -1)
    X = np.column_stack((a + 0.3 * (rng.random(2000) < 0.01), b, rng.normal(size=2000)))
    params: dict[str, Any] = {"warm_up": 1000, "bins": 2, "binning": {"0": [0.5], "1": [0.5]}}
    found = {}
    for dependence in ("none", "tree"):
        model = FEtana(dependence=dependence, **params)
        decisions = model.prequential(dense(X, y))
        found[dependence] = (decisions.label[1000:] == y[1000:]).mean()
    assert found["none"] < 0.6
    assert found["tree"] > 0.9


def test_refit_ends_the_warm_up_and_shows_what_was_learnt() -> None:
    for cls in OPERATORS.values():
        model = cls()
        with pytest.raises(ValueError, match="nothing has been learnt yet"):
            model.refit()
        rng = np.random.default_rng(7)
        y = rng.choice([-1, 1], 100)
        model.learn_many(dense(rng.normal(size=(100, 3)) + y[:, None], y))
        assert model.classify_one({"0": 5.0, "1": 5.0, "2": 5.0}).label == 0
        model.refit()
        assert model.classify_one({"0": 5.0, "1": 5.0, "2": 5.0}).label == 1


@pytest.mark.parametrize("cls", [Etana, FEtana])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_no_more_is_wanted_than_can_be_looked_at(cls: Any, classes: int) -> None:
    """Of twenty features that tell nothing and one that tells all, that one; the others cost more than they save."""
    rng = np.random.default_rng(0)
    place = rng.integers(classes, size=600)
    X = rng.normal(size=(600, 21))
    X[:, 4] = 10 * place + rng.normal(size=600)
    model = cls(cost=0.03, bins=classes, warm_up=600, absent="missing")
    model.learn_many(dense(X, place * 2 - 1 if classes == 2 else place + 1))
    assert len(model.order) > 10
    assert model.reachable == ("4",)
    assert model.wanted_features() == ["4"]


def test_where_values_lack_what_may_be_looked_at_instead_is_wanted_too() -> None:
    rng = np.random.default_rng(1)
    y = rng.choice([-1, 1], 600)
    X = 5 * y[:, None] + rng.normal(size=(600, 3))
    model = Etana(bins=2, cost=0.05, warm_up=200, refit_every=200, absent="missing")
    model.learn_many(dense(X[:400], y[:400]))
    [first] = model.reachable
    X[400:500, int(first)] = np.nan
    model.learn_many(dense(X[400:], y[400:]))
    assert model.reachable[0] == first
    assert len(model.reachable) > 1
    assert type(model).from_state(model.state()).reachable == model.reachable


def test_a_tree_does_not_look_at_names_that_come_after_the_warm_up() -> None:
    """They are counted; without a tree they are looked at from the next policy on."""
    rng = np.random.default_rng(4)
    y = rng.choice([-1, 1], 400)
    for dependence, uses in (("tree", False), ("none", True)):
        model = FEtana(warm_up=100, refit_every=100, bins=2, dependence=dependence)
        for row in range(400):
            x = {"noise": rng.normal()} | ({"told": float(y[row])} if row >= 150 else {})
            model.learn_one(x, int(y[row]))
        assert "told" in model.cuts
        assert ("told" in model.order) == uses
