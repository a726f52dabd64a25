"""Laws of operators that learn from whole feature columns."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.columns import SparseColumn
from sluiceway.testing.law import (
    Check,
    Make,
    expect,
    expect_refused,
    expect_same,
    expect_state_is_its_own,
    restored,
)

ROWS, COLUMNS = 90, 40
SEEDS = range(12)


class Made(NamedTuple):
    target: NDArray[np.float64]
    names: list[str]
    table: NDArray[np.float64]
    """A row for each column."""


def columns(seed: int) -> Made:
    """Two classes, and columns in groups that share a cause; some copies, some constant; discrete for even seeds."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(8, ROWS))
    target = np.where(causes[:3].sum(axis=0) + 0.5 * rng.normal(size=ROWS) > 0, 1.0, -1.0)
    made: list[NDArray[np.float64]] = []
    for at in range(COLUMNS):
        column = causes[rng.integers(8)] * rng.choice([-1, 1]) + rng.choice([0.2, 0.7, 2.0]) * rng.normal(size=ROWS)
        if seed % 2 == 0:
            column = (column > 0).astype(np.float64)
        if at % 7 == 6:
            column = made[int(rng.integers(at))] * rng.choice([1.0, -2.0, 4.0])
        if at % 13 == 12:
            column = np.full(ROWS, 3.0)
        made.append(column)
    return Made(target, [*map(str, range(COLUMNS))], np.array(made))


def begun(make: Make, made: Made) -> Any:
    model = make()
    model.begin(made.target)
    return model


def blocks_of_any_size(make: Make) -> None:
    for seed in SEEDS:
        made, rng = columns(seed), np.random.default_rng(seed)
        whole, pieces, single = (begun(make, made) for _ in range(3))
        verdicts, at = whole.learn_features(made.names, made.table), 0
        expect(len(verdicts) == COLUMNS, f"{len(verdicts)} verdicts for {COLUMNS} columns")
        while at < COLUMNS:
            stop = min(at + int(rng.choice([1, 2, 17])), COLUMNS)
            found = pieces.learn_features(made.names[at:stop], list(made.table[at:stop]))
            expect(found == verdicts[at:stop], f"verdicts from column {at} on differ")
            at = stop
        one_by_one = [single.learn_feature(name, column) for name, column in zip(made.names, made.table, strict=True)]
        expect(one_by_one == verdicts, "verdicts differ between learn_feature and a block")
        expect_same(pieces, whole, "between one block and many")
        expect_same(single, whole, "between learn_feature and a block")


def stopping_at_changes(make: Make) -> None:
    made = columns(1)
    whole, stopping = begun(make, made), begun(make, made)
    verdicts = whole.learn_features(made.names, made.table)
    block = stopping.prepare(made.names, made.table)
    got: list[Any] = []
    while len(got) < COLUMNS:
        before = {one.feature for one in stopping.selected}
        part = stopping.advance(block, len(got), COLUMNS, until_change=True)
        expect(bool(part), f"advance from column {len(got)} learns nothing")
        got += part
        changed = {one.feature for one in stopping.selected} != before
        expect(changed == part[-1].changes, f"the verdict on column {len(got) - 1} does not tell what it changed")
        expect(changed or len(got) == COLUMNS, f"advance stops after column {len(got) - 1}, which changed nothing")
    expect(got == verdicts, "verdicts differ if advance stops at changes")
    expect_same(stopping, whole, "if advance stops at changes")


def going_on_from_a_state(make: Make) -> None:
    for seed in SEEDS:
        made = columns(seed)
        model = begun(make, made)
        expect_same(restored(make()), make(), "after from_state(state()) of a new operator")
        for start in range(0, COLUMNS, 13):
            other, part = restored(model), slice(start, start + 13)
            expect_same(other, model, f"after from_state(state()) before column {start}")
            found = other.learn_features(made.names[part], made.table[part])
            expect(found == model.learn_features(made.names[part], made.table[part]), "verdicts differ after a restore")
            expect_same(other, model, f"13 columns after from_state(state()) before column {start}")
        expect_state_is_its_own(make, model)


