"""A bank of models gives what as many models by themselves give, bit for bit, however they interleave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sluiceway.operators.bank.bank import Bank, Emission
from sluiceway.operators.bank.book import ENTRIES, SWEEP_AT
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


def learn(bank: Bank, made: Columns, models: NDArray[np.int64], emit: Emission | None = None) -> tuple[Any, list[int]]:
    """The scores, and the rows after which a snapshot was due."""
    poll, scores, row, due = bank.poll(made, models), np.empty(ROWS), 0, []
    while row < ROWS:
        row, stopped = bank.advance(poll, row, scores, emit or Emission())
        due += [row - 1] * stopped
    return scores, due


def alone(model: OFS, features: NDArray[np.int64], values: NDArray[np.float64], y: NDArray[np.int8]) -> float:
    zeros = np.zeros(1, dtype=np.int64)
    names, indptr = tuple(NAMES[at] for at in features), np.array((0, LENGTH))
    indices = np.arange(LENGTH, dtype=np.int32)
    return float(model.prequential(InstanceBatch(names, indptr, indices, values, y, zeros, zeros, zeros))[0])


@pytest.mark.parametrize(
    ("streams", "params"),
    [(40, {"k": 10}), (5, {"k": 3, "decay": True, "eta": 0.5}), (2, {"k": 300}), (11, {"k": 1}), (1000, {"k": 4})],
)
def test_a_bank_is_as_many_models(streams: int, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(streams)
    bank, models = Bank(BankedOFS(OFS(**params)), scaled=False), [OFS(**params) for _ in range(streams)]
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
            bank = Bank(BankedOFS(OFS(**params)), scaled=False)
            bank.add(3)
            numbers = bank.wake(packed)
            assert bank.pack(numbers) == packed
    for number, model in zip(numbers.tolist(), models, strict=True):
        assert bank.selected(number) == [tuple(one) for one in model.selected]


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
        assert all(name.split("-")[1].isdigit() for name, _, _ in bank.selected(model))
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
