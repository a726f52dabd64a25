"""The large-margin learners: against eager oracles and a general solver, by hand, and what the paper proves."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sluiceway.operators.contract import Selected
from sluiceway.operators.kernels.numbers import l1_ball
from sluiceway.operators.learners.fobos import FOBOS
from sluiceway.operators.learners.norma import NORMA
from sluiceway.operators.learners.pa import PA
from sluiceway.operators.learners.pa_l1 import PAL1
from sluiceway.operators.learners.pa_l2 import PAL2
from sluiceway.operators.learners.pa_objective import PAObjective
from sluiceway.operators.learners.perceptron_random import PerceptronRandom
from sluiceway.schemas.batch import InstanceBatch

from . import margin_oracles as oracles

Pair = tuple[Any, Any, dict[str, Any]]
PAIRS: dict[str, Pair] = {
    "pa": (PA, oracles.PassiveAggressive, {}),
    "pa, hinge": (PA, oracles.PassiveAggressive, {"trigger": "hinge"}),
    "pa-I": (PA, oracles.PassiveAggressive, {"variant": 1, "C": 0.05, "trigger": "hinge"}),
    "pa-II": (PA, oracles.PassiveAggressive, {"variant": 2, "C": 0.2, "trigger": "hinge"}),
    "objective": (PAObjective, oracles.ObjectiveRegularised, {"alpha": 0.1}),
    "objective, hinge": (PAObjective, oracles.ObjectiveRegularised, {"alpha": 2.0, "trigger": "hinge"}),
    "l2": (PAL2, oracles.L2Constrained, {"beta": 0.7}),
    "l2, hinge": (PAL2, oracles.L2Constrained, {"beta": 1.3, "trigger": "hinge"}),
    "l1": (PAL1, oracles.L1Constrained, {"beta": 2.0}),
    "l1, hinge": (PAL1, oracles.L1Constrained, {"beta": 5.0, "trigger": "hinge"}),
    "norma": (NORMA, oracles.Norma, {"eta": 0.2, "lam": 0.1}),
    "norma, fading fast": (NORMA, oracles.Norma, {"eta": 0.5, "lam": 0.3, "rho": 0.0}),
    "fobos": (FOBOS, oracles.Fobos, {"lam": 0.02}),
    "fobos, constant": (FOBOS, oracles.Fobos, {"eta": 0.1, "lam": 0.1, "schedule": "constant", "trigger": "error"}),
}
ROWS = 2000


def made(kind: str, rows: int = ROWS) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    rng = np.random.default_rng(23)
    X = rng.normal(size=(rows, 60))
    if kind != "dense":
        X *= rng.random(X.shape) < 0.1
    if kind == "growing":  # a name appears every thirtieth row, and some are not seen again for long
        X *= np.arange(60) * 30 <= np.arange(rows)[:, None]
    noise = rng.normal(size=rows)
    return X, np.where(X[:, :5].sum(axis=1) - X[:, 5:10].sum(axis=1) + noise > 0, 1, -1).astype(np.int8)


def weights_of(model: Any, d: int) -> NDArray[np.float64]:
    state = model.state()
    w = np.zeros(d)
    for name in state["names"]:
        w[int(name)] = model.score_one({name: 1.0})
    return w


def weights(model: Any) -> dict[str, float]:
    return {feature: weight for feature, weight, _ in model.selected}


@pytest.mark.parametrize("kind", ["dense", "sparse", "growing"])
@pytest.mark.parametrize("pair", PAIRS)
def test_scores_and_weights_are_the_oracle_s(pair: str, kind: str) -> None:
    learner, oracle, params = PAIRS[pair]
    X, y = made(kind)
    expected = oracle(X.shape[1], **params)
    scores = np.array([expected.learn(x, int(label)) for x, label in zip(X, y, strict=True)])
    model = learner(keep=1.0, **params)
    np.testing.assert_allclose(model.prequential(InstanceBatch.from_arrays(X, y)), scores, atol=1e-9)
    np.testing.assert_allclose(weights_of(model, X.shape[1]), expected.w, atol=1e-9)
    margin = expected.rho if pair.startswith("norma") else expected.margin
    assert np.count_nonzero((np.abs(y * scores - margin) < 1e-9) & (scores != 0)) <= 0.01 * len(y), "ties"


@pytest.mark.parametrize("seed", range(60))
def test_the_closed_forms_solve_the_problems(seed: int) -> None:
    """Excess of the objective over a general solver's, and the constraints."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 9))
    x, y = rng.normal(size=d) * (rng.random(d) < 0.8), int(rng.choice([-1, 1]))
    x[int(rng.integers(d))] = rng.normal() + 1.5
    w = rng.normal(size=d) * (rng.random(d) < 0.8)
    w *= -y * np.sign(w @ x) or 1.0
    alpha = float(rng.uniform(0, 2))
    l2 = max(float(np.linalg.norm(w)), 1 / float(np.linalg.norm(x))) * float(rng.uniform(1.01, 1.5))
    l1 = max(float(np.abs(w).sum()), 1 / float(np.abs(x).max())) * float(rng.uniform(1.01, 1.5))
    cases: list[tuple[Any, dict[str, float]]] = [
        (PAObjective(alpha=alpha), {"alpha": alpha}),
        (PAL2(beta=l2), {"l2": l2}),
        (PAL1(beta=l1), {"l1": l1}),
    ]
    for model, problem in cases:
        ours = after_one_step(model, w, x, y)
        theirs = oracles.solved(w, x, y, **problem)
        assert y * float(ours @ x) >= 1 - 1e-9
        assert np.linalg.norm(ours) <= problem.get("l2", np.inf) + 1e-9
        assert np.abs(ours).sum() <= problem.get("l1", np.inf) + 1e-9
        excess = objective(ours, w, problem) - objective(theirs, w, problem)
        assert excess <= 1e-6, f"{type(model).__name__} is worse by {excess}"
        np.testing.assert_allclose(ours, theirs, atol=2e-3)