def order_of_columns(make: Make) -> None:
    for seed in SEEDS:
        made = columns(seed)
        order = np.random.default_rng(seed).permutation(COLUMNS)
        one, other = begun(make, made), begun(make, made)
        one.learn_features(made.names, made.table)
        other.learn_features([made.names[at] for at in order], made.table[order])
        same = [chosen[:2] for chosen in one.selected] == [chosen[:2] for chosen in other.selected]
        expect(same, "what is selected follows the order of columns")


def selection(make: Make) -> None:
    made = columns(3)
    model = begun(make, made)
    for count, (name, column) in enumerate(zip(made.names, made.table, strict=True), start=1):
        kept = {one.feature for one in model.selected}
        verdict = model.learn_feature(name, column)
        expect(model.version == count, f"version is {model.version} after {count} columns")
        gone = {removed.feature for removed in verdict.removed}
        expected = (kept - gone) | set(verdict.returned) | ({name} if verdict.kept else set())
        expect({one.feature for one in model.selected} == expected, f"the verdict on {name!r} is not what became of it")
        weights = [one.weight for one in model.selected]
        expect(all(0 < weight < math.inf for weight in weights), "a weight is not above 0, or not finite")
        expect(weights == sorted(weights, reverse=True), "the selection is not sorted by weight")
        expect(all(1 <= one.since <= count for one in model.selected), "since is no version that there was")


def zeros(make: Make) -> None:
    made = columns(2)
    dense, sparse = begun(make, made), begun(make, made)
    at = [np.flatnonzero(column) for column in made.table]
    thin = [SparseColumn(ROWS, rows, column[rows]) for rows, column in zip(at, made.table, strict=True)]
    expect(
        sparse.learn_features(made.names, thin) == dense.learn_features(made.names, made.table),
        "verdicts differ between sparse and dense columns",
    )
    expect_same(sparse, dense, "between sparse and dense columns")


def bad_columns(make: Make) -> None:
    made = columns(1)
    model = begun(make, made)
    model.learn_features(made.names, made.table)
    good = columns(5).table[0]
    bad: list[Any] = [good[:-1], np.where(np.arange(ROWS) == 7, np.nan, good), ["1"] * ROWS, [good], [None] * ROWS]
    bad += [SparseColumn(ROWS, [ROWS], [1.0]), SparseColumn(ROWS, [3, 3], [1.0, 2.0])]
    for column in bad:
        what = f"column {str(column)[:40]}"
        expect_refused(partial(model.learn_feature, "bad", column), model, what)
        expect_refused(partial(model.learn_features, ["good", "bad"], [good, column]), model, what)
    for name in ("", 7):
        expect_refused(partial(model.learn_feature, name, good), model, f"a column named {name!r}")
    for target in ([], [1.0, math.nan], ["a", 1.0], [[1.0, 2.0]], 7):
        expect_refused(partial(model.begin, target), model, f"the target {target!r}")
    fresh = make()
    expect_refused(partial(fresh.learn_feature, "a", good), fresh, "a column before any target")


def inputs(make: Make) -> None:
    made = columns(1)
    target, table = made.target.copy(), made.table.copy()
    model, other = make(), make()
    model.begin(target)
    model.learn_features(made.names, table)
    expect(np.array_equal(target, made.target) and np.array_equal(table, made.table), "the input was changed")
    state = model.state()
    target[:], table[:] = 0, 0
    expect(model.state() == state, "the operator shares something with its input")
    np.random.seed(2)
    for array in (made.target, made.table):
        array.flags.writeable = False
    other.begin(made.target)
    other.learn_features(made.names, made.table)
    expect(other.state() == state, "two runs on the same columns differ")


CHECKS = (
    Check(1, blocks_of_any_size, excusable=True),
    Check(1, stopping_at_changes),
    Check(2, going_on_from_a_state, excusable=True),
    Check(3, order_of_columns, excusable=True),
    Check(4, selection, excusable=True),
    Check(5, zeros, excusable=True),
    Check(6, bad_columns, excusable=True),
    Check(7, inputs, excusable=True),
)
