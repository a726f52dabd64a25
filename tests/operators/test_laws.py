"""The laws of an operator, over the whole registry: what no algorithm may break whatever it learns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sluiceway.operators import registry
from sluiceway.operators.contract import Learner
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.state import pack, unpack

from .streams import SHAPES, Record, allowed, alone, batch_of, budget, long_stream, split, stream

OPERATORS = {name: entry for name, entry in registry.OPERATORS.items() if entry.kind is LEARNER}

# What makes each operator's rarer branches run too; every operator is also tested as it is by default.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "ofs": [{}, {"lam": 4.0}, {"eta": 1.0, "lam": 0.3, "decay": True}],
    "perceptron-random": [{}, {"seed": 5, "max_features": 13}],
    "ofs-partial": [
        {},
        {"epsilon": 0.7},
        {"epsilon": 0.5, "margin": 0, "radius": 0.5, "seed": 5, "max_features": 13},
        {"input": "random"},
    ],
    "perceptron-partial": [{}, {"selection": "random", "seed": 5, "max_features": 13}],
    "stsd": [
        {},
        {"variant": 0, "lam": 1.5, "max_features": 13},
        {"variant": 2, "C": 10.0, "lam": 0.25},
        {"update": "perceptron", "proportion": 0.3},
        {"selection": "all", "variant": 0, "lam": 2.0},
        {"selection": "random", "seed": 5, "lam": 1.0},
    ],
    "pa": [{}, {"keep": 0.9, "variant": 2}, {"variant": 1, "C": 0.1, "trigger": "hinge", "max_features": 13}],
    "pa-objective": [{}, {"keep": 0.7, "alpha": 3.0, "trigger": "hinge", "max_features": 13}],
    "pa-l2": [{}, {"beta": 0.6, "trigger": "hinge"}, {"keep": 0.8, "beta": 1.5, "max_features": 13}],
    "pa-l1": [{}, {"beta": 1.1, "trigger": "hinge"}, {"keep": 0.8, "beta": 2.0, "max_features": 13}],
    "norma": [{}, {"keep": 0.8, "eta": 0.7, "lam": 1.4, "rho": 0.0, "max_features": 13}],
    "fobos": [
        {},
        {"eta": 0.5, "lam": 0.2, "schedule": "constant", "max_features": 13},
        {"keep": 0.8, "lam": 0.3, "trigger": "error"},
    ],
}
CASES = [(name, variant) for name in OPERATORS for variant in VARIANTS.get(name, [{}])]
SEEDS = st.integers(0, 2**32 - 1)
BUDGETS = st.sampled_from([1, 2, 3, 7, 1000])


def law(number: int) -> pytest.MarkDecorator:
    """Each operator in each variant; a strict xfail where the registry says why the law cannot hold."""
    cases = []
    for name, variant in CASES:
        reason = OPERATORS[name].exceptions.get(number)
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        shown = "-".join([name, *(f"{key}={value}" for key, value in variant.items())])
        cases.append(pytest.param(name, variant, marks=marks, id=shown))
    return pytest.mark.parametrize(("name", "variant"), cases)


def make(name: str, variant: dict[str, Any], k: int = 3) -> Learner:
    learner: Any = OPERATORS[name].cls
    made: Learner = learner(**(variant if "keep" in variant else budget(learner, k) | variant))
    return made


def one_by_one(model: Learner, records: list[Record]) -> NDArray[np.float64]:
    scores = []
    for record in records:
        scores.append(model.score_one(record["x"]))
        if record["y"] is not None:
            model.learn_one(record["x"], record["y"])
    return np.array(scores)


def same(one: Learner, other: Learner) -> bool:
    """Everything that can be seen of them, bit for bit."""
    return (
        one.state() == other.state()
        and one.selected == other.selected
        and one.version == other.version
        and one.metrics() == other.metrics()
        and one.params == other.params
    )


@law(1)
@pytest.mark.parametrize("shape", SHAPES)
@given(seed=SEEDS, k=BUDGETS)
@settings(max_examples=8, deadline=None, derandomize=True)
def test_batching_changes_nothing(name: str, variant: dict[str, Any], shape: str, seed: int, k: int) -> None:
    records = stream(shape, seed)
    whole, pieces, single, stopping = (make(name, variant, k) for _ in range(4))
    batch = batch_of(records)
    scores = whole.prequential(batch)
    in_pieces = [pieces.prequential(batch_of(piece)) for piece in split(records, seed)]
    np.testing.assert_array_equal(np.concatenate(in_pieces), scores)
    assert same(pieces, whole)
    np.testing.assert_array_equal(one_by_one(single, records), scores)
    assert same(single, whole)
    stopped = np.empty(len(batch))
    row = 0
    while row < len(batch):
        row = stopping.advance(batch, row, len(batch), stopped, until_change=True)
    np.testing.assert_array_equal(stopped, scores)
    assert same(stopping, whole)


@law(1)
def test_slices_of_one_batch_are_batches(name: str, variant: dict[str, Any]) -> None:
    batch = batch_of(stream("sparse", 1, rows=60))
    whole, sliced, ranged = (make(name, variant) for _ in range(3))
    scores = whole.prequential(batch)
    cuts = [(0, 1), (1, 30), (30, 30), (30, 60)]
    pieces = [sliced.prequential(batch.slice(start, stop)) for start, stop in cuts]
    np.testing.assert_array_equal(np.concatenate(pieces), scores)
    assert same(sliced, whole)
    in_place = np.full(len(batch), 7.0)
    for start, stop in cuts:
        assert ranged.advance(batch, start, stop, in_place) == stop
        assert (in_place[stop:] == 7.0).all()
    np.testing.assert_array_equal(in_place, scores)


@law(1)
def test_advance_stops_right_after_the_row_that_changed_the_selection(name: str, variant: dict[str, Any]) -> None:
    records = stream("sparse", 2, rows=80)
    batch = batch_of(records)
    model, reference = make(name, variant), make(name, variant)
    scores = np.empty(len(batch))
    row = 0
    stops = []
    while row < len(batch):
        row = model.advance(batch, row, len(batch), scores, until_change=True)
        stops.append(row)
    changes = []
    before: set[str] = set()
    for at, record in enumerate(records):
        one_by_one(reference, [record])
        after = {selected.feature for selected in reference.selected}
        if after != before:
            changes.append(at + 1)
        before = after
    assert len(changes) > 3
    assert stops == changes + ([len(batch)] if changes[-1] != len(batch) else [])


@law(2)
@pytest.mark.parametrize("shape", SHAPES)
@given(seed=SEEDS, k=BUDGETS, at=st.integers(0, 40))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_restoring_changes_nothing(
    name: str, variant: dict[str, Any], shape: str, seed: int, k: int, at: int
) -> None:
    records = stream(shape, seed)
    going_on = make(name, variant, k)
    going_on.learn_many(batch_of(records[:at]))
    state = going_on.state()
    kept = pack(state)
    restored = type(going_on).from_state(unpack(kept))
    assert same(restored, going_on)
    rest = batch_of(records[at:])
    np.testing.assert_array_equal(restored.prequential(rest), going_on.prequential(rest))
    assert same(restored, going_on)
    assert pack(state) == kept, "the state shares something with the model"
    assert_builtins(state)


def assert_builtins(value: Any) -> None:
    assert type(value) in (dict, list, str, int, float, bool, bytes), type(value)
    for part in value.values() if type(value) is dict else value if type(value) is list else ():
        assert_builtins(part)


LONG = long_stream(0)


def make_large(name: str, variant: dict[str, Any]) -> Learner:
    """The same operators with a hundred times the room, half of the features for those that keep a proportion."""
    larger = {"max_features": 100 * variant["max_features"]} if "max_features" in variant else {}
    return make(name, {**variant, **larger}, k=700 if "k" in budget(OPERATORS[name].cls, 1) else 10)


@law(1)
def test_batching_changes_nothing_in_the_long_run(name: str, variant: dict[str, Any]) -> None:
    whole, pieces, stopping = (make_large(name, variant) for _ in range(3))
    scores, stopped = whole.prequential(LONG), np.empty(len(LONG))
    cuts = [0, 1, 2, 40, 700, 1100, 1101, 2400, len(LONG)]
    in_pieces = [pieces.prequential(alone(LONG, start, stop)) for start, stop in pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(in_pieces), scores)
    assert same(pieces, whole)
    row = 0
    while row < len(LONG):
        row = stopping.advance(LONG, row, len(LONG), stopped, until_change=True)
    np.testing.assert_array_equal(stopped, scores)
    assert same(stopping, whole)


@law(2)
def test_restoring_changes_nothing_in_the_long_run(name: str, variant: dict[str, Any]) -> None:
    going_on, restored = make_large(name, variant), make_large(name, variant)
    for start in range(0, len(LONG), 250):
        restored = type(restored).from_state(unpack(pack(restored.state())))
        piece = LONG.slice(start, start + 250)
        np.testing.assert_array_equal(restored.prequential(piece), going_on.prequential(piece))
        assert same(restored, going_on)


@law(2)
def test_another_operator_or_version_is_refused(name: str, variant: dict[str, Any]) -> None:
    model = make(name, variant)
    with pytest.raises(ValueError, match="'someone-else'"):
        type(model).from_state(model.state() | {"operator": "someone-else"})
    with pytest.raises(ValueError, match="version 99"):
        type(model).from_state(model.state() | {"state_version": 99})
    assert model.state()["operator"] == name


@law(3)
@pytest.mark.parametrize("shape", ["sparse", "dense", "growing"])
@given(seed=SEEDS, k=BUDGETS)
@settings(max_examples=8, deadline=None, derandomize=True)
def test_the_order_of_features_does_not_matter(
    name: str, variant: dict[str, Any], shape: str, seed: int, k: int
) -> None:
    rng = np.random.default_rng(seed)
    records = stream(shape, seed)
    shuffled = []
    for record in records:
        items = list(record["x"].items())
        order = rng.permutation(len(items)).tolist()
        shuffled.append({"x": {items[at][0]: items[at][1] for at in order}, "y": record["y"]})
    model, other = make(name, variant, k), make(name, variant, k)
    np.testing.assert_allclose(
        other.prequential(batch_of(shuffled)), model.prequential(batch_of(records)), atol=1e-12, rtol=1e-12
    )
    weights = {feature: (weight, since) for feature, weight, since in model.selected}
    others = {feature: (weight, since) for feature, weight, since in other.selected}
    assert weights.keys() == others.keys()
    for feature, (weight, since) in weights.items():
        assert others[feature][0] == pytest.approx(weight, abs=1e-12, rel=1e-12)
        assert others[feature][1] == since


RANDOM = {"perceptron-random", "ofs-partial", "perceptron-partial"}


@pytest.mark.parametrize("name", sorted(OPERATORS.keys() - RANDOM))
def test_ties_go_to_the_smaller_key_whatever_the_order(name: str) -> None:
    for order in (["2", "10", "9", "a"], ["a", "10", "9", "2"], ["10", "a", "2", "9"]):
        learner: Any = OPERATORS[name].cls
        model = learner(**{"k": 2} if "k" in budget(learner, 2) else {"proportion": 0.5})
        model.learn_one(dict.fromkeys(order, 0.5), 1)
        assert [selected.feature for selected in model.selected] == ["2", "9"]


@law(4)
@pytest.mark.parametrize("shape", SHAPES)
@given(seed=SEEDS, k=BUDGETS)
@settings(max_examples=6, deadline=None, derandomize=True)
def test_budgets_hold_after_every_step(name: str, variant: dict[str, Any], shape: str, seed: int, k: int) -> None:
    model = make(name, variant, k)
    labelled = 0
    names: set[str] = set()
    for record in stream(shape, seed):
        one_by_one(model, [record])
        if record["y"] is not None:
            labelled += 1
            names |= {name for name, value in record["x"].items() if value != 0}
        selected = model.selected
        assert len(selected) <= allowed(model.params, len(names))
        assert len({feature for feature, _, _ in selected}) == len(selected)
        assert all(weight != 0 and np.isfinite(weight) for _, weight, _ in selected)
        assert all(1 <= since <= labelled for _, _, since in selected)
        sizes = [abs(weight) for _, weight, _ in selected]
        assert sizes == sorted(sizes, reverse=True)
        assert model.version == labelled


@law(5)
def test_state_does_not_follow_the_number_of_names(name: str, variant: dict[str, Any]) -> None:
    grows = "max_features" in make(name, variant).params
    model = make(name, variant | {"max_features": 50} if grows else variant, k=4)
    sizes = []
    for part in range(4):
        for _ in range(5):
            names = tuple(f"n{part}-{i}" for i in range(300))
            rows = np.arange(301)
            model.learn_many(InstanceBatch.from_csr(rows, np.arange(300), np.ones(300), [1] * 300, names=names))
        sizes.append(len(pack(model.state())))
    # no room in the ball for more than a feature or two, or a threshold that frees it: it may hold now more, now fewer
    if variant.get("beta", np.inf) < 4 or name == "fobos":
        assert len(model.state()["names"]) <= 50
        return
    assert max(sizes[1:]) <= sizes[0] + 20
    if grows:
        assert model.metrics()["values_ignored"] > 0


@law(5)
def test_zero_is_the_same_as_absent(name: str, variant: dict[str, Any]) -> None:
    records = stream("sparse", 3)
    with_zeros = [{"x": {"zero": 0.0, **record["x"], "none": 0}, "y": record["y"]} for record in records]
    one, other = make(name, variant), make(name, variant)
    np.testing.assert_array_equal(one.prequential(batch_of(records)), other.prequential(batch_of(with_zeros)))
    assert same(one, other)
    third = make(name, variant)  # zeros of features that have weights
    with_known = [
        {"x": record["x"] | {name: 0.0 for name in ("free", "0", "1") if name not in record["x"]}, "y": record["y"]}
        for record in records
    ]
    expected = one_by_one(make(name, variant), records)
    np.testing.assert_allclose(one_by_one(third, with_known), expected, atol=1e-12, rtol=1e-12)
    assert {feature for feature, _, _ in third.selected} == {feature for feature, _, _ in one.selected}


BAD: list[tuple[Any, Any, str]] = [
    ({"good": 1.0, "bad": float("nan")}, 1, "bad"),
    ({"good": 1.0, "bad": float("inf")}, 1, "bad"),
    ({"good": 1.0, "bad": -float("inf")}, -1, "bad"),
    ({"good": 1.0, "bad": 10**400}, -1, "bad"),
    ({"good": 1.0, "bad": "1"}, 1, "bad"),
    ({"good": 1.0, "bad": None}, 1, "bad"),
    ({"good": 1.0, "bad": True}, 1, "bad"),
    ({"good": 1.0, "bad": 1j}, 1, "bad"),
    ({"good": 1.0, "": 1.0}, 1, "''"),
    ({"good": 1.0, 7: 1.0}, 1, "7"),
]


@law(6)
@pytest.mark.parametrize(("x", "y", "named"), BAD)
def test_bad_values_are_refused_before_anything_changes(
    name: str, variant: dict[str, Any], x: Any, y: int, named: str
) -> None:
    model = make(name, variant)
    model.learn_many(batch_of(stream("sparse", 4)))
    before = model.state()
    for attempt in (lambda: model.learn_one(x, y), lambda: model.score_one(x), lambda: model.predict_one(x)):
        with pytest.raises(ValueError, match=named):
            attempt()
    assert model.state() == before


@law(6)
@pytest.mark.parametrize("y", [0, 2, -2, 0.5, "1", None, float("nan")])
def test_bad_labels_are_refused_before_anything_changes(name: str, variant: dict[str, Any], y: Any) -> None:
    model = make(name, variant)
    before = model.state()
    with pytest.raises(ValueError, match="label"):
        model.learn_one({"good": 1.0}, y)
    assert model.state() == before


@law(1)
def test_true_and_false_are_labels(name: str, variant: dict[str, Any]) -> None:
    one, other = make(name, variant), make(name, variant)
    for record in stream("sparse", 6):
        if record["y"] is not None:
            one.learn_one(record["x"], record["y"])
            other.learn_one(record["x"], record["y"] == 1)
    assert same(one, other)


@law(6)
def test_advance_refuses_rows_and_scores_that_do_not_fit(name: str, variant: dict[str, Any]) -> None:
    batch = batch_of(stream("sparse", 5))
    model = make(name, variant)
    before = model.state()
    for start, stop in ((-1, 3), (3, 2), (0, len(batch) + 1)):
        with pytest.raises(ValueError, match="rows"):
            model.advance(batch, start, stop, np.empty(len(batch)))
    wrong: list[Any] = [np.empty(3), np.empty(len(batch), dtype=np.float32), np.empty(2 * len(batch))[::2]]
    for scores in wrong:
        with pytest.raises(ValueError, match="scores"):
            model.advance(batch, 0, 3, scores)
    assert model.state() == before


@law(7)
def test_inputs_are_never_changed(name: str, variant: dict[str, Any]) -> None:
    records = stream("dense", 6)
    batch = batch_of(records)
    arrays: list[NDArray[Any]] = [batch.indptr, batch.indices, batch.values, batch.y]
    copies = [array.copy() for array in arrays]
    read_only = batch_of(records)
    for part in ("indptr", "indices", "values", "y"):
        getattr(read_only, part).flags.writeable = False
    model, other = make(name, variant), make(name, variant)
    kernel: Any = type(model).KERNEL  # type: ignore[attr-defined]
    scores, compiled = model.prequential(batch), len(kernel.signatures)
    np.testing.assert_array_equal(scores, other.prequential(read_only))
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.flags.writeable
    assert len(kernel.signatures) == compiled, "compiled again for arrays that are read-only"


@law(7)
def test_random_draws_follow_from_the_seed_alone(name: str, variant: dict[str, Any]) -> None:
    records = stream("dense", 7, rows=100)
    one, other = make(name, variant), make(name, variant)
    np.random.seed(1)
    one.learn_many(batch_of(records))
    np.random.seed(2)
    other.learn_many(batch_of(records))
    assert same(one, other)
    if name in RANDOM or one.params.get("selection") == "random":
        third = make(name, {**variant, "seed": 99})
        third.learn_many(batch_of(records))
        assert third.selected != one.selected
