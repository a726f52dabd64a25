"""OFS and the truncated perceptron by hand: small examples, the paper's invariants, the ends of the range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.operators.contract import Selected
from sluiceway.operators.learners.ofs import OFS
from sluiceway.operators.learners.perceptron_random import PerceptronRandom
from sluiceway.operators.learners.perceptron_truncated import PerceptronTruncated
from sluiceway.schemas.batch import InstanceBatch


def weights(model: Any) -> dict[str, float]:
    return {feature: weight for feature, weight, _ in model.selected}


def test_three_instances_by_hand() -> None:
    model = OFS(k=2, eta=0.5, lam=1.0)  # the ball has radius 1
    model.learn_one({"a": 1.0, "b": 0.5, "c": 0.25}, 1)
    # f = 0; w = (.5, .25, .125), inside the ball; c is cut.
    assert model.selected == [Selected("a", 0.5, 1), Selected("b", 0.25, 1)]
    assert model.score_one({"a": 1.0, "b": 2.0, "c": 4.0}) == 1.0
    model.learn_one({"c": 4.0, "b": -1.0}, 1)
    # f = -.25; w = (.5, -.25, 2), length sqrt(4.3125) > 1, shrunk; b is cut.
    length = np.sqrt(0.25 + 0.0625 + 4.0)
    assert weights(model) == pytest.approx({"c": 2 / length, "a": 0.5 / length})
    assert [selected.since for selected in model.selected] == [2, 1]
    model.learn_one({"c": 2.0}, 1)
    # f = 4 / length = 1.926 > 1: nothing to learn, but an instance more.
    assert weights(model) == pytest.approx({"c": 2 / length, "a": 0.5 / length})
    assert model.version == 3


def test_truncated_perceptron_by_hand() -> None:
    model = PerceptronTruncated(k=1)
    model.learn_one({"a": 1.0, "b": 3.0}, 1)
    assert model.selected == [Selected("b", 3.0, 1)]
    model.learn_one({"a": 1.0, "b": 0.5}, 1)  # f = 1.5: right
    model.learn_one({"a": 5.0, "b": 1.0}, -1)  # f = 3: wrong; w = (-5, 2)
    assert model.selected == [Selected("a", -5.0, 3)]
    assert model.predict_one({"a": -1.0}) == 1
    assert model.predict_one({"b": 1.0}) == -1, "a score of 0 is not above 0"


def test_a_score_of_0_is_a_mistake_and_a_margin_of_1_is_not_enough() -> None:
    perceptron = PerceptronTruncated(k=2)
    perceptron.learn_one({"a": 1.0}, 1)
    perceptron.learn_one({"b": 1.0}, 1)  # f = 0
    assert weights(perceptron) == {"a": 1.0, "b": 1.0}
    model = OFS(k=2, eta=1.0)
    model.learn_one({"a": 1.0}, 1)
    model.learn_one({"a": 1.0}, 1)  # y f = 1 exactly: still a step
    assert weights(model) == {"a": 2.0}
    model.learn_one({"a": 1.0}, 1)  # y f = 2
    assert weights(model) == {"a": 2.0}


def test_projection_comes_before_truncation() -> None:
    model = OFS(k=1, eta=1.0, lam=1.0)
    model.learn_one({"a": 3.0, "b": 4.0}, 1)  # length 5: w = (.6, .8), then a is cut; the other way round w_b = 1
    assert weights(model) == pytest.approx({"b": 0.8})


def test_decay_shrinks_with_and_without_a_step() -> None:
    model = OFS(k=2, eta=0.5, lam=0.5, decay=True)  # 1 - lam eta = .75, radius sqrt(2)
    model.learn_one({"a": 2.0}, 1)
    assert weights(model) == {"a": 1.0}
    model.learn_one({"a": 4.0}, 1)  # y f = 4 > 1
    assert weights(model) == {"a": 0.75}
    model.learn_one({"b": 1.0}, -1)  # y f = 0
    assert weights(model) == {"a": 0.5625, "b": -0.5}
    model.score_one({"a": 1.0})
    model.learn_many(InstanceBatch.from_records([{"x": {"a": 4.0}}]))
    assert weights(model) == {"a": 0.5625, "b": -0.5}, "an unlabelled instance teaches nothing"


def test_a_weight_that_decays_to_nothing_leaves() -> None:
    model = OFS(k=2, eta=0.9, lam=1.0, decay=True)
    model.learn_one({"a": 1.0, "tiny": 5e-324}, 1)
    for _ in range(3):
        model.learn_one({"a": 2.0, "tiny": 0.0}, 1)
    assert "tiny" not in weights(model)


def test_the_paper_s_counterexample_keeps_the_perceptron_wrong_for_ever() -> None:
    """Section 3.2.1: x_a (label +1) has the first B features, x_b (label -1) the others; they come in turn.

    All weights are 1 or -1, so the cut goes through ties, and the smaller keys stay: x_b never scores but 0.
    """
    B = 3
    model = PerceptronTruncated(k=B)
    X = np.tile(np.kron(np.eye(2), np.ones(B)), (100, 1))
    scores = model.prequential(InstanceBatch.from_arrays(X, np.tile([1, -1], 100)))
    assert (scores[1::2] == 0).all()


def test_two_instances_that_undo_each_other_are_both_wrong_for_ever() -> None:
    # w = (1, .9) -> (1, 0), which has the second wrong; then w = (.1, -1) -> (0, -1), which has the first wrong.
    model = PerceptronTruncated(k=1)
    X, y = np.tile([[1.0, 0.9], [0.9, 1.0]], (100, 1)), np.tile([1, -1], 100)
    assert (y * model.prequential(InstanceBatch.from_arrays(X, y)) <= 0).all()


SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(2, 20), st.integers(1, 8), st.floats(0.01, 10), st.floats(0.1, 2), st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_invariants_of_the_paper(seed: int, d: int, k: int, lam: float, eta: float, decay: bool) -> None:
    rng = np.random.default_rng(seed)
    model = OFS(k=k, eta=eta, lam=lam, decay=decay and eta * lam < 1)
    for _ in range(40):
        x = {str(i): float(value) for i, value in enumerate(rng.normal(size=d)) if value > -0.5}
        y = int(rng.choice([-1, 1]))
        before, margin = model.selected, y * model.score_one(x)
        model.learn_one(x, y)
        held = np.array([selected.weight for selected in model.selected])
        assert len(held) <= k
        assert np.linalg.norm(held) <= 1 / np.sqrt(lam) * (1 + 1e-12)
        if margin > 1 and not model.params["decay"]:
            assert model.selected == before


def test_an_empty_instance_is_a_mistake_that_teaches_nothing() -> None:
    for model in (OFS(k=2), PerceptronTruncated(k=2), PerceptronRandom(k=2)):
        model.learn_one({}, 1)
        model.learn_one({"a": 0.0}, -1)
        assert model.selected == []
        assert model.version == 2


@given(SEEDS, st.integers(1, 120), st.integers(1, 20), st.integers(1, 8), st.integers(-60, 60))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_perceptron_does_not_mind_one_scaling_of_everything(
    seed: int, rows: int, d: int, k: int, power: int
) -> None:
    rng = np.random.default_rng(seed)
    X, y, scale = rng.normal(size=(rows, d)), rng.choice([-1, 1], size=rows), 2.0**power
    one, other = PerceptronTruncated(k=k), PerceptronTruncated(k=k)
    scores = one.prequential(InstanceBatch.from_arrays(X, y))
    np.testing.assert_array_equal(
        other.prequential(InstanceBatch.from_arrays(scale * X, y)), scale * scale * scores
    )


@given(SEEDS, st.permutations(range(15)), st.integers(1, 15))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_permuting_features_permutes_weights(seed: int, order: list[int], k: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(150, 15)), rng.choice([-1, 1], size=150)
    names = [f"f{i}" for i in range(15)]
    for make in (lambda: OFS(k=k), lambda: PerceptronTruncated(k=k)):
        one, other = make(), make()
        one.learn_many(InstanceBatch.from_arrays(X, y, names))
        other.learn_many(InstanceBatch.from_arrays(X[:, order], y, [names[i] for i in order]))
        assert weights(other) == pytest.approx(weights(one), abs=1e-12)


def test_the_random_perceptron_by_hand() -> None:
    kept = set()
    for seed in range(30):
        model = PerceptronRandom(k=2, seed=seed)
        model.learn_one({"a": 1.0, "b": 2.0}, 1)  # f = 0: a mistake; two features, both stay
        assert weights(model) == {"a": 1.0, "b": 2.0}
        model.learn_one({"a": 1.0}, 1)  # f = 1: right
        model.learn_one({"a": 3.0, "b": 1.0}, -1)  # f = 5: w = (1 - 3, 2 - 1)
        assert model.selected == [Selected("a", -2.0, 1), Selected("b", 1.0, 1)]
        model.learn_one({"c": 1.0}, 1)  # f = 0: w = (-2, 1, 1), of which two of three stay as they are
        assert weights(model).items() < {"a": -2.0, "b": 1.0, "c": 1.0}.items()
        kept.add(frozenset(weights(model)))
    assert kept == {frozenset("ab"), frozenset("ac"), frozenset("bc")}


def test_since_is_when_the_feature_last_entered() -> None:
    model = PerceptronTruncated(k=1)
    model.learn_one({"a": 1.0}, 1)
    model.learn_one({"b": 2.0}, 1)
    assert model.selected == [Selected("b", 2.0, 2)]
    model.learn_one({"b": 1.0}, 1)
    model.learn_one({"a": 3.0}, 1)
    assert model.selected == [Selected("a", 3.0, 4)]
    model.learn_one({"a": 3.0}, -1)  # exactly 0: no state
    assert model.selected == []
    assert model.state()["names"] == []


def test_values_at_the_end_of_the_range_stay_finite() -> None:
    largest = float(np.finfo(np.float64).max)
    for model in (OFS(k=2), OFS(k=2, eta=1e300), PerceptronTruncated(k=2)):
        for y in (1, -1, 1, 1, -1):
            model.learn_one({"a": largest, "b": -largest, "c": largest}, y)
            assert np.isfinite(model.score_one({"a": largest, "b": largest}))
            assert all(np.isfinite(weight) and weight != 0 for weight in weights(model).values())
    for value in (largest, 1e200, 1e160, 1e155, 1e150):  # whose squares leave the range, or just do not
        model = OFS(k=2)
        model.learn_one({"a": value, "b": value}, 1)
        assert weights(model) == pytest.approx({"a": 10 / np.sqrt(2), "b": 10 / np.sqrt(2)})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OFS(k=0), "k must be a whole number of at least 1, not 0"),
        (lambda: OFS(k=True), "k must be a whole number of at least 1, not True"),
        (lambda: OFS(k=2.0), "k must be a whole number of at least 1, not 2.0"),  # type: ignore[arg-type]
        (lambda: OFS(k=2**40), "k must be at most 2147483646, not 1099511627776"),
        (lambda: OFS(k=1, eta=0), "eta must be a finite number above 0, not 0"),
        (lambda: OFS(k=1, eta=float("nan")), "eta must be a finite number above 0, not nan"),
        (lambda: OFS(k=1, lam=float("inf")), "lam must be a finite number above 0, not inf"),
        (lambda: OFS(k=1, lam=-1), "lam must be a finite number above 0, not -1"),
        (lambda: OFS(k=1, lam="1"), "lam must be a finite number above 0, not '1'"),  # type: ignore[arg-type]
        (lambda: OFS(k=1, decay=1), "decay must be true or false, not 1"),  # type: ignore[arg-type]
        (lambda: OFS(k=1, eta=2.0, lam=0.5, decay=True), "with decay, eta * lam must be below 1, not 1.0"),
        (lambda: PerceptronTruncated(k=-3), "k must be a whole number of at least 1, not -3"),
        (lambda: PerceptronRandom(k=1, seed=-1), "seed must be a whole number of at least 0, not -1"),
        (lambda: PerceptronRandom(k=1, max_features=0), "max_features must be a whole number of at least 1, not 0"),
    ],
)
def test_hyper_parameters_are_checked_at_once(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        make()
    assert str(caught.value) == message


def test_names_beyond_the_limit_are_left_out_and_counted() -> None:
    model = PerceptronRandom(k=5, max_features=2)
    model.learn_one({"a": 1.0}, 1)
    model.learn_one({"9": 1.0, "3": 1.0, "none": 0.0}, 1)  # room for one more: the smaller key
    assert weights(model) == {"a": 1.0, "3": 1.0}
    assert model.metrics() == {"values_ignored": 1}
    model.learn_one({"9": 4.0, "a": -1.0}, 1)
    assert model.metrics() == {"values_ignored": 2}
    assert model.score_one({"9": 4.0}) == 0.0
