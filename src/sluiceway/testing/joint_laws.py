"""Laws of joint operators, which decide each instance by as few features as it needs."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from sluiceway.operators.contract import Decision
from sluiceway.operators.joint.decisions import Decisions
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.testing import instance_laws
from sluiceway.testing.instance_laws import Record, batch
from sluiceway.testing.law import (
    Check,
    Make,
    expect,
    expect_refused,
    expect_same,
    expect_state_is_its_own,
    restored,
)

ROWS = 1400
"""So many that the second policy of one that is set as usual is in use."""
SEEDS = range(2)
TELLING = ("0", "7", "free", "价格")


def records(seed: int, rows: int = ROWS) -> list[Record]:
    """As for other operators, of two classes that a few features tell apart."""
    rng = np.random.default_rng(seed)
    made = instance_laws.records(seed, rows)
    for record in made:
        record["x"] |= {name: round(float(rng.normal()), 2) for name in TELLING if rng.random() < 0.9}
        if record["y"] is not None:
            record["y"] = 1 if sum(record["x"].get(name, 0.0) for name in TELLING) + rng.normal() > 0 else -1
    return made


def learn(model: Any, rows: InstanceBatch) -> list[Decision]:
    return list(model.prequential(rows))


def pieces_of_any_size(make: Make) -> None:
    for seed in SEEDS:
        made, rng = records(seed), np.random.default_rng(seed)
        whole, pieces = make(), make()
        decisions, at = learn(whole, batch(made)), 0
        while at < len(made):
            stop = at + int(rng.choice([1, 1, 2, 5, 70]))
            expect(learn(pieces, batch(made[at:stop])) == decisions[at:stop], f"decisions from row {at} on differ")
            at = stop
        expect_same(pieces, whole, "between one batch and many")


def one_by_one(make: Make) -> None:
    made = [record for record in records(1) if record["y"] is not None]
    whole, single = make(), make()
    decisions = learn(whole, batch(made))
    for row, record in enumerate(made):
        decided = single.classify_one(record["x"])
        expect(decided == decisions[row], f"classify_one gives {decided} in row {row}, a batch {decisions[row]}")
        single.learn_one(record["x"], record["y"] == 1 if row % 2 else record["y"])
    expect_same(single, whole, "between learn_one and a batch")


def stopping_at_changes(make: Make) -> None:
    made = records(0)
    rows, decisions = batch(made), Decisions(len(made))
    whole, stopping, at = make(), make(), 0
    expected = learn(whole, rows)
    while at < len(rows):
        stop = stopping.advance(rows, at, len(rows), decisions, until_change=True)
        expect(at < stop <= len(rows), f"advance from row {at} gives {stop}")
        made_now = stopping.policy_version == stopping.version
        expect(made_now or stop == len(rows), f"advance stops at row {stop}, where no policy is made")
        at = stop
    expect(list(decisions) == expected, "decisions differ if advance stops at changes")
    expect_same(stopping, whole, "if advance stops at changes")


def going_on_from_a_state(make: Make) -> None:
    for seed in SEEDS:
        made = records(seed)
        model = make()
        for start in range(0, len(made), 175):
            other, piece = restored(model), batch(made[start : start + 175])
            expect_same(other, model, f"after from_state(state()) before row {start}")
            expect(learn(other, piece) == learn(model, piece), f"decisions from row {start} on differ")
            expect_same(other, model, f"175 rows after from_state(state()) before row {start}")
        expect_state_is_its_own(make, model)


def order_of_features(make: Make) -> None:
    for seed in SEEDS:
        made, rng = records(seed), np.random.default_rng(seed)
        shuffled = []
        for record in made:
            items = list(record["x"].items())
            shuffled.append({**record, "x": {items[at][0]: items[at][1] for at in rng.permutation(len(items))}})
        one, other = make(), make()
        expect(learn(one, batch(made)) == learn(other, batch(shuffled)), "decisions follow the order of features")
        expect_same(one, other, "if features come in another order")


def decisions(make: Make) -> None:
    """They are sound, and no feature is asked for that they do not count."""
    made, model = records(1), make()
    learn(model, batch(made[:-200]))
    expect(bool(model.order), f"after {model.version} labelled instances there is no policy")
    for record in made[-200:]:
        asked: list[str] = []

        def fetch(feature: str, x: Record = record["x"], asked: list[str] = asked) -> float:
            asked.append(feature)
            return float(x.get(feature, 0.0))

        decision = model.classify_one(fetch)
        expect(tuple(asked) == decision.features_used, f"{asked} were asked for, {decision.features_used} are counted")
        expect(decision.features_used == model.order[: len(asked)], "features are not looked at in the policy's order")
        expect(decision.label in model.classes, f"{decision.label} is decided, which is no class")
        expect(math.isclose(sum(decision.posterior), 1.0), "the posterior's sum is not 1")
        expect(min(decision.posterior) >= 0, "a chance is below 0")
        expect(math.isfinite(decision.cost) and decision.cost >= 0, f"the cost is {decision.cost}")
        model.learn_one(record["x"], record["y"] or 1)
    weights = [one.weight for one in model.selected]
    expect(weights == sorted(weights, reverse=True), "the selection is not sorted by weight")
    expect(all(0 < weight <= 1 for weight in weights), "a share of use is not one")
    expect(all(1 <= one.since <= model.version for one in model.selected), "a feature is in use since no version")


def zeros(make: Make) -> None:
    made = records(1)
    filled = [{**record, "x": {"zero": 0.0, **record["x"], "none": 0}} for record in made]
    one, other = make(), make()
    expect(learn(one, batch(made)) == learn(other, batch(filled)), "zeros change decisions")
    expect_same(one, other, "if zeros are in the instances")


def bad_values(make: Make) -> None:
    model = make()
    learn(model, batch(records(1)))
    values: list[Any] = [math.nan, math.inf, -math.inf, 10**400, "1", True, 1j]
    xs: list[dict[Any, Any]] = [*({"good": 1.0, "bad": value} for value in values), {"": 1.0}, {7: 1.0}]
    for x in xs:
        expect_refused(partial(model.learn_one, x, 1), model, f"x = {x!r}")
    for y in (0, -2, 0.5, "1", None, math.nan, 128):
        expect_refused(partial(model.learn_one, {"good": 1.0}, y), model, f"label {y!r}")


def inputs(make: Make) -> None:
    rows = batch(records(1))
    arrays = {name: getattr(rows, name) for name in ("indptr", "indices", "values", "y")}
    copies = {name: array.copy() for name, array in arrays.items()}
    one, other = make(), make()
    np.random.seed(1)
    decided = learn(one, rows)
    for name, array in arrays.items():
        expect(np.array_equal(array, copies[name]), f"{name} of the batch was changed")
        array.flags.writeable = False
    np.random.seed(2)
    expect(learn(other, rows) == decided, "decisions differ between two runs")
    expect_same(one, other, "between two runs on the same instances")


CHECKS = (
    Check(1, pieces_of_any_size, excusable=True),
    Check(1, one_by_one),
    Check(1, stopping_at_changes),
    Check(2, going_on_from_a_state, excusable=True),
    Check(3, order_of_features, excusable=True),
    Check(4, decisions, excusable=True),
    Check(5, zeros, excusable=True),
    Check(6, bad_values, excusable=True),
    Check(7, inputs, excusable=True),
)