def objective(u: NDArray[np.float64], w: NDArray[np.float64], problem: dict[str, float]) -> float:
    return float(((u - w) ** 2).sum() + problem.get("alpha", 0.0) * (u**2).sum()) / 2


def after_one_step(model: Any, w: NDArray[np.float64], x: NDArray[np.float64], y: int) -> NDArray[np.float64]:
    """From weights w, which the model is given as its state."""
    there = np.flatnonzero(w)
    state = model.state() | {
        "names": [str(i) for i in there],
        "weights": w[there].tobytes(),
        "since": np.ones(len(there), dtype=np.int64).tobytes(),
        "numbers": [1.0, float(w @ w), 0.0],
        "version": 1,
    }
    restored = type(model).from_state(state)
    restored.learn_one({str(i): float(value) for i, value in enumerate(x)}, y)
    return weights_of(restored, len(w))


values = st.floats(-3, 3).map(lambda value: round(value, 3))
rows = st.lists(
    st.tuples(st.dictionaries(st.integers(0, 8), values, min_size=1), st.sampled_from([-1, 1])), min_size=1, max_size=25
)


@given(rows, st.floats(0.05, 4.0), st.sampled_from(["error", "hinge"]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_what_the_paper_proves(stream: Any, size: float, trigger: str) -> None:
    """After a step the margin is 1, if any point has it, and the norms stay within their bounds."""
    models: list[tuple[Any, float, float]] = [
        (PA(trigger=trigger), np.inf, np.inf),  # type: ignore[arg-type]
        (PAObjective(alpha=size, trigger=trigger), np.inf, np.inf),  # type: ignore[arg-type]
        (PAL2(beta=size, trigger=trigger), size, np.inf),  # type: ignore[arg-type]
        (PAL1(beta=size, trigger=trigger), np.inf, size),  # type: ignore[arg-type]
    ]
    for model, l2, l1 in models:
        for features, y in stream:
            x = {str(i): value for i, value in features.items()}
            before, score = weights_of(model, 9), y * model.score_one(x)
            model.learn_one(x, y)
            w = weights_of(model, 9)
            assert np.linalg.norm(w) <= l2 * (1 + 1e-9)
            assert np.abs(w).sum() <= l1 * (1 + 1e-9)
            entries = np.array(list(x.values()))
            if score > (0 if trigger == "error" else 1) or not entries.any():
                np.testing.assert_array_equal(w, before)
            elif l2 * np.linalg.norm(entries) > 1.001 and l1 * np.abs(entries).max() > 1.001:
                assert y * model.score_one(x) == pytest.approx(1.0, abs=1e-6)
            else:
                largest = min(l2 * float(np.linalg.norm(entries)), l1 * float(np.abs(entries).max()))
                assert y * model.score_one(x) >= min(largest, 1.0) - 1e-6, "not the largest margin of the ball"


SEEDS = st.integers(0, 2**32 - 1)
TRIGGERS = st.sampled_from(["error", "hinge"])


def drawn(seed: int, rows: int, d: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Numbers of which no two are equal: no property here is about ties."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, d)), rng.choice([-1, 1], size=rows)


@given(SEEDS, st.integers(1, 80), st.integers(1, 20), TRIGGERS)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_without_regularisation_all_are_the_passive_aggressive_learner(
    seed: int, rows: int, d: int, trigger: Any
) -> None:
    batch = InstanceBatch.from_arrays(*drawn(seed, rows, d))
    scores = PA(trigger=trigger).prequential(batch)
    for model in (
        PAObjective(alpha=0, trigger=trigger),
        PAL2(beta=1e6, trigger=trigger),
        PAL1(beta=1e6, trigger=trigger),
        PA(variant=1, C=1e9, trigger=trigger),
        PA(variant=2, C=1e15, trigger=trigger),
    ):
        np.testing.assert_allclose(model.prequential(batch), scores, atol=1e-6, rtol=1e-6, err_msg=repr(model))


@given(SEEDS, st.integers(1, 60), st.integers(2, 15), TRIGGERS)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_rotations_change_no_score(seed: int, rows: int, d: int, trigger: Any) -> None:
    X, y = drawn(seed, rows, d)
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    for make in (
        lambda: PA(trigger=trigger),
        lambda: PAObjective(alpha=0.2, trigger=trigger),
        lambda: PAL2(beta=0.8, trigger=trigger),
        lambda: NORMA(lam=0.1),
    ):
        scores = make().prequential(InstanceBatch.from_arrays(X, y))
        turned = make().prequential(InstanceBatch.from_arrays(X @ rotation, y))
        np.testing.assert_allclose(turned, scores, atol=1e-9, rtol=1e-9, err_msg=repr(make()))


def test_rotations_change_the_scores_of_l1() -> None:
    X, y = drawn(9, 300, 12)
    rotation = np.linalg.qr(np.random.default_rng(9).normal(size=(12, 12)))[0]
    scores = PAL1(beta=1.5).prequential(InstanceBatch.from_arrays(X, y))
    turned = PAL1(beta=1.5).prequential(InstanceBatch.from_arrays(X @ rotation, y))
    assert np.abs(turned - scores).max() > 0.01


@given(SEEDS, st.integers(1, 8), TRIGGERS)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_weights_are_sums_of_the_instances_learnt_from(seed: int, rows: int, trigger: Any) -> None:
    X, y = drawn(seed, rows, 12)
    for model in (
        PA(keep=1.0, trigger=trigger),
        PAObjective(keep=1.0, alpha=0.3, trigger=trigger),
        PAL2(keep=1.0, beta=0.7, trigger=trigger),
    ):
        scores = model.prequential(InstanceBatch.from_arrays(X, y))
        active = X[y * scores <= (1.0 if trigger == "hinge" else 0.0)].T
        w = weights_of(model, 12)
        nearest = active @ np.linalg.lstsq(active, w, rcond=None)[0]
        np.testing.assert_allclose(nearest, w, atol=1e-9, err_msg=repr(model))


# -- by hand -------------------------------------------------------------------------------------------------------


def test_passive_aggressive_by_hand() -> None:
    model = PA(keep=1.0)
    model.learn_one({"a": 1.0, "b": 2.0}, 1)  # f = 0, ‖x‖² = 5: w = (.2, .4)
    assert weights(model) == pytest.approx({"b": 0.4, "a": 0.2})
    model.learn_one({"a": 1.0}, 1)  # y f = .2 > 0: no error
    assert weights(model) == pytest.approx({"b": 0.4, "a": 0.2})
    model.learn_one({"b": 1.0, "c": 3.0}, -1)  # y f = -.4, ℓ = 1.4, ‖x‖² = 10: w = (.2, .26, -.42)
    assert weights(model) == pytest.approx({"c": -0.42, "b": 0.26, "a": 0.2})
    assert [selected.since for selected in model.selected] == [3, 1, 1]
    first, second = PA(keep=1.0, variant=1, C=0.1), PA(keep=1.0, variant=2, C=0.1)
    for one in (first, second):
        one.learn_one({"a": 1.0, "b": 2.0}, 1)
    assert weights(first) == pytest.approx({"b": 0.2, "a": 0.1})  # τ = min(.1, .2)
    assert weights(second) == pytest.approx({"b": 0.2, "a": 0.1})  # τ = 1 / (5 + 5)
    hinge = PA(keep=1.0, trigger="hinge")
    hinge.learn_one({"a": 2.0}, 1)  # w = .5
    hinge.learn_one({"a": 1.0}, 1)  # y f = .5, ℓ = .5: w = 1
    assert weights(hinge) == {"a": 1.0}


def test_objective_by_hand() -> None:
    model = PAObjective(keep=1.0, alpha=0.5)
    model.learn_one({"a": 2.0}, 1)  # τ = 1.5 / 4: w = .75 / 1.5
    assert weights(model) == pytest.approx({"a": 0.5})
    model.learn_one({"a": 2.0, "b": 1.0}, -1)  # y f = -1, τ = 2.5 / 5: w = (.5 - 1, -.5) / 1.5
    assert weights(model) == pytest.approx({"a": -1 / 3, "b": -1 / 3})
    model.learn_one({"b": 3.0}, -1)  # y f = 1 > 0: nothing, not even shrunk
    assert weights(model) == pytest.approx({"a": -1 / 3, "b": -1 / 3})


def test_l2_by_hand() -> None:
    model = PAL2(keep=1.0, beta=1.25)
    model.learn_one({"a": 1.0}, 1)  # inside: w = 1
    model.learn_one({"b": 1.0}, -1)
    # Z² = (1 - 0) / (1.5625 - 1): Z = 4/3, τ = 4/3: w = (1, -4/3) / (4/3), on the ball
    assert weights(model) == pytest.approx({"b": -1.0, "a": 0.75})
    model.learn_one({"c": 0.5}, 1)  # 1.25 * .5 < 1: no point of the ball; the largest margin is all on c
    assert weights(model) == pytest.approx({"c": 1.25})


def test_l1_by_hand() -> None:
    model = PAL1(keep=1.0, beta=1.5)
    model.learn_one({"a": 0.8, "b": 0.6}, 1)  # inside: w = (.8, .6), norm 1.4
    model.learn_one({"c": 1.0}, 1)
    # the point (.8, .6, 1) has norm 2.4. c must be 1, so a and b share .5: θ = .45
    assert weights(model) == pytest.approx({"c": 1.0, "a": 0.35, "b": 0.15})
    model.learn_one({"d": 0.5}, -1)  # 1.5 * .5 < 1: the vertex
    assert model.selected == [Selected("d", -1.5, 3)]


def test_norma_by_hand() -> None:
    model = NORMA(keep=1.0, eta=0.5, lam=0.4, rho=0.0)
    model.learn_one({"a": 2.0}, 1)
    assert weights(model) == pytest.approx({"a": 1.0})
    model.learn_one({"a": 1.0}, 1)  # y f = 1 > 0: faded
    assert weights(model) == pytest.approx({"a": 0.8})
    model.learn_one({"a": 1.0, "b": 1.0}, -1)  # (.64 - .5, -.5)
    assert weights(model) == pytest.approx({"b": -0.5, "a": 0.14})


def test_fobos_by_hand() -> None:
    model = FOBOS(keep=1.0, eta=1.0, lam=0.1, schedule="constant")
    model.learn_one({"a": 2.0, "b": 0.05}, 1)  # (2, .05), then .1 off: b never enters
    assert weights(model) == pytest.approx({"a": 1.9})
    model.learn_one({"a": 1.0}, 1)  # y f = 1.9 > 1
    assert weights(model) == pytest.approx({"a": 1.8})
    model.learn_one({"c": 1.0}, -1)
    assert weights(model) == pytest.approx({"a": 1.7, "c": -0.9})
    falling = FOBOS(keep=1.0, eta=1.0, lam=0.1)
    for _ in range(4):
        falling.learn_one({"a": 3.0}, 1)
    assert weights(falling) == pytest.approx({"a": 3 - 0.1 * (1 + 2**-0.5 + 3**-0.5 + 0.5)})


# -- selection -----------------------------------------------------------------------------------------------------


def fewest(squares: list[Fraction], need: Fraction) -> int:
    """How many of the squares, in turn, add up to what is needed."""
    kept, n = Fraction(0), 0
    while kept < need:
        kept += squares[n]
        n += 1
    return n


@given(
    st.dictionaries(st.integers(0, 200), st.sampled_from([1.0, -1.0, 2.0, 0.5, 3.0]) | st.floats(-9, 9), max_size=60),
    st.sampled_from([0.1, 0.5, 0.75, 0.9, 0.99, 1.0]),
    st.integers(1, 70),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_selection_is_that_of_sorting(w: dict[int, float], keep: float, k: int) -> None:
    """The paper's sigma: the smallest |w| dropped while their squares do not exceed it; equal ones by larger key."""
    order = sorted((i for i in w if w[i] != 0), key=lambda i: (-abs(w[i]), i))
    share, largest = NORMA(keep=keep, eta=1.0, lam=0), NORMA(k=k, eta=1.0, lam=0)
    for model in (share, largest):
        model.learn_one({str(i): value for i, value in w.items()}, 1)
    assert [int(selected.feature) for selected in largest.selected] == order[:k]
    found = [int(selected.feature) for selected in share.selected]
    assert found == order[: len(found)]
    squares = [Fraction(w[i]) ** 2 for i in order]
    need = Fraction(keep) * sum(squares)
    most = fewest(squares, need)
    least = most if keep == 1 else fewest(squares, need * (1 - Fraction(1, 10**11)))  # what sums of floats may miss
    assert least <= len(found) <= most


def test_a_share_of_1_is_every_weight() -> None:
    model = NORMA(keep=1.0, eta=1.0, lam=0)
    model.learn_one({"a": 1.0, "b": 1e-7, "c": -5e-200, "none": 0.0}, 1)
    assert [selected.feature for selected in model.selected] == ["a", "b", "c"]


def test_keep_is_a_share_whatever_the_size_of_the_weights() -> None:
    for size in (1e-300, 1e-3, 1.0, 1e150, 1e300):
        model = NORMA(keep=0.9, eta=1.0, lam=0)
        model.learn_one({str(i): size for i in range(10)} | {"small": size * 1e-9}, 1)
        assert [int(selected.feature) for selected in model.selected] == list(range(9))


# -- slots, limits, the ends of the range --------------------------------------------------------------------------


def test_names_beyond_the_limit_are_ignored_as_if_they_were_not_there() -> None:
    model = PA(keep=1.0, max_features=2)
    model.learn_one({"a": 1.0}, 1)
    model.learn_one({"9": 1.0, "3": 2.0, "none": 0.0}, 1)  # room for one: the smaller key; ‖x‖² = 4
    assert weights(model) == pytest.approx({"a": 1.0, "3": 0.5})
    assert model.metrics() == {"values_ignored": 1}
    model.learn_one({"9": 4.0, "a": -1.0}, 1)  # y f = -1, ‖x‖² = 1: w_a = -1
    assert weights(model) == pytest.approx({"a": -1.0, "3": 0.5})
    assert model.metrics() == {"values_ignored": 2}
    model.learn_one({"a": 1.0}, 1)
    model.learn_one({"3": 2.0}, -1)
    model.learn_one({"3": 2.0}, 1)
    assert model.score_one({"9": 4.0}) == 0.0


def test_what_is_ignored_is_counted_whether_or_not_the_instance_teaches() -> None:
    for model in (PA(keep=1.0, max_features=1), PerceptronRandom(k=1, max_features=1)):
        model.learn_one({"a": 1.0}, 1)
        model.learn_one({"a": 1.0, "b": 1.0, "none": 0.0}, 1)  # no mistake, nothing to learn
        model.learn_one({"a": 2.0, "b": 1.0, "c": 1.0}, -1)
        model.prequential(InstanceBatch.from_records([{"x": {"d": 1.0}}]))
        assert model.metrics() == {"values_ignored": 3}


halves = st.integers(-8, 8).map(lambda value: value / 2)
few = st.dictionaries(st.sampled_from(list("0123456789")), halves, max_size=4)


@given(st.lists(st.tuples(few, st.sampled_from([-1, 1])), max_size=40), st.sampled_from([1, 2, 3, 5, 100]))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_fobos_is_its_rule_in_limits_and_since_too(rows: list[tuple[dict[str, float], int]], limit: int) -> None:
    """Numbers are such that nothing is rounded; a threshold overtakes a weight every few rows."""
    model = FOBOS(keep=1.0, eta=1.0, lam=0.5, schedule="constant", max_features=limit)
    w: dict[str, float] = {}
    since: dict[str, int] = {}
    ignored = 0
    for version, (x, y) in enumerate(rows, start=1):
        x = {name: value for name, value in x.items() if value != 0}
        new = sorted(x.keys() - w.keys())
        refused = new[max(limit - len(w), 0) :]
        ignored += len(refused)
        if y * sum(w.get(name, 0.0) * value for name, value in x.items()) <= 1:
            for name in x.keys() - set(refused):
                w[name] = w.get(name, 0.0) + y * x[name]
        w = {name: math.copysign(abs(value) - 0.5, value) for name, value in w.items() if abs(value) > 0.5}
        since = {name: since.get(name, version) for name in w}
        model.learn_one(x, y)
        assert {selected.feature: (selected.weight, selected.since) for selected in model.selected} == {
            name: (value, since[name]) for name, value in w.items()
        }
    assert model.metrics() == {"values_ignored": ignored}


def test_a_weight_of_0_has_no_state_and_leaves_room() -> None:
    model = NORMA(keep=1.0, eta=1.0, lam=0, rho=0.0, max_features=2)
    model.learn_many(InstanceBatch.from_records([{"x": {"a": 1.0}, "y": 1}, {"x": {"b": 1.0}, "y": 1}]))
    model.learn_many(InstanceBatch.from_records([{"x": {"a": 1.0}, "y": -1}, {"x": {"c": 1.0}, "y": 1}]))
    assert model.state()["names"] == ["b", "c"], "the last slot has moved to where the name left"
    assert weights(model) == {"b": 1.0, "c": 1.0}
    assert model.metrics() == {"values_ignored": 0}


def test_a_weight_that_has_faded_to_0_leaves_room() -> None:
    model = NORMA(keep=1.0, eta=0.9, lam=1.0, rho=0.0, max_features=1)
    model.learn_one({"a": 1.0}, 1)
    for _ in range(400):  # each leaves a tenth: far below the smallest float
        model.learn_one({}, 1)
    assert model.state()["names"] == []
    model.learn_one({"b": 1.0}, 1)
    assert [selected.feature for selected in model.selected] == ["b"]


def test_names_follow_their_weights_through_thousands_of_moves() -> None:
    """Signs undo each other, so names come and go all the time, within a batch and from batch to batch."""
    rng = np.random.default_rng(2)
    model = NORMA(keep=1.0, eta=1.0, lam=0, rho=1e9)
    w: dict[str, float] = {}
    for _ in range(60):
        records = []
        for _ in range(int(rng.integers(1, 30))):
            some = rng.choice(40, size=int(rng.integers(1, 12)), replace=False)
            x = {f"n{i}": float(rng.integers(1, 3)) for i in some}
            y = int(rng.choice([-1, 1]))
            records.append({"x": x, "y": y})
            for name, value in x.items():
                w[name] = w.get(name, 0.0) + y * value
        model.learn_many(InstanceBatch.from_records(records))
        w = {name: value for name, value in w.items() if value != 0}
        assert weights(model) == w
        assert sorted(model.state()["names"]) == sorted(w)


def test_a_scale_that_runs_out_is_renewed() -> None:
    model = NORMA(keep=1.0, eta=0.9, lam=1.0, rho=0.0)  # a tenth is left each time
    model.learn_one({"a": 1.0, "b": 2.0}, 1)
    for _ in range(250):
        model.learn_one({"a": 1.0}, 1)
    assert weights(model) == pytest.approx({"b": 1.8e-250, "a": 0.9e-250})
    for _ in range(250):
        model.learn_one({"a": 1.0}, 1 if model.score_one({"a": 1.0}) > 0 else -1)
    assert model.state()["names"] in ([], ["a"])
    assert all(np.isfinite(weight) and weight != 0 for weight in weights(model).values())


def test_slots_of_what_the_threshold_has_overtaken_are_taken_over() -> None:
    """Every row brings features that never come again: hardly any weight stays, and the state does not grow."""
    rows, new, old = 1500, 12, 30
    rng = np.random.default_rng(5)
    X = np.zeros((rows, old + rows * new))
    for row in range(rows):
        X[row, rng.choice(old, 4, replace=False)] = rng.normal(size=4)
        X[row, old + row * new : old + (row + 1) * new] = rng.normal(size=new) / 3
    y = np.where(X[:, :10].sum(axis=1) + 0.3 * rng.normal(size=rows) > 0, 1, -1).astype(np.int8)
    params: dict[str, Any] = {"eta": 0.1, "lam": 0.05, "schedule": "constant"}
    expected = oracles.Fobos(X.shape[1], **params)
    scores = [expected.learn(x, int(label)) for x, label in zip(X, y, strict=True)]
    model, limited = FOBOS(keep=1.0, **params), FOBOS(keep=1.0, **params, max_features=400)
    batch = InstanceBatch.from_arrays(X, y)
    np.testing.assert_allclose(model.prequential(batch), scores, atol=1e-9)
    np.testing.assert_allclose(limited.prequential(batch), scores, atol=1e-9)
    assert limited.metrics()["values_ignored"] == 0, "the limit is above what is not 0"
    assert {int(feature) for feature, _, _ in model.selected} == set(np.flatnonzero(expected.w))
    assert len(model.state()["names"]) <= 3 * len(model.selected) + 2 * new


def test_at_the_limit_it_does_not_matter_which_slots_were_taken_over() -> None:
    """More weights than a few rows pay for: which newcomers come in must not follow from the order of slots."""
    rows, names, nnz = 400, 3000, 30
    rng = np.random.default_rng(6)
    columns = np.stack([rng.choice(names, nnz, replace=False) for _ in range(rows)])
    values, y = rng.normal(size=columns.shape), rng.choice([-1, 1], size=rows)
    scores = []
    for _ in range(3):
        order = np.stack([rng.permutation(nnz) for _ in range(rows)])
        model = FOBOS(eta=0.1, lam=0.02, schedule="constant", max_features=600)
        at, x = np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)
        indptr, named = np.arange(rows + 1) * nnz, tuple(map(str, range(names)))
        batch = InstanceBatch.from_csr(indptr, at.ravel(), x.ravel(), y, names=named)
        scores.append(model.prequential(batch))
        assert model.metrics()["values_ignored"] > 0
        assert len(model.state()["names"]) <= 600
    np.testing.assert_allclose(scores[1:], [scores[0]] * 2, atol=1e-12)


@pytest.mark.parametrize("make", [PA, PAObjective, PAL2, PAL1, NORMA, FOBOS])
def test_values_at_the_ends_of_the_range_stay_finite(make: Any) -> None:
    largest, smallest = float(np.finfo(np.float64).max), 5e-324
    for size in (largest, 1e200, 1e-200, smallest):
        model = make(keep=1.0)
        for y in (1, -1, 1, 1, -1):
            model.learn_one({"a": size, "b": -size, "c": size / 2}, y)
            assert np.isfinite(model.score_one({"a": size, "b": size}))
            assert all(np.isfinite(weight) and weight != 0 for weight in weights(model).values())


def test_margins_are_met_where_squares_leave_the_range() -> None:
    for size in (1e200, 1e300):
        for model in (PA(keep=1.0), PAObjective(keep=1.0, alpha=0.5), PAL2(keep=1.0), PAL1(keep=1.0)):
            for y in (1, -1):
                model.learn_one({"a": size, "b": -size}, y)
                assert y * model.score_one({"a": size, "b": -size}) == pytest.approx(1.0)
    model = PA(keep=1.0)
    model.learn_one({"a": 3e-200, "b": 4e-200}, 1)
    assert weights(model) == pytest.approx({"b": 0.16e200, "a": 0.12e200})


def test_the_root_is_found_in_a_few_steps_even_for_equal_values() -> None:
    rng = np.random.default_rng(1)
    for n in (1, 2, 50, 500):
        a, z = np.ones(n), np.sort(rng.normal(size=n))
        rest = np.concatenate(([0.0], np.abs(rng.normal(size=300))))
        beta = float(np.abs(z).sum() + rest.sum())
        tau, theta = l1_ball.nearest(a, z, rest, 1, 301, 1.0, 0.5 * beta + 1)
        point = oracles.soft(z + tau * a, theta)
        assert a @ point == pytest.approx(1.0, abs=1e-9)
        assert np.abs(point).sum() + np.maximum(rest - theta, 0).sum() == pytest.approx(0.5 * beta + 1, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PA(k=1, keep=0.5), "k and keep must not both be given: how many features, or what share of ‖w‖²"),
        (lambda: PA(keep=0), "keep must be a number above 0 and at most 1, not 0"),
        (lambda: PA(keep=1.5), "keep must be a number above 0 and at most 1, not 1.5"),
        (lambda: PA(k=0), "k must be a whole number of at least 1, not 0"),
        (lambda: PA(variant=3), "variant must be one of 0, 1, 2, not 3"),
        (lambda: PA(variant=True), "variant must be one of 0, 1, 2, not True"),
        (lambda: PA(C=0), "C must be a finite number above 0, not 0"),
        (lambda: PA(trigger="none"), "trigger must be one of error, hinge, not 'none'"),  # type: ignore[arg-type]
        (lambda: PA(max_features=0), "max_features must be a whole number of at least 1, not 0"),
        (lambda: PAObjective(alpha=-1), "alpha must be a finite number of at least 0, not -1"),
        (lambda: PAL2(beta=0), "beta must be a finite number above 0, not 0"),
        (lambda: PAL1(beta=float("inf")), "beta must be a finite number above 0, not inf"),
        (lambda: NORMA(eta=2.0, lam=0.5), "eta * lam must be below 1, not 1.0"),
        (lambda: FOBOS(schedule="linear"), "schedule must be one of sqrt, constant, not 'linear'"),
    ],
)
def test_hyper_parameters_are_checked_at_once(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        make()
    assert str(caught.value) == message
