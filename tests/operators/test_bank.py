"""A bank of models gives what as many models by themselves give, bit for bit, however they interleave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sluiceway.operators import registry
from sluiceway.operators.bank.arena import words_in_use, words_taken
from sluiceway.operators.bank.bank import Bank, Emission, Special
from sluiceway.operators.bank.book import ENTRIES, SWEEP_AT
from sluiceway.operators.bank.learners import banked
from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, LABELLED_LATER
from sluiceway.operators.bank.sparse import BankedOFS
from sluiceway.operators.learners.ofs import OFS
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.name_hash import TABLE_ADDRESS, TABLE_AT, TABLE_KEY, TABLE_SIZE, name_table
from sluiceway.schemas.swar import READABLE_BEYOND

ROWS, LENGTH = 150, 20
NAMES = [f"wört-{i}" if i % 3 else str(i) for i in range(200)]

Given = tuple[NDArray[np.int64], NDArray[np.float64], Columns]


def columns(rng: np.random.Generator, names: list[str] = NAMES) -> Given:
    """Rows of random features, as they are in a poll: which, with what values, and all of it in columns."""
    spelt = [name.encode() for name in names]
    text = np.zeros(sum(map(len, spelt)) + len(READABLE_BEYOND), dtype=np.uint8)
    table = name_table(text, 0, spelt)
    features = np.array([rng.choice(len(names), LENGTH, replace=False) for _ in range(ROWS)])
    values = rng.normal(size=features.shape) if rng.random() < 0.5 else np.ones(features.shape)
    zeros, flat = np.zeros(ROWS, dtype=np.int64), table[features.ravel()]
    made = Columns(
        text=text,
        streams=[b"s"] * ROWS,
        indptr=np.arange(ROWS + 1) * LENGTH,
        y=rng.choice([-1, 0, 1], ROWS, p=[0.45, 0.1, 0.45]).astype(np.int8),
        ts=zeros,
        offset=zeros,
        next_offset=zeros,
        id_at=zeros,
        id_size=zeros.astype(np.int32),
        label_only=zeros.astype(np.bool_),
        address=flat[:, TABLE_ADDRESS].copy(),
        key=flat[:, TABLE_KEY].astype(np.int64),
        name_at=flat[:, TABLE_AT].astype(np.int64),
        name_size=flat[:, TABLE_SIZE].astype(np.int32),
        values=values.ravel().copy(),
    )
    return features, values, made


def learn(
    bank: Bank,
    made: Columns,
    models: NDArray[np.int64],
    emit: Emission | None = None,
    special: Special | None = None,
) -> tuple[Any, list[int]]:
    """The scores, and the rows after which a snapshot was due."""
    poll, scores, row, due = bank.poll(made, models, special), np.empty(ROWS), 0, []
    while row < ROWS:
        row, stopped = bank.advance(poll, row, scores, emit or Emission())
        due += [row - 1] * stopped
    return scores, due


def alone(
    model: Any,
    features: NDArray[np.int64],
    values: NDArray[np.float64],
    y: NDArray[np.int8],
    names: list[str] = NAMES,
) -> float:
    zeros = np.zeros(1, dtype=np.int64)
    named, indptr = tuple(names[at] for at in features), np.array((0, LENGTH))
    indices = np.arange(LENGTH, dtype=np.int32)
    return float(model.prequential(InstanceBatch(named, indptr, indices, values, y, zeros, zeros, zeros))[0])


def new_bank(name: str, params: dict[str, Any]) -> Bank:
    learner = banked(registry.get(name).cls(**params))
    assert learner is not None
    return Bank(learner, scaled=False)


def assert_same(bank: Bank, number: int, model: Any) -> None:
    """All that a model tells is the same in the bank."""
    assert bank.selected(number) == [tuple(one) for one in model.selected]
    assert bank.learner.metrics(bank, number) == model.metrics()
    assert bank.learner.wanted_features(bank, number) == model.wanted_features()
    assert bank.heads["version"][number] == model.version


VARIANTS: list[tuple[str, int, dict[str, Any]]] = [
    ("ofs", 40, {"k": 10}),
    ("ofs", 5, {"k": 3, "decay": True, "eta": 0.5}),
    ("ofs", 2, {"k": 300}),
    ("ofs", 11, {"k": 1}),
    ("ofs", 1000, {"k": 4}),
    ("perceptron-truncated", 20, {"k": 10}),
    ("perceptron-truncated", 2, {"k": 300}),
    ("perceptron-truncated", 1000, {"k": 1}),
    ("perceptron-random", 20, {"k": 10}),
    ("perceptron-random", 3, {"k": 150, "seed": 5}),
    ("perceptron-random", 3, {"k": 30, "max_features": 50}),
    ("perceptron-random", 1000, {"k": 10}),
    ("ofs-partial", 20, {"k": 10}),
    ("ofs-partial", 2, {"k": 300, "epsilon": 1.0, "margin": 0}),
    ("ofs-partial", 7, {"k": 15, "input": "random", "seed": 3}),
    ("ofs-partial", 3, {"k": 30, "epsilon": 0.7, "radius": 0.5, "max_features": 50}),
    ("ofs-partial", 1000, {"k": 10, "epsilon": 0.5}),
    ("perceptron-partial", 20, {"k": 30}),
    ("perceptron-partial", 3, {"k": 60, "selection": "random"}),
    ("perceptron-partial", 3, {"k": 20, "max_features": 41}),
    ("perceptron-partial", 1000, {"k": 50}),
    ("stsd", 20, {}),
    ("stsd", 3, {"variant": 0, "proportion": 0.1, "lam": 0.5}),
    ("stsd", 3, {"variant": 2, "C": 3.0, "lam": 1e-6}),
    ("stsd", 4, {"selection": "random", "proportion": 0.3, "seed": 9}),
    ("stsd", 4, {"selection": "all", "update": "perceptron"}),
    ("stsd", 4, {"update": "perceptron", "proportion": 0.2}),
    ("stsd", 3, {"proportion": 0.9, "max_features": 50}),
    ("stsd", 1000, {"proportion": 0.2}),
]


@pytest.mark.parametrize(("name", "streams", "params"), VARIANTS)
def test_a_bank_is_as_many_models(name: str, streams: int, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(streams)
    bank, models = new_bank(name, params), [registry.get(name).cls(**params) for _ in range(streams)]
    numbers = np.array(bank.add(streams))
    for turn in range(9):
        features, values, made = columns(rng)
        chosen = rng.integers(0, streams, ROWS)
        scores, _ = learn(bank, made, numbers[chosen])
        expected = [
            alone(models[stream], features[row], values[row].copy(), made.y[row : row + 1])
            for row, stream in enumerate(chosen)
        ]
        assert scores.tolist() == expected
        assert set(bank.touched().tolist()) >= set(numbers[chosen].tolist())
        if turn % 3 == 2:  # put away and woken up elsewhere, in another order of numbers
            packed = bank.pack(numbers)
            assert not len(bank.touched())
            bank = new_bank(name, params)
            bank.add(3)
            numbers = bank.wake(packed)
            assert bank.pack(numbers) == packed
    for number, model in zip(numbers.tolist(), models, strict=True):
        assert_same(bank, number, model)


@pytest.mark.parametrize("params", [{"proportion": 0.6}, {"selection": "all", "max_features": 900}])
@pytest.mark.parametrize("few", [20, 512])
def test_stsd_with_many_weights_has_a_queue_in_the_bank(
    params: dict[str, Any], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = registry.get("stsd").cls
    monkeypatch.setattr(cls, "FEW", few)
    rng = np.random.default_rng(few)
    names = [f"n{i}" for i in range(1800)]
    bank, models = new_bank("stsd", params), [cls(**params) for _ in range(3)]
    numbers = np.array(bank.add(3))
    for turn in range(8):
        features, values, made = columns(rng, names)
        chosen = rng.integers(0, 3, ROWS)
        scores, _ = learn(bank, made, numbers[chosen])
        expected = [
            alone(models[stream], features[row], values[row].copy(), made.y[row : row + 1], names)
            for row, stream in enumerate(chosen)
        ]
        assert scores.tolist() == expected
        if turn in (4, 6):  # a queue is made again when the model is woken up
            assert (bank.heads["queue"][numbers] > 0).all()
            packed = bank.pack(numbers)
            for number in numbers.tolist():
                bank.drop(number)
            numbers = bank.wake(packed)
            assert bank.pack(numbers) == packed
            assert not bank.heads["queue"][numbers].any()
    for number, model in zip(numbers.tolist(), models, strict=True):
        assert_same(bank, number, model)


LEARNERS: list[tuple[str, dict[str, Any]]] = [
    ("ofs", {"k": 5}),
    ("perceptron-truncated", {"k": 5}),
    ("perceptron-random", {"k": 20}),
    ("ofs-partial", {"k": 20}),
    ("perceptron-partial", {"k": 20}),
    ("stsd", {}),
]


@pytest.mark.parametrize(("name", "params"), LEARNERS)
def test_batching_changes_nothing(name: str, params: dict[str, Any]) -> None:
    """Stopping for snapshots after rows, or not at all: the same bytes."""
    whole, stopped = new_bank(name, params), new_bank(name, params)
    rng = np.random.default_rng(3)
    numbers = np.array(whole.add(6))
    stopped.add(6)
    for _ in range(3):
        _, _, made = columns(rng)
        models = numbers[rng.integers(0, 6, ROWS)]
        scores, due = learn(whole, made, models)
        again, due_again = learn(stopped, made, models, Emission(every=3))
        assert scores.tolist() == again.tolist()
        assert not due
        assert due_again
    assert whole.pack(numbers) == stopped.pack(numbers)


@pytest.mark.parametrize(("name", "params"), LEARNERS)
def test_a_later_label_teaches_when_it_comes(name: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    features, values, made = columns(rng)
    bank, model = new_bank(name, params), registry.get(name).cls(**params)
    number = bank.add()[0]
    special = Special(ROWS)
    made.y[made.y == 0] = 1
    made.y[::3] = 0
    special.kind[1::3], special.kind[2::6] = LABELLED_LATER, LABEL_OF_NOTHING
    special.judged_by[1::3] = np.arange(0, ROWS, 3)[: len(special.judged_by[1::3])]
    scores, _ = learn(bank, made, np.full(ROWS, number), special=special)
    nothing = special.kind == LABEL_OF_NOTHING
    mistakes = 0
    for row in range(ROWS):
        if nothing[row]:
            assert scores[row] == 0.0
            continue
        assert scores[row] == alone(model, features[row], values[row].copy(), made.y[row : row + 1])
        judged = scores[special.judged_by[row]] if special.kind[row] == LABELLED_LATER else scores[row]
        mistakes += int(made.y[row] != 0 and made.y[row] * judged <= 0)
    assert_same(bank, number, model)
    assert bank.heads["mistakes"][number] == mistakes
    assert bank.heads["seen"][number] == int((special.kind == 0).sum())


@pytest.mark.parametrize(("name", "params"), LEARNERS)
def test_models_that_move_together_change_nothing(name: str, params: dict[str, Any]) -> None:
    """What models that were dropped had is given back; the others go on as they would have."""
    rng = np.random.default_rng(4)
    moved, never = new_bank(name, params), new_bank(name, params)
    numbers, left = np.array(moved.add(12)), np.arange(5)
    never.add(12)
    for turn in range(4):
        _, _, made = columns(rng)
        models = numbers[left[rng.integers(0, 5, ROWS)] if turn > 1 else rng.integers(0, 12, ROWS)]
        assert learn(moved, made, models)[0].tolist() == learn(never, made, models)[0].tolist()
        if turn == 1:
            moved.pack(numbers)
            for number in numbers[5:].tolist():
                moved.drop(number)
            touched, taken, used = moved.touched_count, words_taken(moved.arena), moved.bytes_used
            moved.tidy(0)
            assert words_taken(moved.arena) == words_in_use(moved.arena) + 1 < taken * 2 // 3
            assert (moved.touched_count, moved.bytes_used) == (touched, used)
            never.pack(numbers)
    assert moved.touched().tolist() == never.touched().tolist()
    assert moved.pack(numbers[left]) == never.pack(numbers[left])


@pytest.mark.parametrize(("name", "params"), LEARNERS)
def test_a_sweep_of_names_changes_nothing(name: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    params = params if "k" in params and name in ("ofs", "perceptron-truncated") else params | {"max_features": 300}
    bank, never = new_bank(name, params), new_bank(name, params)
    numbers = np.array(bank.add(5))
    never.add(5)
    swept = 0
    for turn in range(10):
        _, _, made = columns(rng, [f"{turn // 2}-{i}" for i in range(200)])
        bank.book.counts[SWEEP_AT] = 50
        never.book.counts[SWEEP_AT] = 1 << 40
        before = int(bank.book.counts[ENTRIES])
        models = numbers[rng.integers(0, 5, ROWS)]
        assert learn(bank, made, models)[0].tolist() == learn(never, made, models)[0].tolist()
        swept += before > bank.book.counts[ENTRIES]
    assert bank.pack(numbers) == never.pack(numbers)
    for number in numbers.tolist():
        assert bank.selected(number) == never.selected(number)
        wanted = bank.learner.wanted_features(bank, number)
        assert wanted == never.learner.wanted_features(never, number)
    assert bank.book.counts[ENTRIES] < never.book.counts[ENTRIES] or name.endswith("partial")


@pytest.mark.parametrize(("name", "params"), LEARNERS)
def test_what_a_dropped_model_had_is_used_again(name: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    bank = new_bank(name, params)
    numbers = np.array(bank.add(20))
    for _ in range(4):
        learn(bank, columns(rng)[2], numbers[rng.integers(0, 20, ROWS)])
    packed, used = bank.pack(numbers), []
    again = numbers
    for _ in range(3):
        for number in again.tolist():
            bank.drop(number)
        again = bank.wake(packed)
        assert bank.pack(again) == packed
        used.append(int(bank.arena.free[0]))
    assert used[1] == used[0]  # the first time, some had grown beyond what they need when woken up
    assert used[2] == used[0]
    bank.drop(int(again[0]))
    fresh = bank.add()[0]
    assert fresh == again[0]
    assert not bank.selected(fresh)
    assert not bank.heads["version"][fresh]


def test_only_learners_have_a_bank() -> None:
    assert banked(registry.get("saola").cls()) is None


def test_a_snapshot_is_due_at_each_interval_and_change() -> None:
    rng = np.random.default_rng(0)
    bank = Bank(BankedOFS(OFS(k=5)))
    number = bank.add()[0]
    _, _, made = columns(rng)
    models = np.full(ROWS, number)
    _, due = learn(bank, made, models, Emission(every=20))
    learnt = np.cumsum(made.y != 0)
    assert due == [int(np.flatnonzero(learnt == version)[0]) for version in range(20, learnt[-1] + 1, 20)]
    changing = Bank(BankedOFS(OFS(k=5)))
    changing.add()
    _, due = learn(changing, made, np.zeros(ROWS, dtype=np.int64), Emission(on_change=True, min_gap=30))
    assert due[0] == int(np.flatnonzero(learnt == 30)[0])


def test_names_that_nobody_holds_leave_the_book() -> None:
    rng = np.random.default_rng(0)
    bank = Bank(BankedOFS(OFS(k=2, eta=5.0)))
    models = np.array(bank.add(30))
    entered = swept = 0
    for turn in range(40):
        names = [f"{turn}-{i}" for i in range(200)]
        bank.book.counts[SWEEP_AT] = 50
        before = int(bank.book.counts[ENTRIES])
        learn(bank, columns(rng, names)[2], models[rng.integers(0, 30, ROWS)])
        swept += before > bank.book.counts[ENTRIES]
        entered = max(entered, int(bank.book.counts[ENTRIES]))
    assert swept > 0
    assert entered < 40 * 30
    for model in models.tolist():
        assert all(entry.feature.split("-")[1].isdigit() for entry in bank.selected(model))
        assert len(bank.selected(model)) == 2


def test_a_model_that_is_dropped_gives_its_room_to_another() -> None:
    rng = np.random.default_rng(0)
    bank = Bank(BankedOFS(OFS(k=8)))
    numbers = np.array(bank.add(20))
    for _ in range(4):
        learn(bank, columns(rng)[2], numbers[rng.integers(0, 20, ROWS)])
    used = int(bank.arena.free[0])
    packed = bank.pack(numbers)
    for number in numbers.tolist():
        bank.drop(number)
    again = bank.wake(packed)
    assert sorted(again.tolist()) == sorted(numbers.tolist())
    assert int(bank.arena.free[0]) == used
    assert bank.pack(again) == packed
