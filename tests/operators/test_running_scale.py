"""Scaling by what a stream has shown so far: against plain arithmetic, however it is cut, put away and woken."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from sluiceway.operators.bank.running_scale import INTERCEPT, RunningScale
from sluiceway.operators.learners.ofs import OFS
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.instance_columns import Columns
from tests.schemas.polls import poll_of

How = Literal["rms-l2", "standard"]
RUNNING: tuple[How, ...] = ("rms-l2", "standard")


def columns_of(rows: list[dict[str, float]], labels: Iterable[Any] | None = None) -> Columns:
    given = zip(rows, [1] * len(rows) if labels is None else labels, strict=True)
    decoded = Decoder(1, keep_zeros=True).decode(poll_of([orjson.dumps({"x": x, "y": int(y)}) for x, y in given]))
    assert decoded.columns is not None
    return decoded.columns


def rows_of(columns: Columns) -> list[dict[str, float]]:
    names = [
        columns.text[at : at + size].tobytes().decode()
        for at, size in zip(columns.name_at.tolist(), columns.name_size.tolist(), strict=True)
    ]
    spelt = [*zip(names, columns.values.tolist(), strict=True)]
    return [dict(spelt[low:high]) for low, high in pairwise(columns.indptr.tolist())]


def some_rows(count: int = 200, names: int = 30) -> list[dict[str, float]]:
    rng = np.random.default_rng(1)
    return [
        {f"f{at}": float(rng.normal(at, 10.0 ** (at % 5))) for at in rng.permutation(names)[: rng.integers(0, 8)]}
        for _ in range(count)
    ]


@pytest.mark.parametrize("how", RUNNING)
def test_cuts_and_rests_change_nothing(how: How) -> None:
    rows = some_rows()
    models = np.arange(len(rows)) % 3
    whole = RunningScale(how, intercept=True, limit=20)
    wanted = rows_of(whole.scaled(columns_of(rows), models))
    cut, got = RunningScale(how, intercept=True, limit=20), []
    for start in range(0, len(rows), 7):
        part = slice(start, start + 7)
        got += rows_of(cut.scaled(columns_of(rows[part]), models[part]))
        packed = cut.pack([0, 1, 2])
        for one in packed:
            cut.check(one)
        cut = RunningScale(how, intercept=True, limit=20)
        cut.wake([0, 1, 2], packed)
    assert got == wanted
    assert cut.pack([0, 1, 2]) == whole.pack([0, 1, 2])
    assert whole.metrics(0)["scale_ignored"] > 0
    assert whole.metrics(0, 0) == {}


def test_standard_is_what_numpy_says() -> None:
    given = np.random.default_rng(2).normal(5, 3, (50, 4))
    rows = [{f"f{at}": float(value) for at, value in enumerate(row)} for row in given]
    columns = columns_of(rows)
    last = rows_of(RunningScale("standard").scaled(columns, np.zeros(50, dtype=np.int64)))[-1]
    wanted = (given[-1] - given.mean(axis=0)) / given.std(axis=0)
    assert [*last.values()] == pytest.approx(wanted.tolist(), rel=1e-12)


def test_root_mean_squares_count_what_is_absent_as_zero() -> None:
    rows: list[dict[str, float]] = [{"a": 3.0}, {}, {"a": 4.0, "b": 2.0}]
    [_, _, last] = rows_of(RunningScale("rms-l2").scaled(columns_of(rows), np.zeros(3, dtype=np.int64)))
    assert last == pytest.approx({"a": 4 / (25 / 3) ** 0.5, "b": 2 / (4 / 3) ** 0.5})


def test_a_record_may_have_an_intercept_of_its_own() -> None:
    columns = columns_of([{"a": 1.0}, {INTERCEPT: 5.0}])
    assert rows_of(RunningScale(None, intercept=True).scaled(columns, np.zeros(2, dtype=np.int64))) == [
        {"a": 1.0, INTERCEPT: 1.0},
        {INTERCEPT: 5.0},
    ]


@pytest.mark.parametrize("how", RUNNING)
def test_extreme_values_stay_finite(how: How) -> None:
    rows: list[dict[str, float]] = [{"a": value} for value in (1e308, -1e308, 5e-324, 0.0, 1e-200, 1e154, 1.0)]
    scale = RunningScale(how)
    for row in rows_of(scale.scaled(columns_of(rows), np.zeros(len(rows), dtype=np.int64))):
        assert all(np.isfinite(value) for value in row.values())
    scale.check(scale.pack([0])[0])


def test_a_model_that_is_dropped_leaves_nothing() -> None:
    rows = some_rows()
    models = np.arange(len(rows)) % 5
    scale = RunningScale("rms-l2")
    scale.scaled(columns_of(rows), models)
    kept = scale.pack([0, 2, 4])
    for gone in (1, 3):
        scale.drop(gone)
    again = scale.scaled(columns_of(rows), np.where(np.isin(models, (1, 3)), models, models))
    fresh = RunningScale("rms-l2")
    fresh.wake([0, 2, 4], kept)
    assert rows_of(fresh.scaled(columns_of(rows), models)) == rows_of(again)
    assert fresh.pack([0, 1, 2, 3, 4]) == scale.pack([0, 1, 2, 3, 4])


@pytest.mark.parametrize("k", [5, 10, 30])
def test_raw_measurements_are_learnt_as_well_as_standardised_ones(k: int) -> None:
    """OFS on breast cancer, its values of all sizes: with `standard` nearly what it is on values standardised before,
    by means and deviations of all rows; without, hardly better than to guess."""
    table, malignant = load_breast_cancer(return_X_y=True)
    errors: dict[str, list[float]] = {"raw": [], "before": [], "running": []}
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(table))
        x, y = table[order], malignant[order]
        standardised = (x - x.mean(axis=0)) / x.std(axis=0)
        scaled = RunningScale("standard").scaled(columns_of(_named(x), y), np.zeros(len(x), dtype=np.int64))
        errors["raw"].append(_error(columns_of(_named(x), y), k))
        errors["before"].append(_error(columns_of(_named(standardised), y), k))
        errors["running"].append(_error(scaled, k))
    raw, before, running = (float(np.mean(errors[name])) for name in ("raw", "before", "running"))
    assert raw > 0.3
    assert running < before + 0.02


def _named(table: NDArray[np.float64]) -> list[dict[str, float]]:
    return [{f"f{at}": value for at, value in enumerate(row)} for row in table.tolist()]


def _error(columns: Columns, k: int) -> float:
    [(_, batch)] = columns.batches()
    scores = OFS(k=k).prequential(batch)
    return float(np.mean(np.where(scores > 0, 1, -1) != batch.y))


@pytest.mark.parametrize("spoil", [lambda one: one[:-1], lambda one: one[:16] + one[16:48] * 2, lambda one: "no"])
def test_damage_is_noticed(spoil: Any) -> None:
    scale = RunningScale("rms-l2")
    scale.scaled(columns_of([{"a": 1.0}]), np.zeros(1, dtype=np.int64))
    with pytest.raises(ValueError, match="damaged"):
        scale.check(spoil(scale.pack([0])[0]))
