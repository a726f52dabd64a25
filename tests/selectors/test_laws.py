"""The laws of an operator, over every column selector of the registry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.schemas.columns import SparseColumn
from sluiceway.schemas.state import pack, unpack

from .cases import SELECTORS, alike, each, law, make, names_of
from .streams import SHAPES, split, stream

SEEDS = st.integers(0, 2**32 - 1)


def learnt(name: str, variant: dict[str, Any], shape: str = "continuous", seed: int = 1, count: int = 30) -> Any:
    target, names, columns = stream(shape, seed, count)
    model = make(name, variant)
    model.begin(target)
    model.learn_features(names, columns)
    return model


@law(1)
@pytest.mark.parametrize("shape", SHAPES)
@given(seed=SEEDS)
@settings(max_examples=3, deadline=None, derandomize=True)
def test_blocks_change_nothing(name: str, variant: dict[str, Any], shape: str, seed: int) -> None:
    target, names, columns = stream(shape, seed)
    whole, pieces, single, table = (make(name, variant) for _ in range(4))
    for model in (whole, pieces, single, table):
        model.begin(target)
    verdicts = whole.learn_features(names, columns)
    in_pieces = [
        verdict
        for start, stop in split(len(names), seed)
        for verdict in pieces.learn_features(names[start:stop], columns[start:stop])
    ]
    assert in_pieces == verdicts
    assert alike(pieces, whole)
    assert [single.learn_feature(*one) for one in zip(names, columns, strict=True)] == verdicts
    assert alike(single, whole)
    assert table.learn_features(names, np.array(columns)) == verdicts
    assert alike(table, whole)


@law(1)
def test_many_more_columns_than_there_was_room_for(name: str, variant: dict[str, Any]) -> None:
    """The store and the list of events grow inside a block; nothing shows of it."""
    rng = np.random.default_rng(3)
    target = rng.normal(size=200)
    count = 40 if name == "osfs" else 120  # OSFS tests every subset of the others
    columns = [target + 3 * rng.normal(size=200) for _ in range(count)]
    if variant.get("test") == "g2" or variant.get("measure", "fisher-z") != "fisher-z" or name == "fcbf":
        target = (target > 0).astype(float)
        columns = [(column > 0).astype(float) for column in columns]
    names = [*map(str, range(count))]
    whole, single = make(name, variant), make(name, variant)
    whole.begin(target)
    single.begin(target)
    verdicts = whole.learn_features(names, columns)
    assert [single.learn_feature(*one) for one in zip(names, columns, strict=True)] == verdicts
    assert alike(single, whole)


@law(1)
@pytest.mark.parametrize("shape", SHAPES)
@given(seed=SEEDS)
@settings(max_examples=3, deadline=None, derandomize=True)
def test_stopping_at_changes_changes_nothing(name: str, variant: dict[str, Any], shape: str, seed: int) -> None:
    """Each call ends with the first column that changed the selection, or at the end; some names come again."""
    target, names, columns = stream(shape, seed)
    names = [*names[:20], *names[:10]] if seed % 2 else names
    whole, stopping = make(name, variant), make(name, variant)
    whole.begin(target)
    stopping.begin(target)
    try:
        verdicts = whole.learn_features(names, columns)
    except ValueError:
        assert len(set(names)) < len(names)
        with pytest.raises(ValueError, match="selected already"):
            stopping.prepare(names, columns)
        assert alike(stopping, whole)
        return
    block = stopping.prepare(names, columns)
    got: list[Any] = []
    while len(got) < len(names):
        before = set(names_of(stopping))
        part = stopping.advance(block, len(got), len(names), until_change=True)
        assert part
        got += part
        assert [verdict.changes for verdict in part[:-1]] == [False] * (len(part) - 1)
        assert part[-1].changes == (set(names_of(stopping)) != before)
        assert part[-1].changes or len(got) == len(names)
    assert got == verdicts
    assert alike(stopping, whole)


@law(2)
@pytest.mark.parametrize("shape", SHAPES)
@given(seed=SEEDS, at=st.integers(0, 30))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_restoring_changes_nothing(name: str, variant: dict[str, Any], shape: str, seed: int, at: int) -> None:
    target, names, columns = stream(shape, seed)
    going_on = make(name, variant)
    going_on.begin(target[::-1])
    going_on.learn_features(["before"], columns[:1])
    going_on.begin(target)
    going_on.learn_features(names[:at], columns[:at])
    state = going_on.state()
    kept = pack(state)
    restored = type(going_on).from_state(unpack(kept))
    assert alike(restored, going_on)
    rest = names[at:], columns[at:]
    assert restored.learn_features(*rest) == going_on.learn_features(*rest)
    assert alike(restored, going_on)
    assert pack(state) == kept, "the state shares something with the model"
    assert_builtins(state)


def assert_builtins(value: Any) -> None:
    assert type(value) in (dict, list, str, int, float, bool, bytes), type(value)
    for part in value.values() if type(value) is dict else value if type(value) is list else ():
        assert_builtins(part)


@law(2)
def test_a_new_model_can_be_restored(name: str, variant: dict[str, Any]) -> None:
    model = make(name, variant)
    restored = type(model).from_state(model.state())
    assert alike(restored, model)
    with pytest.raises(ValueError, match="'a' has come before any target"):
        restored.learn_feature("a", [1.0])


@law(2)
def test_another_operator_or_version_is_refused(name: str, variant: dict[str, Any]) -> None:
    model = make(name, variant)
    with pytest.raises(ValueError, match="'someone-else'"):
        type(model).from_state(model.state() | {"operator": "someone-else"})
    with pytest.raises(ValueError, match="version 99"):
        type(model).from_state(model.state() | {"state_version": 99})
    assert model.state()["operator"] == name


@law(3)
def test_the_order_of_columns_does_not_matter(name: str, variant: dict[str, Any]) -> None:
    for seed in range(24):
        shape = SHAPES[seed % 4]
        target, names, columns = stream(shape, seed)
        order = np.random.default_rng(seed).permutation(len(names)).tolist()
        one, other = make(name, variant), make(name, variant)
        one.begin(target)
        other.begin(target)
        one.learn_features(names, columns)
        other.learn_features([names[i] for i in order], [columns[i] for i in order])
        assert [selected[:2] for selected in one.selected] == [selected[:2] for selected in other.selected]


@each()
def test_names_say_nothing_about_columns(name: str, variant: dict[str, Any]) -> None:
    target, names, columns = stream("continuous", 5)
    one, other = make(name, variant), make(name, variant)
    one.begin(target)
    other.begin(target)
    one.learn_features(names, columns)
    other.learn_features([str(10**9 + int(n)) for n in names], columns)  # keys in the same order: ties stay as they are
    assert {str(10**9 + int(n)) for n in names_of(one)} == set(names_of(other))


@law(4)
def test_what_is_selected_is_in_order_and_there(name: str, variant: dict[str, Any]) -> None:
    target, names, columns = stream("copies", 6)
    model = make(name, variant)
    model.begin(target)
    for at, one in enumerate(zip(names, columns, strict=True), start=1):
        model.learn_feature(*one)
        assert model.version == at
        weights = [weight for _, weight, _ in model.selected]
        assert weights == sorted(weights, reverse=True)
        assert all(0 < weight < np.inf for weight in weights)
        assert all(1 <= since <= at for _, _, since in model.selected)
        assert len(set(names_of(model))) == len(model.selected)


@law(5)
def test_state_follows_the_columns_held_not_those_seen(name: str, variant: dict[str, Any]) -> None:
    model = learnt(name, variant, count=20)
    before = len(pack(model.state()))
    for part in range(3):
        model.learn_features([f"constant-{part}-{i}" for i in range(200)], np.ones((200, model.rows)))
    assert len(pack(model.state())) <= before + 20
    assert model.metrics()["constant"] >= 600


@law(5)
def test_no_more_than_max_features_are_held(name: str, variant: dict[str, Any]) -> None:
    """Columns that all tell something of the target and little of each other."""
    rng = np.random.default_rng(2)
    target = np.tile([1.0, -1.0], 200)
    columns = np.array([np.where(rng.random(400) < 0.75, target, -target) for _ in range(12)])
    names = [*map(str, range(12))]
    free = make(name, variant)
    free.begin(target)
    free.learn_features(names, columns)
    limit = min(len(free.state()["names"]) - 1, 4)
    bounded = make(name, variant | {"max_features": limit})
    bounded.begin(target)
    for at in range(12):
        verdict = bounded.learn_feature(names[at], columns[at])
        assert len(bounded.state()["names"]) <= limit
        assert (verdict.reason == "left out: max_features columns are held") <= (not verdict.kept)
    assert bounded.metrics()["columns_left_out"] > 0
    assert free.metrics()["columns_left_out"] == 0
    again = make(name, variant | {"max_features": limit})
    again.begin(target)
    again.learn_features(names, columns)
    assert alike(again, bounded)
    with pytest.raises(ValueError, match="max_features"):
        make(name, variant | {"max_features": 0})


@law(5)
def test_a_block_of_new_names_copies_no_model(
    name: str, variant: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a single column, whatever its name."""
    model = learnt(name, variant, "binary")
    columns = stream("continuous", 9).columns

    def state() -> Any:
        raise AssertionError("copied")

    monkeypatch.setattr(model, "state", state)
    model.learn_features(["new-1", "new-2"], columns[:2])
    selected = model.selected[0].feature
    with pytest.raises(ValueError, match="selected already"):
        model.learn_feature(selected, columns[3])
    with pytest.raises(AssertionError, match="copied"):
        model.learn_features(["new-3", selected], columns[:2])


