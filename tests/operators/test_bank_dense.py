"""A bank of dense learners gives what as many models by themselves give, bit for bit, however they interleave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sluiceway.operators.bank.bank import Bank, Banked, Emission, Special
from sluiceway.operators.bank.book import ENTRIES, SWEEP_AT
from sluiceway.operators.bank.dense import banked
from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, LABELLED_LATER
from sluiceway.operators.learners.dense import DenseLearner
from sluiceway.operators.learners.ofs import OFS
from sluiceway.operators.registry import learner
from sluiceway.operators.stages.emission import Emit
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.instance_columns import Columns
from tests.operators.test_bank import LENGTH, NAMES, ROWS, columns, learn

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("pa", {"k": 5}),
    ("pa", {"keep": 0.7, "variant": 1, "C": 0.1, "trigger": "hinge"}),
    ("pa", {"k": 3, "variant": 2, "max_features": 30}),
    ("pa-objective", {"k": 5, "alpha": 0.5}),
    ("pa-objective", {"keep": 0.9, "alpha": 1e9, "trigger": "hinge", "max_features": 150}),
    ("pa-l1", {"k": 5, "beta": 1.5, "trigger": "hinge"}),
    ("pa-l1", {"keep": 0.5, "beta": 0.1}),
    ("pa-l1", {"k": 8, "beta": 20.0, "max_features": 25}),
    ("pa-l2", {"k": 5, "beta": 1.2, "trigger": "hinge"}),
    ("pa-l2", {"keep": 0.8, "beta": 0.2}),
    ("pa-l2", {"k": 4, "max_features": 40}),
    ("norma", {"k": 5}),
    ("norma", {"keep": 0.6, "eta": 0.5, "lam": 1.999999, "max_features": 60}),
    ("fobos", {"k": 5}),
    ("fobos", {"keep": 0.9, "eta": 0.3, "lam": 0.05, "schedule": "constant", "trigger": "error"}),
    ("fobos", {"k": 5, "eta": 0.5, "lam": 0.02, "max_features": 30}),
]
ONE_EACH = [VARIANTS[at] for at in (0, 3, 5, 8, 11, 13)]


def made_by(name: str, params: dict[str, Any]) -> tuple[DenseLearner, Banked]:
    """A model, and what a bank needs of it."""
    model = learner(name)(**params)
    assert isinstance(model, DenseLearner)
    found = banked(model)
    assert found is not None
    return model, found


def one_row(made: Columns, features: NDArray[np.int64], values: NDArray[np.float64], row: int) -> InstanceBatch:
    zeros = np.zeros(1, dtype=np.int64)
    names, indptr = tuple(NAMES[at] for at in features[row]), np.array((0, LENGTH))
    indices, y = np.arange(LENGTH, dtype=np.int32), made.y[row : row + 1]
    return InstanceBatch(names, indptr, indices, values[row].copy(), y, zeros, zeros, zeros)


def assert_same(bank: Bank, number: int, model: DenseLearner) -> None:
    """What is selected, and all of the state: the names and numbers of every slot."""
    assert bank.selected(number) == [tuple(one) for one in model.selected]
    assert bank.learner.metrics(bank, number) == model.metrics()
    assert bank.learner.wanted_features(bank, number) is None
    head, state = bank.heads[number], model.state()
    assert head["version"] == state["version"]
    assert head["stale"] == state["stale"]
    assert [head["scale"], head["squares"], head["shrunk"]] == state["numbers"]
    assert head["active"] == len(state["names"])
    if "hand" in state:
        assert (head["hand"], head["counted"]) == (state["hand"], state["counted"])


@pytest.mark.parametrize(("name", "params"), VARIANTS)
@pytest.mark.parametrize("streams", [1, 12])
def test_a_bank_is_as_many_models(streams: int, name: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(streams)
    _, given = made_by(name, params)
    bank, models = Bank(given, scaled=False), [made_by(name, params)[0] for _ in range(streams)]
    numbers = np.array(bank.add(streams))
    for turn in range(9):
        features, values, made = columns(rng)
        chosen = rng.integers(0, streams, ROWS)
        scores, _ = learn(bank, made, numbers[chosen])
        expected = [
            float(models[stream].prequential(one_row(made, features, values, row))[0])
            for row, stream in enumerate(chosen)
        ]
        assert scores.tolist() == expected
        if turn % 3 == 2:  # put away and woken up elsewhere, in another order of numbers
            packed = bank.pack(numbers)
            assert not len(bank.touched())
            bank = Bank(given, scaled=False)
            bank.add(3)
            numbers = bank.wake(packed)
            assert bank.pack(numbers) == packed
    for number, model in zip(numbers.tolist(), models, strict=True):
        assert_same(bank, number, model)


@pytest.mark.parametrize(("name", "params"), ONE_EACH)
def test_a_thousand_streams(name: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    _, given = made_by(name, params)
    bank, models = Bank(given, scaled=False), [made_by(name, params)[0] for _ in range(1000)]
    numbers = np.array(bank.add(1000))
    for _ in range(12):
        features, values, made = columns(rng)
        chosen = rng.integers(0, 1000, ROWS)
        scores, _ = learn(bank, made, numbers[chosen])
        for row, stream in enumerate(chosen):
            assert scores[row] == models[stream].prequential(one_row(made, features, values, row))[0]
    for number, model in zip(numbers.tolist(), models, strict=True):
        assert_same(bank, number, model)


@pytest.mark.parametrize(("name", "params"), ONE_EACH)
def test_a_long_stream_goes_through_all_weights_now_and_then(name: str, params: dict[str, Any]) -> None:
    """Sums made anew, and scales and thresholds that are brought into the weights, fall on the same rows."""
    rng = np.random.default_rng(5)
    model, given = made_by(name, {**params, "max_features": 120})
    bank = Bank(given, scaled=False)
    bank.add()
    numbers = np.zeros(ROWS, dtype=np.int64)
    for _ in range(25):
        features, values, made = columns(rng)
        scores, _ = learn(bank, made, numbers)
        assert scores.tolist() == [
            float(model.prequential(one_row(made, features, values, row))[0]) for row in range(ROWS)
        ]
    assert model.version > 2048
    assert_same(bank, 0, model)


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_however_the_rows_are_split_the_bytes_are_the_same(name: str, params: dict[str, Any]) -> None:
    """Also if the model is put away and woken up between any two polls."""
    emit = Emission(every=50, on_change=True, min_gap=3)
    made = [columns(np.random.default_rng(seed))[2] for seed in range(3)]
    given = made_by(name, params)[1]
    whole, pieces, woken = Bank(given), Bank(given), Bank(given)
    for bank in (whole, pieces, woken):
        bank.add()
    numbers = np.zeros(ROWS, dtype=np.int64)
    at = numbers
    for poll in made:
        due = [snapshots(whole, poll, numbers, emit, [ROWS])]
        due.append(snapshots(pieces, poll, numbers, emit, [1, 2, 40, 41, 90, ROWS]))
        packed = woken.pack(np.array([at[0]]))
        woken = Bank(given)
        woken.add(2)
        at = np.full(ROWS, woken.wake(packed)[0])
        due.append(snapshots(woken, poll, at, emit, [77, ROWS]))
        assert due[0] == due[1] == due[2]
        one = np.zeros(1, dtype=np.int64)
        assert whole.pack(one) == pieces.pack(one) == woken.pack(at[:1])


def snapshots(
    bank: Bank, made: Columns, numbers: NDArray[np.int64], emit: Emission, stops: list[int]
) -> list[tuple[int, Any]]:
    """The rows after which a snapshot was due, and what was selected; the rows given up to each stop in turn."""
    found, scores, start = [], np.empty(ROWS), 0
    for stop in stops:
        part = rows_of(made, start, stop)
        poll, row = bank.poll(part, numbers[start:stop]), 0
        while row < stop - start:
            row, due = bank.advance(poll, row, scores[: stop - start], emit)
            if due:
                number = int(numbers[start + row - 1])
                found.append((start + row - 1, bank.selected(number)))
                bank.emitted(np.array([number]))
        start = stop
    return found


def rows_of(made: Columns, start: int, stop: int) -> Columns:
    first, last = int(made.indptr[start]), int(made.indptr[stop])
    by_row = ("y", "ts", "offset", "next_offset", "id_at", "id_size", "label_only", "streams")
    by_feature = ("address", "key", "name_at", "name_size", "values")
    return Columns(
        text=made.text,
        indptr=made.indptr[start : stop + 1] - first,
        **{field: getattr(made, field)[start:stop] for field in by_row},
        **{field: getattr(made, field)[first:last].copy() for field in by_feature},
    )


@pytest.mark.parametrize(("name", "params"), VARIANTS)
@pytest.mark.parametrize(
    "emit", [Emit(every=20), Emit(every=0, on_change=True), Emit(every=25, on_change=True, min_gap=7)]
)
def test_snapshots_are_due_where_a_stream_makes_them(name: str, params: dict[str, Any], emit: Emit) -> None:
    rng = np.random.default_rng(3)
    given = made_by(name, params)[1]
    bank, models = Bank(given, scaled=False), [made_by(name, params)[0] for _ in range(3)]
    numbers = np.array(bank.add(3))
    emitted: dict[int, tuple[int, set[str]]] = {stream: (0, set()) for stream in range(3)}
    for _ in range(3):
        features, values, made = columns(rng)
        chosen = rng.integers(0, 3, ROWS)
        due = snapshots(bank, made, numbers[chosen], Emission(emit.every, emit.on_change, emit.min_gap), [ROWS])
        expected = []
        for row, stream in enumerate(chosen.tolist()):
            model, (version, held) = models[stream], emitted[stream]
            before = model.version
            model.prequential(one_row(made, features, values, row))
            names = {one.feature for one in model.selected}
            if model.version > before and emit.due(model.version, version, names != held):
                expected.append((row, [tuple(one) for one in model.selected]))
                emitted[stream] = (model.version, names)
        assert due == expected


@pytest.mark.parametrize(("name", "params"), ONE_EACH)
def test_a_change_is_found_at_the_row_at_which_a_model_stops(name: str, params: dict[str, Any]) -> None:
    """`advance(until_change=True)` of a model of its own, over rows whose names are bound together."""
    features, values, made = columns(np.random.default_rng(11))
    model, given = made_by(name, params)
    bank = Bank(given, scaled=False)
    bank.add()
    due = snapshots(bank, made, np.zeros(ROWS, dtype=np.int64), Emission(on_change=True), [ROWS])
    zeros = np.zeros(ROWS, dtype=np.int64)
    indptr, indices = np.arange(ROWS + 1) * LENGTH, features.ravel().astype(np.int32)
    batch = InstanceBatch(tuple(NAMES), indptr, indices, values.ravel().copy(), made.y, zeros, zeros, zeros)
    row, scores, expected = 0, np.empty(ROWS), []
    held: set[str] = set()
    while row < ROWS:
        row = model.advance(batch, row, ROWS, scores, until_change=True)
        if {one.feature for one in model.selected} != held:
            held = {one.feature for one in model.selected}
            expected.append((row - 1, [tuple(one) for one in model.selected]))
    assert due == expected


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_names_that_nobody_holds_leave_the_book(name: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    given = made_by(name, params)[1]
    bank, often = Bank(given), Bank(given)
    numbers = np.array(bank.add(5))
    often.add(5)
    for turn in range(12):
        made = columns(rng, [f"{turn // 3}-{i}" for i in range(100)])[2]
        chosen = numbers[rng.integers(0, 5, ROWS)]
        often.book.counts[SWEEP_AT] = 0
        assert learn(bank, made, chosen)[0].tolist() == learn(often, made, chosen)[0].tolist()
    assert often.book.counts[ENTRIES] <= bank.book.counts[ENTRIES]
    for number in numbers.tolist():
        assert often.selected(number) == bank.selected(number)
    assert often.pack(numbers) == bank.pack(numbers)


@pytest.mark.parametrize(("name", "params"), ONE_EACH)
def test_later_labels_count_as_the_instances_that_they_judge(name: str, params: dict[str, Any]) -> None:
    features, values, made = columns(np.random.default_rng(1))
    model, given = made_by(name, params)
    special = Special(ROWS)
    special.kind[10:60:5] = LABELLED_LATER
    special.judged_by[10:60:10] = np.arange(0, 50, 10)
    special.given_score[15:60:10] = 0.5
    special.kind[7::20] = LABEL_OF_NOTHING
    special.evicted[::30] = 2
    made.y[10:60:5] = 1
    bank = Bank(given, scaled=False)
    bank.add()
    poll, scores = bank.poll(made, np.zeros(ROWS, dtype=np.int64), special), np.empty(ROWS)
    assert bank.advance(poll, 0, scores, Emission()) == (ROWS, False)
    expected, seen, mistakes = np.zeros(ROWS), 0, 0
    for row in range(ROWS):
        if special.kind[row] == LABEL_OF_NOTHING:
            continue
        expected[row] = model.prequential(one_row(made, features, values, row))[0]
        score = expected[row]
        if special.kind[row] == LABELLED_LATER:
            score = expected[special.judged_by[row]] if special.judged_by[row] >= 0 else special.given_score[row]
        else:
            seen += 1
        mistakes += made.y[row] != 0 and made.y[row] * score <= 0
    assert scores.tolist() == expected.tolist()
    assert (bank.heads["seen"][0], bank.heads["mistakes"][0]) == (seen, mistakes)
    assert bank.heads["evicted"][0] == special.evicted[special.kind != LABEL_OF_NOTHING].sum()
    assert_same(bank, 0, model)


def test_a_number_that_is_used_again_is_a_new_model() -> None:
    made = columns(np.random.default_rng(1))[2]
    bank, fresh = (Bank(made_by("pa", {"k": 3})[1]) for _ in range(2))
    numbers = np.array(bank.add())
    learn(bank, made, np.repeat(numbers, ROWS))
    bank.pack(numbers)
    bank.drop(int(numbers[0]))
    assert bank.add() == numbers.tolist()
    fresh.add()
    assert bank.pack(numbers) == fresh.pack(np.zeros(1, dtype=np.int64))
    assert bank.selected(int(numbers[0])) == []


def test_other_learners_are_of_another_family() -> None:
    assert banked(OFS(k=3)) is None
