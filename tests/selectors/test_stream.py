"""Doubly streaming SAOLA: at every moment what SAOLA makes of all instances so far, however split or merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sluiceway.operators import registry
from sluiceway.operators.contract import Selected
from sluiceway.operators.kernels.keys import feature_keys
from sluiceway.operators.kinds.instance_selector import INSTANCE_SELECTOR
from sluiceway.operators.selectors.saola import Saola
from sluiceway.operators.selectors.saola_stream import SaolaStream
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.state import pack, unpack

from . import oracles

Record = dict[str, Any]
SEEDS = st.integers(0, 2**32 - 1)
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "saola-stream": [
        {"significance": 0.1},
        {"significance": 0.1, "bound": "max", "ties": "strict"},
        {"measure": "symmetric-uncertainty"},
        {"measure": "symmetric-uncertainty", "ties": "strict", "delta": 0.02},
        {"measure": "mutual-information"},
    ]
}
each = pytest.mark.parametrize(
    "params", VARIANTS["saola-stream"], ids=lambda params: "-".join(map(str, params.values()))
)


def law(number: int) -> pytest.MarkDecorator:
    """Each selector of instances in each variant; a strict xfail where the registry says why the law cannot hold."""
    cases = []
    for name, entry in registry.OPERATORS.items():
        if entry.kind is INSTANCE_SELECTOR:
            reason = entry.exceptions.get(number)
            marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
            for params in VARIANTS.get(name, [{}]):
                shown = "-".join([name, *map(str, params.values())])
                cases.append(pytest.param(entry.cls, params, marks=marks, id=shown))
    return pytest.mark.parametrize(("make", "params"), cases)


def growing(seed: int, rows: int = 60, discrete: bool = False, unlabelled: float = 0.1) -> list[Record]:
    """Features appear one after the other; some follow the label, some each other, some lie far from 0."""
    rng = np.random.default_rng(seed)
    records: list[Record] = []
    for row in range(rows):
        y = int(rng.choice([-1, 1]))
        x: dict[str, float] = {}
        hidden = y + rng.normal()
        for i in range(2 + row // 6):
            name = ("word-" if i % 3 == 0 else "") + str(i)
            value = [hidden, y, 0][i % 3] + rng.normal() * (1 + i % 4)
            if discrete:
                value = float(np.floor(value)) if i % 2 else float(value > 0)
            elif i % 4 == 1:
                value += 1e6
            if rng.random() < 0.8 and value:
                x[name] = float(value)
        records.append({"x": x, "y": None if rng.random() < unlabelled else y})
    return records


def batch_of(records: list[Record]) -> InstanceBatch:
    return InstanceBatch.from_records(records)


def is_discrete(params: dict[str, Any]) -> bool:
    return "measure" in params


def by_oracle(records: list[Record], params: dict[str, Any]) -> dict[str, float]:
    """Algorithm 1 on the whole table so far: absent is 0, columns in order of feature key."""
    labelled = [record for record in records if record["y"] is not None]
    names = sorted({name for record in labelled for name in record["x"]}, key=lambda name: int(feature_keys([name])[0]))
    target = np.array([record["y"] for record in labelled], dtype=np.float64)
    columns = [np.array([record["x"].get(name, 0.0) for record in labelled]) for name in names]
    measure = oracles.MEASURES[params.get("measure", "fisher-z")]
    return {names[i]: measure(columns[i], target) for i in oracles.saola(target, columns, **params)}


def found(model: SaolaStream) -> dict[str, float]:
    return {feature: weight for feature, weight, _ in model.selected}


def alike(one: SaolaStream, other: SaolaStream) -> bool:
    return (
        one.state() == other.state()
        and one.selected == other.selected
        and one.version == other.version
        and one.metrics() == other.metrics()
    )


@each
@given(seed=SEEDS)
@settings(max_examples=6, deadline=None, derandomize=True)
def test_the_selection_is_that_of_saola_on_all_so_far(params: dict[str, Any], seed: int) -> None:
    records = growing(seed, discrete=is_discrete(params))
    model = SaolaStream(**params)
    for at in range(0, len(records), 6):
        model.learn_many(batch_of(records[at : at + 6]))
        assert found(model) == pytest.approx(by_oracle(records[: at + 6], params), abs=1e-9)
    assert found(model)


@each
@given(seed=SEEDS)
@settings(max_examples=6, deadline=None, derandomize=True)
def test_parts_merge_in_any_order(params: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = growing(seed, discrete=is_discrete(params))
    part_of = rng.integers(0, 4, len(records))
    parts = []
    for i in range(4):
        model = SaolaStream(**params)
        model.learn_many(batch_of([record for record, part in zip(records, part_of, strict=True) if part == i]))
        parts.append(model)
    states = [part.state() for part in parts]
    expected = by_oracle(records, params)
    for _ in range(3):
        order = rng.permutation(4).tolist()
        one = parts[order[0]].merge(parts[order[1]])
        merged = one.merge(parts[order[2]].merge(parts[order[3]]))
        assert found(merged) == pytest.approx(expected, abs=1e-9)
        assert merged.version == sum(record["y"] is not None for record in records)
        merged.learn_one({"later": 1.0}, 1)
    assert [part.state() for part in parts] == states


def test_state_follows_the_features_not_the_instances() -> None:
    rng = np.random.default_rng(1)
    for measure in ("fisher-z", "symmetric-uncertainty"):
        sizes = []
        model = SaolaStream(measure=measure)
        for rows in (1_000, 99_000):
            X = rng.integers(0, 3, (rows, 12)).astype(float)
            y = np.where(X[:, 0] + rng.normal(size=rows) > 1, 1, -1)
            model.learn_many(InstanceBatch.from_arrays(X, y))
            state = model.state()
            sizes.append(sum(len(value) for value in state.values() if isinstance(value, bytes)))
            assert model.version == (1_000 if len(sizes) == 1 else 100_000)
        assert sizes[0] == sizes[1] > 0


@law(1)
@given(seed=SEEDS)
@settings(max_examples=6, deadline=None, derandomize=True)
def test_batching_and_restoring_change_nothing(make: Any, params: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = growing(seed, discrete=is_discrete(params))
    params = {**params, "refresh": 7, "max_features": 9}
    whole, pieces, single, stopping = (make(**params) for _ in range(4))
    batch = batch_of(records)
    whole.learn_many(batch)
    at = 0
    while at < len(records):
        size = int(rng.choice([1, 2, 5, 17]))
        pieces.learn_many(batch_of(records[at : at + size]))
        pieces = make.from_state(unpack(pack(pieces.state())))
        at += size
    for record in records:
        if record["y"] is not None:
            single.learn_one(record["x"], record["y"])
    row = 0
    while row < len(batch):
        row = stopping.advance(batch, row, len(batch), until_change=True)
    assert alike(pieces, whole)
    assert alike(single, whole)
    assert alike(stopping, whole)
    assert whole.metrics()["values_ignored"] > 0
    assert whole.metrics()["places"] == 9


@law(3)
@given(seed=SEEDS)
@settings(max_examples=4, deadline=None, derandomize=True)
def test_the_order_of_features_does_not_matter(make: Any, params: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = growing(seed, discrete=is_discrete(params))
    shuffled = []
    for record in records:
        items = list(record["x"].items())
        order = rng.permutation(len(items)).tolist()
        shuffled.append({"x": dict(items[i] for i in order), "y": record["y"]})
    one, other = make(**params, max_features=8), make(**params, max_features=8)
    one.learn_many(batch_of(records))
    other.learn_many(batch_of(shuffled))
    assert alike(one, other)


def test_since_is_known_to_within_refresh() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    X[:100, 0] = 0  # appears at row 101
    exact, coarse = SaolaStream(refresh=1), SaolaStream(refresh=50)
    for model in (exact, coarse):
        model.learn_many(InstanceBatch.from_arrays(X, y))
    (first,) = [s for s in exact.selected if s.feature == "0"]
    (later,) = [s for s in coarse.selected if s.feature == "0"]
    assert 101 < first.since < 150
    assert later.since in (101, 151)
    assert first.weight == later.weight


def test_it_stops_where_a_look_found_a_change() -> None:
    records = growing(5, rows=80)
    batch = batch_of(records)
    model, reference = SaolaStream(refresh=1, significance=0.1), SaolaStream(refresh=1, significance=0.1)
    stops, row = [], 0
    while row < len(batch):
        row = model.advance(batch, row, len(batch), until_change=True)
        stops.append(row)
    changes, before = [], set[str]()
    for at, record in enumerate(records, start=1):
        if record["y"] is not None:
            reference.learn_one(record["x"], record["y"])
        after = set(found(reference))
        if after != before:
            changes.append(at)
        before = after
    assert len(changes) > 3
    assert stops == changes + ([len(batch)] if changes[-1] != len(batch) else [])


def test_far_from_zero_nothing_cancels() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 4))
    y = np.where(X[:, 0] + X[:, 1] + rng.normal(size=500) > 0, 1, -1)
    X = X + 1e9
    model = SaolaStream()
    model.learn_many(InstanceBatch.from_arrays(X, y))
    expected = {str(i): abs(float(np.corrcoef(X[:, i] - 1e9, y)[0, 1])) for i in range(2)}
    assert found(model) == pytest.approx(expected, abs=1e-9)


SCALES = [1e-300, 1e-170, 1e-160, 1e-150, 1e-140, 1e-130, 1e130, 1e140, 1e150, 1e160, 1e300]
OFFSETS = [1e6, 1e9, 1e12, 1e13, 1e14, 1e15]


@pytest.mark.parametrize(("scale", "offset"), [(scale, 0.0) for scale in SCALES] + [(1.0, at) for at in OFFSETS])
def test_out_of_range_is_constant_and_says_so(scale: float, offset: float) -> None:
    """Within the range, r is right but for what 106 bits lose where the squares of x are far above its variance."""
    rng = np.random.default_rng(6)
    y = np.where(rng.random(400) < 0.5, 1, -1)
    x = np.round(4 * (y + rng.normal(size=400))) * scale + offset
    model = SaolaStream()
    model.learn_many(InstanceBatch.from_arrays(x[:, None], y))
    right = oracles.correlation((x - offset) / scale, y.astype(float))
    constant = model.metrics()["constant"]
    mean, spread = float(np.mean(x / scale)), float(np.std((x - offset) / scale))
    kappa, kappa_y = (mean / spread) ** 2 + 1, 1 / float(np.var(y))
    lost = 2.0**-40 + 16 * 2.0**-106 * (np.sqrt(kappa * kappa_y) + right * (kappa + kappa_y) / 2)
    of_oracle = 0.5 * 10.0**-oracles.DIGITS
    assert found(model) == ({} if constant else pytest.approx({"0": right}, abs=lost + of_oracle))
    assert constant == (not 1e-135 <= scale <= 1e145 or offset > 1e14)


def test_a_constant_stays_one_however_many_instances() -> None:
    y = np.where(np.random.default_rng(0).random(500_000) < 0.1, 1, -1)
    for constant in (0.3, 3.3):
        model = SaolaStream()
        batch = InstanceBatch.from_arrays(np.full((len(y), 1), constant), y)
        for _ in range(4):
            model.learn_many(batch)
        assert (model.metrics()["constant"], model.selected) == (1, [])


def test_constant_features_and_single_classes_are_irrelevant() -> None:
    for measure in ("fisher-z", "symmetric-uncertainty"):
        model = SaolaStream(measure=measure)
        assert model.selected == []
        assert (model.metrics()["constant"], model.metrics()["single_class_target"]) == (0, 0)
        for i in range(20):
            model.learn_one({"always": 0.1, "x": 1.0, "y": i}, 1)
        assert model.selected == []
        assert (model.metrics()["constant"], model.metrics()["single_class_target"]) == (2, 1)
        for i in range(20):
            model.learn_one({"always": 0.1, "x": float(i % 2)}, -1)
        assert "x" in found(model)
        assert (model.metrics()["constant"], model.metrics()["single_class_target"]) == (1, 0)
        restored = SaolaStream.from_state(model.state())
        assert restored.metrics() == model.metrics()


def test_more_than_two_classes() -> None:
    rng = np.random.default_rng(4)
    model = SaolaStream(measure="symmetric-uncertainty")
    batch = Saola(measure="symmetric-uncertainty")
    y = rng.integers(1, 5, 300)
    x = np.where(rng.random(300) < 0.8, y, 0).astype(float)
    for value, label in zip(x.tolist(), y.tolist(), strict=True):
        model.learn_one({"x": value}, label)
    batch.begin(y)
    batch.learn_feature("x", x)
    assert model.selected == [Selected("x", batch.selected[0].weight, 1)]


def test_at_the_limit_the_smaller_key_of_a_row_comes_first() -> None:
    model = SaolaStream(max_features=2)
    model.learn_one({"9": 1.0, "3": 1.0, "a": 1.0, "none": 0.0}, 1)
    assert model.state()["names"] == ["", "3", "9"]
    counted = {"places": 2, "values_ignored": 1, "constant": 2, "single_class_target": 1}
    assert model.metrics() == counted
    other = SaolaStream(max_features=2)
    other.learn_one({"7": 1.0}, 1)
    with pytest.raises(ValueError, match="max_features"):
        model.merge(other)
    with pytest.raises(ValueError, match="not set alike"):
        model.merge(SaolaStream())


@pytest.mark.parametrize(
    ("x", "y", "named"),
    [
        ({"good": 1.0, "bad": float("nan")}, 1, "bad"),
        ({"good": 1.0, "bad": 10**400}, 1, "bad"),
        ({"good": 1.0, "bad": "1"}, 1, "bad"),
        ({"good": 1.0, "bad": True}, 1, "bad"),
        ({"good": 1.0, "": 1.0}, 1, "''"),
        ({"good": 1.0, 7: 1.0}, 1, "7"),
        ({"good": 1.0}, 0, "label"),
        ({"good": 1.0}, 0.5, "label"),
    ],
)
def test_bad_values_are_refused_before_anything_changes(x: Any, y: Any, named: str) -> None:
    model = SaolaStream()
    model.learn_many(batch_of(growing(1)))
    before = model.state()
    with pytest.raises(ValueError, match=named):
        model.learn_one(x, y)
    with pytest.raises(ValueError, match="rows"):
        model.advance(batch_of(growing(1)), 3, 2)
    assert model.state() == before


def test_inputs_are_never_changed_and_other_states_refused() -> None:
    batch = batch_of(growing(2))
    arrays: list[NDArray[Any]] = [batch.indptr, batch.indices, batch.values, batch.y]
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    model = SaolaStream()
    model.learn_many(batch)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    with pytest.raises(ValueError, match="'someone-else'"):
        SaolaStream.from_state(model.state() | {"operator": "someone-else"})
    with pytest.raises(ValueError, match="version 99"):
        SaolaStream.from_state(model.state() | {"state_version": 99})