BAD: list[tuple[Any, Any, str]] = [
    ("bad", [1.0] * 89, "column 'bad' has 89 rows, the target has 90"),
    ("bad", [1.0] * 89 + [float("nan")], "column 'bad' is nan in row 89: values must be finite"),
    ("bad", [float("inf")] + [1.0] * 89, "column 'bad' is inf in row 0: values must be finite"),
    ("bad", ["1"] * 90, "column 'bad' is not a list of numbers"),
    ("bad", [None] * 90, "column 'bad' is not a list of numbers"),
    ("bad", [[1.0] * 90], "column 'bad' is not a list of numbers"),
    ("", [1.0] * 90, "column '' must be named by a string that is not empty"),
    (7, [1.0] * 90, "column 7 must be named by a string that is not empty"),
    ("bad", SparseColumn(91, [3], [1.0]), "column 'bad' has 91 rows, the target has 90"),
    ("bad", SparseColumn(90, [90], [1.0]), "column 'bad' has a row outside"),
    ("bad", SparseColumn(90, [-1], [1.0]), "column 'bad' has a row outside"),
    ("bad", SparseColumn(90, [3, 3], [1.0, 2.0]), "column 'bad' names a row twice"),
    ("bad", SparseColumn(90, [3.5], [1.0]), "column 'bad' has rows that are not whole numbers"),
    ("bad", SparseColumn(90, [3], [1.0, 2.0]), "column 'bad' has 1 rows for 2 values"),
    ("bad", SparseColumn(90, [3], [float("nan")]), "column 'bad' is nan in row 3: values must be finite"),
]


