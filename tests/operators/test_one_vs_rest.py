"""One-vs-rest: binary models, each bit for bit what it would be by itself, and the union of what they select."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sluiceway.operators.one_vs_rest import OneVsRest, one_vs_rest
from sluiceway.operators.registry import learner
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.state import pack, unpack

CLASSES = 4
LEARNERS: list[tuple[str, dict[str, Any]]] = [
    ("ofs", {"k": 3}),
    ("perceptron-truncated", {"k": 2}),
    ("perceptron-random", {"k": 3, "seed": 5}),
    ("stsd", {"proportion": 0.2}),
    ("stsd", {"selection": "random", "proportion": 0.3, "seed": 5}),
    ("pa", {"k": 3}),
    ("pa-l1", {"k": 3}),
    ("fobos", {"k": 3}),
]
cases = pytest.mark.parametrize(("name", "params"), LEARNERS)


def made(seed: int, rows: int = 60) -> InstanceBatch:
    """Rows of a few of thirty features; some have no label, some no feature."""
    rng = np.random.default_rng(seed)
    names = tuple(f"wört-{at}" if at % 3 else str(at) for at in range(30))
    chosen = [rng.choice(len(names), size=rng.integers(0, 8), replace=False) for _ in range(rows)]
    indptr = np.cumsum([0, *map(len, chosen)])
    y = rng.integers(0, CLASSES + 1, size=rows)
    return InstanceBatch.from_csr(indptr, np.concatenate(chosen), rng.normal(size=indptr[-1]), y, names=names)


def of_class(batch: InstanceBatch, number: int) -> InstanceBatch:
    y = np.where(batch.y == 0, 0, np.where(batch.y == number, 1, -1)).astype(np.int8)
    return replace(batch, y=y)


@cases
def test_each_model_is_the_binary_one_run_apart(name: str, params: dict[str, Any]) -> None:
    batch, model = made(1, rows=300), one_vs_rest(name, classes=CLASSES, **params)
    scores = model.prequential(batch)
    apart = [learner(name)(**params) for _ in range(CLASSES)]
    for number, binary in enumerate(apart, start=1):
        assert (scores[:, number - 1] == binary.prequential(of_class(batch, number))).all()
    weights: dict[str, list[tuple[float, int]]] = {}
    for number, binary in enumerate(apart, start=1):
        for entry in binary.selected:
            weights.setdefault(entry.feature, []).append((entry.weight, number))
    largest = {feature: max(of_one, key=lambda one: (abs(one[0]), -one[1])) for feature, of_one in weights.items()}
    assert {entry.feature: (entry.weight, entry.of_class) for entry in model.selected} == largest
    assert [abs(entry.weight) for entry in model.selected] == sorted((abs(w) for w, _ in largest.values()))[::-1]
    if name == "ofs":  # of the others some select too few here for that
        assert len({entry.of_class for entry in model.selected}) > 1


@cases
def test_a_feature_is_in_the_union_since_it_last_entered_it(name: str, params: dict[str, Any]) -> None:
    batch, model = made(2, rows=200), one_vs_rest(name, classes=CLASSES, **params)
    apart = [learner(name)(**params) for _ in range(CLASSES)]
    since: dict[str, int] = {}
    gone, handed_on, dense = 0, 0, name in ("pa", "pa-l1", "fobos")
    for row in range(len(batch)):
        one = batch.slice(row, row + 1)
        before = [{entry.feature for entry in binary.selected} for binary in apart]
        for number, binary in enumerate(apart, start=1):
            binary.learn_many(of_class(one, number))
        after = [{entry.feature for entry in binary.selected} for binary in apart]
        union = set[str]().union(*after)
        gone += len(since.keys() - union)
        handed_on += any(was - now & union for was, now in zip(before, after, strict=True))
        if dense:
            holders = [entry for binary in apart for entry in binary.selected]
            since = {entry.feature: min(e.since for e in holders if e.feature == entry.feature) for entry in holders}
        else:
            since = {feature: since.get(feature, apart[0].version) for feature in union}
        model.learn_many(one)
        assert {entry.feature: entry.since for entry in model.selected} == since
    if name == "ofs":  # not with all of the others does it come up here
        assert gone
        assert handed_on


@cases
@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(0, 60), max_size=6), restore=st.booleans())
@settings(max_examples=10, deadline=None, derandomize=True)
def test_batching_and_restoring_change_nothing(
    name: str, params: dict[str, Any], seed: int, cuts: list[int], restore: bool
) -> None:
    batch = made(seed)
    whole = one_vs_rest(name, classes=CLASSES, **params)
    wanted = whole.prequential(batch)
    model, scores = one_vs_rest(name, classes=CLASSES, **params), []
    for start, stop in pairwise([0, *sorted(cuts), len(batch)]):
        scores.append(model.prequential(batch.slice(start, stop)))
        if restore:
            model = OneVsRest.from_state(unpack(pack(model.state())))
    assert (np.concatenate(scores) == wanted).all()
    assert model.state() == whole.state()
    assert (model.selected, model.version, model.metrics()) == (whole.selected, whole.version, whole.metrics())


def test_what_was_predicted_is_counted_by_class() -> None:
    batch, model = made(3, rows=300), one_vs_rest("ofs", classes=CLASSES, k=5)
    scores = model.prequential(batch)
    confusion: NDArray[np.int64] = np.zeros((CLASSES, CLASSES), dtype=np.int64)
    for y, row in zip(batch.y.tolist(), scores.tolist(), strict=True):
        if y:
            confusion[y - 1, row.index(max(row))] += 1
    assert (model.confusion == confusion).all()
    assert model.metrics()["balanced_accuracy"] == (np.diag(confusion) / confusion.sum(axis=1)).mean()


def test_scoring_one_changes_nothing() -> None:
    batch, model = made(4), one_vs_rest("ofs", classes=CLASSES, k=5)
    assert (model.score_one({"0": 1.0}), model.predict_one({})) == (0.0, 1)
    model.learn_many(batch)
    before, scores = model.state(), model.scores_one({"0": 1.0, "wört-1": -2.0})
    assert model.state() == before
    assert model.score_one({"0": 1.0, "wört-1": -2.0}) == max(scores)
    assert model.predict_one({"0": 1.0, "wört-1": -2.0}) == scores.index(max(scores)) + 1


def test_what_cannot_be_is_refused() -> None:
    model = one_vs_rest("ofs", classes=3, k=2)
    for label in (0, 4, -1, True, 1.0):
        with pytest.raises(ValueError, match="is not a class, 1 to 3"):
            model.learn_one({"a": 1.0}, label)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="labels must be classes, 1 to 3"):
        model.learn_many(InstanceBatch.from_arrays([[1.0]], [4]))
    with pytest.raises(ValueError, match="feature 'a' is nan"):
        model.learn_one({"a": float("nan")}, 1)
    with pytest.raises(ValueError, match="classes must be a whole number of at least 3"):
        one_vs_rest("ofs", classes=2, k=2)
    with pytest.raises(ValueError, match="binary learner of whole instances"):
        one_vs_rest("ofs-partial", classes=3, k=2)
    with pytest.raises(ValueError, match="label 2 is a class of many"):
        learner("ofs")(k=2).learn_many(InstanceBatch.from_arrays([[1.0]], [2]))  # type: ignore[call-arg]
    assert model.version == 0
