"""The laws of an operator, for the joint ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.schemas.state import pack, unpack

from .cases import OPERATORS, each, make, one_by_one, same
from .streams import SHAPES, Record, batch_of, dense, made, split, stream

SEEDS = st.integers(0, 2**32 - 1)


@each()
@pytest.mark.parametrize("shape", SHAPES)
@given(seed=SEEDS)
@settings(max_examples=2, deadline=None, derandomize=True)
def test_batching_changes_nothing(name: str, variant: dict[str, Any], shape: str, seed: int) -> None:
    records = stream(shape, seed)
    whole, pieces, single, stopping = (make(name, variant) for _ in range(4))
    batch = batch_of(records)
    decisions = whole.prequential(batch)
    in_pieces = [decision for piece in split(records, seed) for decision in pieces.prequential(batch_of(piece))]
    assert in_pieces == list(decisions)
    assert same(pieces, whole)
    assert one_by_one(single, records) == list(decisions)
    assert same(single, whole)
    stopped = type(decisions)(len(batch))
    row = 0
    while row < len(batch):
        row = stopping.advance(batch, row, len(batch), stopped, until_change=True)
    assert list(stopped) == list(decisions)
    assert same(stopping, whole)


@each()
@pytest.mark.parametrize("shape", SHAPES)
@given(seed=SEEDS, at=st.integers(0, 160))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_restoring_changes_nothing(name: str, variant: dict[str, Any], shape: str, seed: int, at: int) -> None:
    records = stream(shape, seed)
    going_on = make(name, variant)
    going_on.learn_many(batch_of(records[:at]))
    state = going_on.state()
    kept = pack(state)
    restored = type(going_on).from_state(unpack(kept))
    assert same(restored, going_on)
    rest = batch_of(records[at:])
    assert list(restored.prequential(rest)) == list(going_on.prequential(rest))
    assert same(restored, going_on)
    assert pack(state) == kept, "the state shares something with the model"
    assert_builtins(state)


def assert_builtins(value: Any) -> None:
    assert type(value) in (dict, list, str, int, float, bool, bytes, type(None)), type(value)
    for part in value.values() if type(value) is dict else value if type(value) is list else ():
        assert_builtins(part)


@each()
def test_another_operator_or_version_is_refused(name: str, variant: dict[str, Any]) -> None:
    model = make(name, variant)
    with pytest.raises(ValueError, match="'someone-else'"):
        type(model).from_state(model.state() | {"operator": "someone-else"})
    with pytest.raises(ValueError, match="version 99"):
        type(model).from_state(model.state() | {"state_version": 99})
    assert model.state()["operator"] == name


@each()
@pytest.mark.parametrize("shape", SHAPES)
def test_the_order_of_names_does_not_matter(name: str, variant: dict[str, Any], shape: str) -> None:
    if "max_features" in variant:
        pytest.skip("which names there is room for depends on which come first")
    records = stream(shape, 3)
    turned = [Record(dict(reversed(record.x.items())), record.y) for record in records]
    one, other = make(name, variant), make(name, variant)
    assert list(one.prequential(batch_of(records))) == list(other.prequential(batch_of(turned)))
    assert same(one, other)


@each()
@pytest.mark.parametrize("shape", SHAPES)
def test_decisions_are_sound(name: str, variant: dict[str, Any], shape: str) -> None:
    records = stream(shape, 4, rows=240)
    model = make(name, variant)
    decided = list(model.prequential(batch_of(records)))
    for at, decision in enumerate(decided):
        if sum(record.y != 0 for record in records[:at]) < 40:
            assert decision == (0, (), (), 0.0)
            continue
        assert sum(decision.posterior) == pytest.approx(1.0, abs=1e-12)
        assert min(decision.posterior) >= 0
        assert decision.label in model.classes
        assert len(set(decision.features_used)) == len(decision.features_used) <= variant.get("horizon", 400)
        costs = variant.get("cost", 0.02)
        each_cost = [costs if isinstance(costs, float) else costs.get(f, costs["*"]) for f in decision.features_used]
        assert decision.cost == pytest.approx(sum(each_cost))
    assert model.metrics()["features"] <= variant.get("max_features", 100_000)
    if "max_features" in variant:
        assert model.metrics()["values_ignored"] > 0
    weights = [weight for _, weight, _ in model.selected]
    assert weights
    assert weights == sorted(weights, reverse=True)
    assert all(0 < weight <= 1 for weight in weights)
    assert all(0 <= since <= model.version for _, _, since in model.selected)


@each()
def test_the_state_does_not_grow_with_the_number_of_instances(name: str, variant: dict[str, Any]) -> None:
    model = make(name, variant | {"bins": 3, "binning": "quantiles", "budget": None})
    rng = np.random.default_rng(1)
    sizes = []
    for _ in range(6):
        y = rng.choice([-1, 1], 400)
        model.learn_many(dense(rng.normal(size=(400, 6)) + 0.4 * y[:, None], y))
        sizes.append(len(pack(model.state() | {"policy": None, "used": [], "now": {}, "last": {}, "since": {}})))
    assert max(sizes[1:]) <= sizes[0] + 60


BAD: list[tuple[dict[Any, Any], Any, str]] = [
    ({"a": float("nan")}, 1, "feature 'a' is nan: values must be finite"),
    ({"a": 1.0, "b": float("inf")}, 1, "feature 'b' is inf: values must be finite"),
    ({"a": "1"}, 1, "feature 'a' is '1', not a number"),
    ({"a": True}, 1, "feature 'a' is True, not a number"),
    ({"": 1.0}, 1, "feature '' must be named by a string that is not empty"),
    ({7: 1.0}, 1, "feature 7 must be named by a string that is not empty"),
    ({"a": 1.0}, 0, "label 0 is not -1, or 1, 2, ... up to 127"),
    ({"a": 1.0}, 128, "label 128 is not -1, or 1, 2, ... up to 127"),
    ({"a": 1.0}, 1.0, "label 1.0 is not -1, or 1, 2, ... up to 127"),
]


@each()
def test_bad_values_are_refused_before_anything_changes(name: str, variant: dict[str, Any]) -> None:
    model = make(name, variant)
    model.learn_many(batch_of(stream("dense", 1, rows=90)))
    before = model.state()
    for x, y, message in BAD:
        with pytest.raises(ValueError, match=r"feature|label") as caught:
            model.learn_one(x, y)
        assert message in str(caught.value)
        assert model.state() == before
    with pytest.raises(ValueError, match="label -2"):
        model.learn_many(made([0, 0, 0], [], [], [1, -2], ()))
    assert model.state() == before
    first = model.order[0]
    with pytest.raises(ValueError, match=f"feature '{first}' is nan"):
        model.classify_one({first: float("nan")})


@each()
def test_inputs_are_never_changed(name: str, variant: dict[str, Any]) -> None:
    records = stream("nulls", 6)
    batch = batch_of(records)
    copies = batch.values.copy(), batch.indices.copy(), batch.y.copy()
    model, other = make(name, variant), make(name, variant)
    for array in (batch.values, batch.indices, batch.indptr, batch.y):
        array.flags.writeable = False
    model.prequential(batch)
    for now, copy in zip((batch.values, batch.indices, batch.y), copies, strict=True):
        np.testing.assert_array_equal(now, copy)
    other.prequential(batch_of(records))
    assert same(model, other)
    for kernel in type(model).KERNELS:
        assert len(kernel.signatures) <= 1, f"{kernel} compiled twice"


@each()
@pytest.mark.parametrize("shape", SHAPES)
def test_no_feature_is_asked_for_after_the_decision(name: str, variant: dict[str, Any], shape: str) -> None:
    records = stream(shape, 8)
    model = make(name, variant)
    model.learn_many(batch_of(records[:120]))
    absent = None if variant.get("absent") == "missing" else 0.0
    for record in records[120:]:
        asked: list[str] = []

        def fetch(feature: str, x: Any = record.x, asked: list[str] = asked) -> float | None:
            asked.append(feature)
            return x.get(feature, absent)  # type: ignore[no-any-return]

        decision = model.classify_one(fetch)
        assert tuple(asked) == decision.features_used
        assert decision == model.classify_one(record.x) == model.classify(batch_of([record]))[0]


@each()
def test_what_is_wanted_is_what_the_policy_looks_at(name: str, variant: dict[str, Any]) -> None:
    model = make(name, variant)
    assert model.wanted_features() is None
    records = stream("dense", 9)
    model.learn_many(batch_of(records[:100]))
    wanted = []
    for record in records[100:]:
        wanted.append(model.wanted_features())
        assert wanted[-1] in (None, list(model.reachable))
        assert model.reachable == model.order[: len(model.reachable)]
        asked_for = {f: v for f, v in record.x.items() if wanted[-1] is None or f in wanted[-1]}
        assert model.classify_one(asked_for) == model.classify_one(record.x)
        model.learn_one(record.x, record.y)
    assert (None in wanted) == ("explore" in variant)


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cost": -1}, "cost must be a number of at least 0, not -1"),
        ({"cost": {"a": "x"}}, "cost of 'a' must be a number of at least 0, not 'x'"),
        ({"misclassification": [[0, 1]]}, "misclassification must be a square table of numbers of at least 0"),
        ({"misclassification": [[0, 1], [-1, 0]]}, "misclassification must be a square table"),
        ({"bins": 1}, "bins must be a whole number of at least 2, not 1"),
        ({"binning": "sturges"}, "binning must be one of quantiles, widths, not 'sturges'"),
        ({"binning": {"a": [2, 1]}}, "binning: the cuts of 'a' must rise, and be at most 3 for 4 bins"),
        ({"binning": {"a": ["1"]}}, "binning: the cuts of 'a' must be a list of finite numbers"),
        ({"warm_up": 0}, "warm_up must be a whole number of at least 1, not 0"),
        ({"refit_every": 0}, "refit_every must be a whole number of at least 1, not 0"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, not 0"),
        ({"absent": "no"}, "absent must be one of zero, missing, not 'no'"),
        ({"explore": 1}, "explore must be a number of at least 0 and below 1, not 1"),
        ({"budget": 0}, "budget must be a finite number above 0, not 0"),
        ({"dependence": "graph"}, "dependence must be "),
    ],
)
def test_hyper_parameters_are_checked_at_once(cls: Any, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"must|cuts") as caught:
        cls(**params)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=OPERATORS)
def test_nothing_is_left_to_compile_after_warming_up(cls: Any) -> None:
    cls.compile()
    assert cls.is_compiled()


def test_etana_refuses_a_tree() -> None:
    with pytest.raises(ValueError, match='dependence = "tree" is for f-etana'):
        OPERATORS["etana"](dependence="tree")