@law(6)
def test_bad_columns_are_refused_before_anything_changes(name: str, variant: dict[str, Any]) -> None:
    model = learnt(name, variant)
    good = stream("continuous", 9).columns[0]
    before = model.state()
    for bad_name, column, message in BAD:
        for names, columns in (([bad_name], [column]), (["good", bad_name], [good, column])):
            with pytest.raises(ValueError, match="column") as caught:
                model.learn_features(names, columns)
            assert message in str(caught.value)
            assert model.state() == before
    with pytest.raises(ValueError, match="column 'b' is nan in row 2"):
        model.learn_features(["a", "b"], np.where(np.arange(180).reshape(2, 90) == 92, np.nan, 1.0))
    with pytest.raises(ValueError, match="2 names for 1 columns"):
        model.learn_features(["a", "b"], [good])
    assert model.state() == before


@law(6)
def test_a_selected_name_may_not_come_again(name: str, variant: dict[str, Any]) -> None:
    model = learnt(name, variant, "binary")
    assert model.selected
    selected = model.selected[0].feature
    good = stream("continuous", 9).columns[0]
    before = model.state()
    for names, columns in (([selected], [good]), (["other", selected], [np.ones(90), good])):
        with pytest.raises(ValueError, match=f"column '{selected}' is selected already"):
            model.learn_features(names, columns)
        assert model.state() == before
    discarded = next(n for n in stream("binary", 1).names if n not in names_of(model))
    model.learn_feature(discarded, good)
    assert model.version == before["version"] + 1


@law(6)
def test_a_name_twice_in_a_block_is_judged_in_turn(name: str, variant: dict[str, Any]) -> None:
    target, _, _ = stream("binary", 1)
    rng = np.random.default_rng(4)
    column = np.where(rng.random(90) < 0.9, target, -target)
    model = make(name, variant)
    model.begin(target)
    before = model.state()
    with pytest.raises(ValueError, match="column 'a' is selected already"):
        model.learn_features(["a", "a"], [column, column])
    assert model.state() == before
    flat = np.ones(90)
    verdicts = model.learn_features(["a", "a"], [flat, column])
    assert [verdict.kept for verdict in verdicts] == [False, True]


@law(6)
@pytest.mark.parametrize("target", [[], [1.0, float("nan")], ["a", 1.0], [[1.0, 2.0]], 7])
def test_bad_targets_are_refused_before_anything_changes(name: str, variant: dict[str, Any], target: Any) -> None:
    model = learnt(name, variant)
    before = model.state()
    with pytest.raises(ValueError, match="the target"):
        model.begin(target)
    assert model.state() == before


