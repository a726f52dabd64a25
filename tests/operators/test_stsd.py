"""STSD: against the dense oracle, by hand, and the invariants that its algorithm must have."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sluiceway.operators.contract import Learner, Selected
from sluiceway.operators.kernels.prefetch import MANY
from sluiceway.operators.kernels.sparse.bucket_queue import note_all
from sluiceway.operators.learners.pa import PA
from sluiceway.operators.learners.stsd import STSD
from sluiceway.schemas.batch import InstanceBatch

from . import stsd_oracle

SETTINGS: dict[str, dict[str, Any]] = {
    "STSD": {"variant": 0},
    "STSD-I": {"variant": 1, "C": 0.5},
    "STSD-II": {"variant": 2, "C": 0.1, "proportion": 0.2},
    "small ball": {"variant": 0, "lam": 0.05, "proportion": 0.3},
    "few": {"variant": 1, "C": 10.0, "proportion": 0.02},
    "all": {"selection": "all", "lam": 2.0},
    "random": {"selection": "random", "seed": 3, "lam": 3.0},
    "perceptron": {"update": "perceptron", "proportion": 0.8},
}


def made(kind: str) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    rng = np.random.default_rng(23)
    rows, d = 2000, 60
    X = rng.normal(size=(rows, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)  # before the zeros: rows of one value each would all be 1, and tie
    if kind != "dense":
        X *= 2 * (rng.random(X.shape) < 0.15)
    if kind == "growing":
        X *= np.arange(d) < np.linspace(2, d, rows)[:, None]
    noise = 0.3 * rng.normal(size=rows)
    return X, np.where(X[:, :5].sum(axis=1) - X[:, 5:10].sum(axis=1) + noise > 0, 1, -1).astype(np.int8)


def weights(model: Learner) -> dict[str, float]:
    return {feature: weight for feature, weight, _ in model.selected}


class Queued(STSD):
    """The bucket queue from the first weight on, not only where there are many."""

    FEW = 0


@pytest.mark.parametrize("learner", [STSD, Queued])
@pytest.mark.parametrize("kind", ["dense", "sparse", "growing"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_scores_and_weights_are_the_oracle_s(setting: str, kind: str, learner: type[STSD]) -> None:
    X, y = made(kind)
    oracle = stsd_oracle.STSD(X.shape[1], **SETTINGS[setting])
    expected = [oracle.learn(x, int(label)) for x, label in zip(X, y, strict=True)]
    model = learner(**SETTINGS[setting])
    np.testing.assert_allclose(model.prequential(InstanceBatch.from_arrays(X, y)), expected, atol=1e-9)
    held = np.zeros(X.shape[1])
    for feature, weight in weights(model).items():
        held[int(feature)] = weight
    np.testing.assert_allclose(held, oracle.w, atol=1e-9)
    assert model.metrics() == {"values_ignored": 0, "features_seen": oracle.space.sum()}
    assert oracle.ties < 0.01 * max(oracle.cuts, 1)
    if oracle.selection == "largest":
        assert oracle.cuts > 200


def test_three_instances_by_hand() -> None:
    model = STSD(variant=0, proportion=0.5, lam=1.0)
    model.learn_one({"a": 2.0, "b": 1.0}, 1)
    # f = 0, l = 1, tau = 1/5: (.4, .2), inside the ball; d = 2, so one stays.
    assert model.selected == [Selected("a", 0.4, 1)]
    model.learn_one({"a": 1.0, "c": 3.0, "b": 1.0, "e": 1.0}, -1)
    # f = .4, l = 1.4, tau = 1.4/12: a .28333, c -.35, b and e -.11667; their sum .86667; d = 4, so two stay.
    assert weights(model) == pytest.approx({"c": -0.35, "a": 0.4 - 1.4 / 12})
    assert [selected.since for selected in model.selected] == [2, 1]
    model.learn_one({"b": -1.0}, -1)
    # f = 0, l = 1, tau = 1: b 1, the sum 1.6333 shrunk to 1; then b and c stay.
    total = 1 + 0.35 + 0.4 - 1.4 / 12
    assert weights(model) == pytest.approx({"b": 1 / total, "c": -0.35 / total})
    model.learn_one({"b": 2.0, "f": 1.0, "g": 1.0}, 1)
    # f = 2/1.6333 > 1: nothing but two features more, d = 6; the next row keeps three.
    assert weights(model) == pytest.approx({"b": 1 / total, "c": -0.35 / total})
    assert model.metrics()["features_seen"] == 6
    model.learn_one({"f": 0.5, "g": 0.25}, 1)
    assert len(model.selected) == 3
    assert model.version == 5


@pytest.mark.parametrize(
    ("params", "tau"),
    [({"variant": 0}, 1 / 8), ({"variant": 1, "C": 0.05}, 0.05), ({"variant": 1, "C": 9.0}, 1 / 8),
     ({"variant": 2, "C": 0.25}, 1 / 10), ({"update": "perceptron"}, 1.0)],
)  # fmt: skip
def test_the_step_of_each_variant(params: dict[str, Any], tau: float) -> None:
    model = STSD(proportion=1.0, **params)
    model.learn_one({"a": 2.0, "b": -2.0}, -1)
    assert weights(model) == pytest.approx({"a": -2 * tau, "b": 2 * tau})


def test_a_margin_above_nothing_is_no_mistake_for_the_perceptron() -> None:
    model = STSD(update="perceptron", proportion=1.0)
    model.learn_one({"a": 1.0}, 1)
    model.learn_one({"a": 1e-20}, 1)
    assert weights(model) == {"a": 1.0}
    model.learn_one({"b": 1.0}, 1)
    assert weights(model) == {"a": 1.0, "b": 1.0}


values = st.floats(-4, 4, allow_subnormal=False).filter(lambda value: value == 0 or abs(value) > 1e-3)
features = st.dictionaries(st.sampled_from([*"abcdefgh", "1", "2", "3"]), values, max_size=6)
instances = st.lists(st.tuples(features, st.sampled_from([-1, 1])), max_size=25)


models = st.builds(
    Queued,
    proportion=st.sampled_from([0.05, 0.3, 0.5, 1.0]),
    variant=st.sampled_from([0, 1, 2]),
    lam=st.sampled_from([0.1, 1.0, 30.0]),
    C=st.sampled_from([0.01, 1.0, 100.0]),
    selection=st.sampled_from(["largest", "random", "all"]),
    update=st.sampled_from(["pa", "perceptron"]),
)


@given(instances, models)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_the_invariants_of_the_paper(given_rows: list[tuple[dict[str, float], int]], model: STSD) -> None:
    lam, proportion = model.params["lam"], model.params["proportion"]
    selection, update = model.params["selection"], model.params["update"]
    space: set[str] = set()
    for x, y in given_rows:
        before, margin = model.selected, y * model.score_one(x)
        model.learn_one(x, y)
        space |= {name for name, value in x.items() if value != 0}
        assert model.metrics()["features_seen"] == len(space)
        held = weights(model)
        assert held.keys() <= space
        assert len(held) <= (len(space) if selection == "all" else max(1, int(proportion * len(space) + 1e-9)))
        assert sum(map(abs, held.values())) <= lam * (1 + 1e-12)
        if margin >= 1 or (update == "perceptron" and margin > 0):
            assert model.selected == before
        assert np.isfinite(model.score_one(x))


@given(instances)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_without_cut_and_ball_every_instance_gets_its_margin(given_rows: list[tuple[dict[str, float], int]]) -> None:
    model = STSD(variant=0, proportion=1.0, lam=1e9)
    for x, y in given_rows:
        margin = y * model.score_one(x)
        model.learn_one(x, y)
        if any(x.values()):
            assert y * model.score_one(x) == pytest.approx(max(1.0, margin), abs=1e-6)


@given(instances, st.sampled_from([0.3, 1.0]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_large_c_is_none(given_rows: list[tuple[dict[str, float], int]], proportion: float) -> None:
    batch = InstanceBatch.from_records([{"x": x, "y": y} for x, y in given_rows])
    free, bound = STSD(variant=0, proportion=proportion), STSD(variant=1, C=1e300, proportion=proportion)
    np.testing.assert_array_equal(free.prequential(batch), bound.prequential(batch))
    assert free.selected == bound.selected


def test_the_scale_is_unloaded_again_and_again() -> None:
    X, y = made("dense")
    model = STSD(variant=0, lam=0.05)
    scales = []
    for start in range(0, 2000, 10):
        model.learn_many(InstanceBatch.from_arrays(X[start : start + 10], y[start : start + 10]))
        scales.append(model.state()["scale"])
    assert min(scales) > 2.0**-420
    assert np.count_nonzero(np.diff(scales) > 0) > 10


def test_what_has_shrunk_to_nothing_leaves() -> None:
    model = STSD(variant=0, lam=1e-9, proportion=1.0)
    model.learn_one({"old": 1.0}, 1)
    for _ in range(70):  # each shrinks what was there by about 1e9
        model.learn_one({"a": 1.0}, 1)
    assert weights(model) == pytest.approx({"a": 1e-9})
    assert model.state()["names"] == ["a"]


def test_the_sum_of_weights_does_not_drift() -> None:
    X, y = made("sparse")
    model = STSD(variant=0, lam=5.0)
    batch = InstanceBatch.from_arrays(X, y)
    for _ in range(20):
        model.learn_many(batch)
    state = model.state()
    held = np.abs(np.frombuffer(state["weights"])).sum()
    assert state["total"] == pytest.approx(held, rel=1e-12)
    assert state["stale"] <= len(state["names"])


@pytest.mark.parametrize("values", ["any", "few"])
@pytest.mark.parametrize("update", ["pa", "perceptron"])
def test_the_queue_keeps_what_going_through_all_weights_keeps(values: str, update: str) -> None:
    """Bit for bit, ties included; in a space of 6,000 the list is a small part of the 1,800 weights kept."""
    rng = np.random.default_rng(8)
    rows, nnz, d = 1500, 30, 6000
    columns = np.array([rng.choice(d, nnz, replace=False) for _ in range(rows)])
    data = rng.normal(size=(rows, nnz)) if values == "any" else rng.choice([-1.0, -0.5, 0.5, 1.0], size=(rows, nnz))
    labels = rng.choice([-1, 1], size=rows)
    names = tuple(map(str, range(d)))
    batch = InstanceBatch.from_csr(np.arange(rows + 1) * nnz, columns.ravel(), data.ravel(), labels, names=names)
    one, other = Queued(proportion=0.3, lam=1e9, update=update), STSD(proportion=0.3, lam=1e9, update=update)
    other.FEW = d  # type: ignore[misc]
    np.testing.assert_array_equal(one.prequential(batch), other.prequential(batch))
    assert one.selected == other.selected
    assert len(one.selected) > 1700
    assert queue_holds(one)
    if values == "any":
        assert 0 < one._queue.head["listed"][0] < 1200


def test_very_many_weights_are_kept_as_few_are() -> None:
    """More than fit the caches: memory is asked for ahead, and the list has thousands of buckets."""
    d, nnz = 3 * MANY, 96
    rng = np.random.default_rng(8)
    every = rng.permutation(d).reshape(-1, nnz)
    columns = np.concatenate((every, np.stack([rng.choice(d, nnz, replace=False) for _ in range(400)])))
    indptr, values = np.arange(len(columns) + 1) * nnz, rng.normal(size=columns.size)
    labels = rng.choice([-1, 1], size=len(columns))
    batch = InstanceBatch.from_csr(indptr, columns.ravel(), values, labels, names=tuple(map(str, range(d))))
    one, other = STSD(), STSD()
    other.FEW = d  # type: ignore[misc]
    np.testing.assert_allclose(one.prequential(batch), other.prequential(batch), atol=1e-12)
    kept = {feature: (weight, since) for feature, weight, since in one.selected}
    assert kept.keys() == {feature for feature, _, _ in other.selected}
    for feature, weight, since in other.selected:
        assert kept[feature][0] == pytest.approx(weight, rel=1e-9)
        assert kept[feature][1] == since
    assert len(kept) == d // 2 > MANY
    assert one._queue.head["buckets"][0] > 100
    assert queue_holds(one)


def queue_holds(model: STSD) -> bool:
    """Who is below the bound is listed, in its bucket or, if grown, in a lower one; who is listed knows where."""
    m, f = model._model, model._queue
    head, active = f.head[0], int(m.head["active"][0])
    buckets = int(head["buckets"])
    places = [range(f.start[g], f.start[g] + f.filled[g]) for g in range(buckets)]
    listed = {int(f.slot[at]): (at, g) for g in range(buckets) for at in places[g]}
    size = np.abs(m.weight).view(np.int64)
    bound, base = int(head["bound"]), int(head["base"])
    below = (np.flatnonzero(size[1 : active + 1] < bound) + 1).tolist()
    return (
        len(listed) == f.filled[:buckets].sum() == np.count_nonzero(f.where)
        and all(slot in listed and listed[slot][1] <= int(max(size[slot] - base, 0) * head["per"]) for slot in below)
        and all(1 <= slot <= active for slot in listed)
        and all(divmod(int(f.where[slot]), 1 << 32) == (g, at + 1) for slot, (at, g) in listed.items())
        and all(f.filled[g] <= f.start[g + 1] - f.start[g] for g in range(buckets))
        and not f.filled[: head["low"]].any()
        and bool((m.weight[1 : active + 1] != 0).all())
    )


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0.0, 0.25, -0.25, 0.5, 1.0, -1.0, 2.0])), max_size=120))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_queue_lists_the_smallest_after_every_row(updates: list[tuple[int, float]]) -> None:
    model = Queued(update="perceptron", proportion=0.5, lam=1e9)
    for feature, value in updates:
        x = {str(feature): value, str(feature + 41): value / 2}
        model.learn_one(x, 1 if model.score_one(x) <= 0 else -1)
        assert queue_holds(model)


def test_names_are_found_again_after_more_moves_than_are_noted() -> None:
    rng = np.random.default_rng(2)
    drawn = [zip(rng.integers(0, 5000, 8).tolist(), rng.normal(size=8).tolist(), strict=True) for _ in range(1500)]
    rows = [{str(i): value for i, value in row} for row in drawn]
    labels = rng.choice([-1, 1], size=1500).tolist()
    whole, single = Queued(variant=0, proportion=0.3), Queued(variant=0, proportion=0.3)
    whole.learn_many(InstanceBatch.from_records([{"x": x, "y": y} for x, y in zip(rows, labels, strict=True)]))
    assert whole._model.head["logged"][0] > len(whole._queue.log)
    more = InstanceBatch.from_records([{"x": {"new": 9.0, "newer": 9.0, "newest": 9.0}, "y": 1}] * 2)
    changing, scores = Queued.from_state(whole.state()), np.empty(2)
    note_all(changing._queue, changing._model)
    assert changing.advance(more, 0, 2, scores, until_change=True) == 1
    for x, y in zip(rows, labels, strict=True):
        single.learn_one(x, y)
    assert whole.selected == single.selected
    assert whole.state() == single.state()
    restored = Queued.from_state(whole.state())
    note_all(restored._queue, restored._model)
    assert restored.selected == whole.selected


def test_the_seen_set_is_eight_bytes_a_feature() -> None:
    model = STSD(proportion=0.001)
    names = tuple(f"word-{i}" for i in range(50_000))
    batch = InstanceBatch.from_csr(
        np.arange(0, 50_001, 100), np.arange(50_000), np.ones(50_000), [1] * 500, names=names
    )
    model.learn_many(batch)
    state = model.state()
    assert len(state["seen"]) == 8 * 50_000
    assert len(state["names"]) <= 50
    restored = STSD.from_state(state)
    assert restored.metrics() == {"values_ignored": 0, "features_seen": 50_000}
    restored.learn_many(batch)
    assert restored.metrics()["features_seen"] == 50_000


def test_names_beyond_the_limit_are_left_out_and_counted() -> None:
    model = STSD(variant=0, proportion=1.0, max_features=2)
    model.learn_one({"a": 1.0}, 1)
    model.learn_one({"9": 2.0, "3": 1.0, "none": 0.0}, 1)  # room for one more: the smaller key; ‖x‖² = 1 without "9"
    assert weights(model) == pytest.approx({"a": 1.0, "3": 1.0})
    assert model.metrics() == {"values_ignored": 1, "features_seen": 2}


def test_an_empty_instance_is_a_mistake_that_teaches_nothing() -> None:
    for variant in (0, 1, 2):
        model = STSD(variant=variant)
        model.learn_one({}, 1)
        model.learn_one({"a": 0.0}, -1)
        assert (model.selected, model.version) == ([], 2)


def test_values_at_the_end_of_the_range_stay_finite() -> None:
    largest = float(np.finfo(np.float64).max)
    for params in ({"update": "perceptron"}, {"variant": 0}, {"variant": 2, "C": 1e300}):
        model = STSD(proportion=1.0, **params)
        for value in (1.0, largest, 1e-160, -largest, 1e150):
            for y in (1, -1):
                model.learn_one({"a": value, "b": -value, "c": 1.0}, y)
                assert np.isfinite(model.score_one({"a": largest, "b": largest}))
                assert all(np.isfinite(weight) and weight != 0 for weight in weights(model).values())
                assert sum(map(abs, weights(model).values())) <= 30 * (1 + 1e-12)
    model = STSD(proportion=1.0, update="perceptron")
    model.learn_one({"a": largest, "b": largest}, 1)
    assert weights(model) == pytest.approx({"a": 15.0, "b": 15.0})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"proportion": 0}, "proportion must be a number above 0 and at most 1, not 0"),
        ({"proportion": 1.5}, "proportion must be a number above 0 and at most 1, not 1.5"),
        ({"variant": 3}, "variant must be one of 0, 1, 2, not 3"),
        ({"C": -1}, "C must be a finite number above 0, not -1"),
        ({"lam": 1e10}, "lam must be a number from 1e-09 to 1e+09, not 10000000000.0"),
        ({"selection": "most"}, "selection must be one of largest, random, all, not 'most'"),
        ({"update": None}, "update must be one of pa, perceptron, not None"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"max_features": 0}, "max_features must be a whole number of at least 1, not 0"),
    ],
)
def test_hyper_parameters_are_checked_at_once(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        STSD(**params)
    assert str(caught.value) == message


@pytest.mark.parametrize("variant", [0, 1, 2])
@pytest.mark.parametrize("value", [1e-300, 1e-170, 1e-100, 1.0, 1e100, 1e160])
def test_a_step_is_what_it_is_also_where_squares_leave_the_range(variant: int, value: float) -> None:
    model, margin = STSD(variant=variant, proportion=1.0), PA(keep=1.0, variant=variant, C=0.1)
    x = {"a": value, "b": -value / 2}
    squares, C = Fraction(value) ** 2 * 5 / 4, Fraction(0.1)
    tau = [1 / squares, min(C, 1 / squares), 1 / (squares + 1 / (2 * C))][variant]
    w = {name: -tau * Fraction(x[name]) for name in x}
    margin.learn_one(x, -1)
    assert weights(margin) == pytest.approx({name: float(weight) for name, weight in w.items()}, rel=1e-12, abs=0)
    inside = min(1, 30 / sum(map(abs, w.values())))
    model.learn_one(x, -1)
    kept = {name: float(weight * inside) for name, weight in w.items() if abs(weight) > Fraction(2) ** -600}
    assert weights(model) == pytest.approx(kept, rel=1e-12, abs=0)
