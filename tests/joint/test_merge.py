"""Counts add up exactly: models of parts of the data are the model of the whole, in whatever order they are merged."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from .cases import each, make, same
from .streams import SHAPES, Record, batch_of, stream


@each()
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "late"])
def test_parts_add_up_to_the_whole_in_any_order(name: str, variant: dict[str, Any], shape: str) -> None:
    variant = variant | ({"max_features": 100} if "max_features" in variant else {})
    records = stream(shape, 11, rows=400)
    first, rest = records[:100], [records[100:160], records[160:290], records[290:]]
    model = make(name, variant)
    model.learn_many(batch_of(first))
    parts = []
    for records_of_one in rest:
        part = model.fresh()
        assert part.cuts == model.cuts
        assert part.version == 0
        part.learn_many(batch_of(records_of_one))
        parts.append(part)
    merged = []
    for order in permutations(parts):
        whole = model
        for part in order:
            whole = whole.merge(part)
        merged.append(whole)
        whole = order[0]
        for part in (*order[1:], model):
            whole = part.merge(whole)
        merged.append(whole)
    for one in merged[1:]:
        assert same(one, merged[0])
    straight = make(name, variant)
    straight.learn_many(batch_of(first))
    for record in rest:
        straight.learn_many(batch_of(record))
    straight.refit()
    assert merged[0].version == straight.version
    if "budget" not in variant:
        assert merged[0].order == straight.order
        batch = batch_of(stream(shape, 12))
        assert list(merged[0].classify(batch)) == list(straight.classify(batch))


@each()
def test_a_name_too_new_for_cuts_waits_on_in_the_merged_model(name: str, variant: dict[str, Any]) -> None:
    model = make(name, variant | {"max_features": 100})
    model.learn_many(batch_of(stream("dense", 1, rows=60)))
    parts = []
    for seed in (2, 3, 4):
        part = model.fresh()
        for record in stream("dense", seed, rows=25):
            part.learn_one(record.x | ({"new": float(record.y)} if seed != 3 else {}), record.y)
        parts.append(part)
    merged = []
    for order in permutations(parts):
        whole = model
        for part in order:
            whole = part.merge(whole)
        merged.append(whole)
    for one in merged[1:]:
        assert same(one, merged[0])
    assert "new" not in merged[0].cuts
    for record in stream("dense", 5, rows=30):
        merged[0].learn_one(record.x | {"new": float(record.y)}, record.y)
    assert "new" in merged[0].cuts
    with pytest.raises(ValueError, match="differ"):
        merged[0].merge(_with_another_cut(merged[0].fresh()))


def _with_another_cut(model: Any) -> Any:
    state = model.state()
    cuts = np.frombuffer(state["counts"]["cuts"], dtype="<f8") - 0.25
    return type(model).from_state(state | {"counts": state["counts"] | {"cuts": cuts.tobytes()}})


def test_what_does_not_fit_is_refused() -> None:
    one, other = make("etana", {}), make("etana", {})
    with pytest.raises(ValueError, match="a model in its warm-up has no cuts"):
        one.merge(other)
    one.learn_many(batch_of(stream("dense", 1)))
    other.learn_many(batch_of(stream("dense", 2)))
    with pytest.raises(ValueError, match=r"the cuts of feature .* differ"):
        one.merge(other)
    with pytest.raises(ValueError, match="they are not set alike"):
        one.merge(make("etana", {"bins": 4}))
    with pytest.raises(ValueError, match="they are not set alike"):
        one.merge(make("f-etana", {}))


def test_trees_of_other_candidates_are_not_merged() -> None:
    """All cuts are given, and so are equal; of two features each stream has one that tells the class."""
    given = {"dependence": "tree", "candidates": 1, "binning": {"a": [0.0], "b": [0.0]}, "bins": 2}
    trees = [make("f-etana", given) for _ in range(2)]
    for tree, telling in zip(trees, ("a", "b"), strict=True):
        other = "b" if telling == "a" else "a"
        rows = [Record({telling: row % 2 - 0.5, other: row % 3 - 0.5}, row % 2 * 2 - 1) for row in range(60)]
        tree.learn_many(batch_of(rows))
        assert tree.order == (telling,)
    assert trees[0].cuts == trees[1].cuts
    with pytest.raises(ValueError, match=r"^the candidates of the trees differ$"):
        trees[0].merge(trees[1])