@law(7)
def test_inputs_are_never_changed(name: str, variant: dict[str, Any]) -> None:
    target, names, columns = stream("levels", 6)
    table = np.array(columns)
    copies = target.copy(), table.copy()
    model, other = make(name, variant), make(name, variant)
    model.begin(target)
    model.learn_features(names, table)
    np.testing.assert_array_equal(target, copies[0])
    np.testing.assert_array_equal(table, copies[1])
    state = model.state()
    target[:] = 0
    table[:] = 0
    assert model.state() == state, "the model shares something with its input"
    read_only = [*map(np.array, columns)]
    for column in read_only:
        column.flags.writeable = False
    copies[0].flags.writeable = False
    other.begin(copies[0])
    other.learn_features(names, read_only)
    assert other.state() == state
    kernel: Any = SELECTORS[name].cls.KERNEL
    assert len(kernel.signatures) == 1, "compiled twice"


@each()
def test_sparse_columns_are_columns(name: str, variant: dict[str, Any]) -> None:
    target, names, columns = stream("binary", 8)
    dense, sparse = make(name, variant), make(name, variant)
    dense.begin(target)
    sparse.begin(target)
    at = [np.flatnonzero(column) for column in columns]
    thin = [SparseColumn(90, rows, column[rows]) for rows, column in zip(at, columns, strict=True)]
    assert sparse.learn_features(names, thin) == dense.learn_features(names, columns)
    assert alike(sparse, dense)
    assert sparse.learn_feature("none", SparseColumn(90, [], [])).reason == "irrelevant: the column is constant"


@each()
def test_integers_and_truth_values_are_numbers(name: str, variant: dict[str, Any]) -> None:
    target, names, columns = stream("binary", 8)
    floats, bools = make(name, variant), make(name, variant)
    floats.begin(target)
    bools.begin(target.astype(np.int8))
    floats.learn_features(names, columns)
    bools.learn_features(names, np.array(columns, dtype=np.bool_))
    assert alike(bools, floats)


@each()
def test_a_new_target_starts_a_new_generation(name: str, variant: dict[str, Any]) -> None:
    target, names, columns = stream("continuous", 2)
    model = learnt(name, variant, seed=1)
    assert model.generation == 0
    seen = model.version
    model.begin(target)
    assert (model.generation, model.version, model.selected) == (1, seen, [])
    model.learn_features(names, columns)
    fresh = learnt(name, variant, seed=2)
    assert [selected[:2] for selected in model.selected] == [selected[:2] for selected in fresh.selected]
    assert all(since > seen for _, _, since in model.selected)


@each()
def test_nothing_to_learn_is_irrelevant_and_says_so(name: str, variant: dict[str, Any]) -> None:
    model = make(name, variant)
    model.begin([1.0] * 90)
    verdict = model.learn_feature("a", stream("continuous", 1).columns[0])
    assert (verdict.kept, verdict.reason) == (False, "irrelevant: the target has a single value")
    assert model.metrics()["single_class_target"] == 1
    model.begin(stream("continuous", 1).target)
    verdict = model.learn_feature("a", [3.0] * 90)
    assert (verdict.kept, verdict.reason) == (False, "irrelevant: the column is constant")
    assert model.metrics()["single_class_target"] == 0
    for rows in (1, 2, 3):
        model.begin([1.0, -1.0, 1.0][:rows])
        model.learn_feature("b", [0.0, 1.0, 5.0][:rows])


@each()
def test_columns_at_the_ends_of_the_range(name: str, variant: dict[str, Any]) -> None:
    largest = float(np.finfo(np.float64).max)
    target, _, columns = stream("continuous", 1)
    model = make(name, variant)
    model.begin(target)
    sign = np.where(columns[0] > 0, 1.0, -1.0)
    model.learn_features(
        ["huge", "tiny", "near"], [sign * largest, sign * 5e-324, 1e15 + sign]
    )
    for _, weight, _ in model.selected:
        assert 0 < weight <= 1
    assert type(model).is_compiled()


def test_columns_differing_by_a_scale_are_the_same_column() -> None:
    target, _, columns = stream("continuous", 1)
    for scale, shift in ((1.7e308 / 8, 0.0), (1e-300, 0.0), (3.0, 1e6), (-1e-5, 7.0)):
        one, other = make("saola", {"significance": 0.9}), make("saola", {"significance": 0.9})
        one.begin(target)
        other.begin(target)
        one.learn_feature("a", columns[0])
        other.learn_feature("a", columns[0] * scale + shift)
        assert [s.weight for s in one.selected] == pytest.approx([s.weight for s in other.selected], abs=1e-8)
