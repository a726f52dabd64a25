"""Laws of operators that learn from instances: learners, and selectors that predict nothing."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.batch import InstanceBatch
from sluiceway.testing.law import (
    Check,
    Make,
    expect,
    expect_refused,
    expect_same,
    expect_state_is_its_own,
    restored,
)

ROWS = 300
SEEDS = range(4)
TOLERANCE = 1e-12
Record = dict[str, Any]


def records(seed: int, rows: int = ROWS) -> list[Record]:
    """Sparse instances over names that grow; some without a label, some without a feature."""
    rng = np.random.default_rng(seed)
    names = [*map(str, range(20)), "free", "läng", "价格", "007", "x" * 40, " "]
    made: list[Record] = []
    for row in range(rows):
        if row % 5 == 0:
            names.append(f"word-{row}")
        count = int(rng.integers(0, 9))
        present = [names[at] for at in rng.choice(len(names), size=count, replace=False)]
        values = rng.normal(size=count) if seed % 2 else np.ones(count)
        y = None if rng.random() < 0.2 else int(rng.choice([-1, 1]))
        made.append({"x": dict(zip(present, values.tolist(), strict=True)), "y": y})
    return made


def batch(made: list[Record]) -> InstanceBatch:
    return InstanceBatch.from_records(made)


def learn(model: Any, rows: InstanceBatch) -> NDArray[np.float64]:
    """Scores, of those that score."""
    if hasattr(model, "prequential"):
        scores: NDArray[np.float64] = model.prequential(rows)
        return scores
    model.learn_many(rows)
    return np.zeros(len(rows))


def advance(model: Any, rows: InstanceBatch, at: int, scores: NDArray[np.float64]) -> int:
    """To the next row that changes what is selected, or the end."""
    if hasattr(model, "prequential"):
        return int(model.advance(rows, at, len(rows), scores, until_change=True))
    return int(model.advance(rows, at, len(rows), until_change=True))


def pieces_of_any_size(make: Make) -> None:
    for seed in SEEDS:
        made, rng = records(seed), np.random.default_rng(seed)
        whole, pieces = make(), make()
        scores, at = learn(whole, batch(made)), 0
        while at < len(made):
            stop = at + int(rng.choice([1, 1, 2, 5, 70]))
            found = learn(pieces, batch(made[at:stop]))
            expect(np.array_equal(found, scores[at:stop]), f"scores from row {at} on differ")
            at = stop
        expect_same(pieces, whole, "between one batch and many")


def one_by_one(make: Make) -> None:
    made = records(1)
    whole, single = make(), make()
    scores = learn(whole, batch(made))
    for row, record in enumerate(made):
        if hasattr(single, "score_one"):
            score = single.score_one(record["x"])
            expect(score == scores[row], f"score_one gives {score!r} in row {row}, a batch gives {scores[row]!r}")
            expect(single.predict_one(record["x"]) == (1 if score > 0 else -1), "predict_one is not the score's sign")
        if record["y"] is not None:
            single.learn_one(record["x"], record["y"] == 1 if row % 2 else record["y"])
    expect_same(single, whole, "between learn_one and a batch")


def stopping_at_changes(make: Make) -> None:
    made = records(2)
    rows, scores = batch(made), np.zeros(len(made))
    whole, stopping, at = make(), make(), 0
    expected = learn(whole, rows)
    while at < len(rows):
        before = {one.feature for one in stopping.selected}
        stop = advance(stopping, rows, at, scores)
        expect(at < stop <= len(rows), f"advance from row {at} gives {stop}")
        changed = {one.feature for one in stopping.selected} != before
        expect(changed or stop == len(rows), f"advance stops at row {stop}, where the selection has not changed")
        at = stop
    expect(np.array_equal(scores, expected), "scores differ if advance stops at changes")
    expect_same(stopping, whole, "if advance stops at changes")


def going_on_from_a_state(make: Make) -> None:
    for seed in SEEDS:
        made = records(seed)
        model = make()
        for start in range(0, len(made), 60):
            other, piece = restored(model), batch(made[start : start + 60])
            expect_same(other, model, f"after from_state(state()) before row {start}")
            expect(np.array_equal(learn(other, piece), learn(model, piece)), f"scores from row {start} on differ")
            expect_same(other, model, f"60 rows after from_state(state()) before row {start}")
        expect_state_is_its_own(make, model)


def order_of_features(make: Make) -> None:
    for seed in SEEDS:
        made, rng = records(seed), np.random.default_rng(seed)
        shuffled = []
        for record in made:
            items = list(record["x"].items())
            shuffled.append({**record, "x": {items[at][0]: items[at][1] for at in rng.permutation(len(items))}})
        one, other = make(), make()
        scores, others = learn(one, batch(made)), learn(other, batch(shuffled))
        expect(np.allclose(others, scores, rtol=TOLERANCE, atol=TOLERANCE), "scores follow the order of features")
        mine = {feature: (weight, since) for feature, weight, since in one.selected}
        theirs = {feature: (weight, since) for feature, weight, since in other.selected}
        expect(mine.keys() == theirs.keys(), "what is selected follows the order of features")
        for feature, (weight, since) in mine.items():
            close = math.isclose(theirs[feature][0], weight, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
            expect(close and theirs[feature][1] == since, f"{feature!r} follows the order of features")


def selection(make: Make) -> None:
    model, learnt = make(), 0
    limit = model.params.get("k")
    for record in records(3):
        learn(model, batch([record]))
        learnt += record["y"] is not None
        expect(model.version == learnt, f"version is {model.version} after {learnt} labelled instances")
        chosen = model.selected
        expect(limit is None or len(chosen) <= limit, f"{len(chosen)} features are selected, k is {limit}")
        expect(len({one.feature for one in chosen}) == len(chosen), "a feature is selected twice")
        sizes = [abs(one.weight) for one in chosen]
        expect(all(0 < size < math.inf for size in sizes), "a weight is 0 or not finite")
        expect(sizes == sorted(sizes, reverse=True), "the selection is not sorted by |weight|")
        expect(all(1 <= one.since <= learnt for one in chosen), "a feature is selected since a version that was not")


def zeros(make: Make) -> None:
    made = records(1)
    filled = [{**record, "x": {"zero": 0.0, **record["x"], "none": 0}} for record in made]
    one, other = make(), make()
    expect(np.array_equal(learn(one, batch(made)), learn(other, batch(filled))), "zeros change scores")
    expect_same(one, other, "if zeros are in the instances")


def bad_values(make: Make) -> None:
    model = make()
    learn(model, batch(records(1)))
    values: list[Any] = [math.nan, math.inf, -math.inf, 10**400, "1", None, True, 1j]
    xs: list[dict[Any, Any]] = [*({"good": 1.0, "bad": value} for value in values), {"": 1.0}, {7: 1.0}]
    for x in xs:
        expect_refused(partial(model.learn_one, x, 1), model, f"x = {x!r}")
        if hasattr(model, "score_one"):
            expect_refused(partial(model.score_one, x), model, f"to score x = {x!r}")
    for y in (0, -2, 0.5, "1", None, math.nan):
        expect_refused(partial(model.learn_one, {"good": 1.0}, y), model, f"label {y!r}")


def inputs(make: Make) -> None:
    made = records(1)
    rows = batch(made)
    arrays = {name: getattr(rows, name) for name in ("indptr", "indices", "values", "y")}
    copies = {name: array.copy() for name, array in arrays.items()}
    one, other = make(), make()
    np.random.seed(1)
    scores = learn(one, rows)
    for name, array in arrays.items():
        expect(np.array_equal(array, copies[name]), f"{name} of the batch was changed")
        array.flags.writeable = False
    np.random.seed(2)
    expect(np.array_equal(learn(other, rows), scores), "scores differ between two runs")
    expect_same(one, other, "between two runs on the same instances")


CHECKS = (
    Check(1, pieces_of_any_size, excusable=True),
    Check(1, one_by_one),
    Check(1, stopping_at_changes),
    Check(2, going_on_from_a_state, excusable=True),
    Check(3, order_of_features, excusable=True),
    Check(4, selection, excusable=True),
    Check(5, zeros, excusable=True),
    Check(6, bad_values, excusable=True),
    Check(7, inputs, excusable=True),
)
