"""What must hold of every selection, whatever the columns: the invariants of SAOLA and of its order-free answer."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from sluiceway.operators.contract import ColumnSelector

from . import oracles
from .cases import make, names_of

Columns = NDArray[np.float64]
CODES = npst.arrays(np.float64, (8, 24), elements=st.sampled_from([0.0, 1.0, 2.0]))
NUMBERS = npst.arrays(np.float64, (8, 24), elements=st.integers(-72, 72).map(lambda x: x / 8))
DATA = {"fisher-z": NUMBERS, "symmetric-uncertainty": CODES, "mutual-information": CODES}
QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def learnt(name: str, params: dict[str, Any], table: Columns) -> ColumnSelector:
    """The first row is the target."""
    model = make(name, params)
    model.begin(table[0])
    model.learn_features([*map(str, range(1, len(table)))], table[1:])
    return model


@pytest.mark.parametrize("measure", DATA)
@pytest.mark.parametrize("ties", ["inclusive", "strict"])
@pytest.mark.parametrize("name", ["saola", "saola-order-free"])
@given(data=st.data())
@QUICK
def test_what_saola_selects(name: str, ties: str, measure: str, data: st.DataObject) -> None:
    table = data.draw(DATA[measure])
    params = {"measure": measure, "ties": ties, "significance": 0.3}
    model = learnt(name, params, table)
    dep = oracles.MEASURES[measure]
    of = [dep(column, table[0]) for column in table]
    rows = table.shape[1]
    for feature in names_of(model):
        assert oracles.relevant(of[int(feature)], rows, measure, 0.3, 0.0)
    for a, b in combinations(map(int, names_of(model)), 2):
        redundant = dep(table[a], table[b]) > min(of[a], of[b]) + 1e-9
        if redundant:
            assert ties == "strict"
            assert of[a] == pytest.approx(of[b], abs=1e-9), "only equal relevances are exempt"
    there = [i for i in range(1, len(table)) if oracles.relevant(of[i], rows, measure, 0.3, 0.0)]
    if there:
        best = max(of[i] for i in there)
        assert any(of[int(feature)] == pytest.approx(best, abs=1e-9) for feature in names_of(model))
    else:
        assert model.selected == []


@pytest.mark.parametrize("measure", DATA)
@given(data=st.data())
@QUICK
def test_a_copy_of_a_selected_column_changes_nothing(measure: str, data: st.DataObject) -> None:
    model = learnt("saola", {"measure": measure, "significance": 0.3}, table := data.draw(DATA[measure]))
    for feature in names_of(model):
        before = model.selected
        verdict = model.learn_feature(f"copy of {feature}", table[int(feature)])
        assert (verdict.kept, verdict.removed, verdict.reason) == (False, (), "redundant")
        assert len(verdict.by) == 1
        assert model.selected == before


def test_strictly_every_copy_is_kept() -> None:
    rng = np.random.default_rng(1)
    target = rng.integers(0, 2, 60).astype(float)
    column = np.where(rng.random(60) < 0.8, target, 1 - target)
    for ties, kept in (("strict", 3), ("inclusive", 1)):
        model = make("saola", {"measure": "symmetric-uncertainty", "ties": ties})
        model.begin(target)
        model.learn_features(["a", "b", "c"], [column, 1 - column, 7 * column])
        assert len(model.selected) == kept


@given(NUMBERS, st.sampled_from([2.0, -3.0, 0.125, 1e9]), st.sampled_from([0.0, 1.0, -1000.0]))
@QUICK
def test_fisher_z_does_not_mind_affine_maps(table: Columns, scale: float, shift: float) -> None:
    params = {"significance": 0.3}
    one = learnt("saola", params, table)
    other = learnt("saola", params, np.vstack((table[:1], table[1:] * scale + shift)))
    assert names_of(one) == names_of(other)
    assert [w for _, w, _ in one.selected] == pytest.approx([w for _, w, _ in other.selected])


@pytest.mark.parametrize("measure", ["symmetric-uncertainty", "mutual-information"])
@pytest.mark.parametrize("name", ["saola", "saola-order-free"])
@given(table=CODES, names=st.permutations([0.5, -7.0, 1e9]))
@QUICK
def test_discrete_measures_do_not_mind_the_names_of_values(
    name: str, measure: str, table: Columns, names: list[float]
) -> None:
    one = learnt(name, {"measure": measure}, table)
    other = learnt(name, {"measure": measure}, np.array(names)[table.astype(int)])
    assert one.selected == other.selected
    assert one.metrics() == other.metrics()


@pytest.mark.parametrize("params", [{}, {"measure": "symmetric-uncertainty"}, {"measure": "mutual-information"}])
@given(data=st.data())
@QUICK
def test_the_order_free_answer_has_no_order(params: dict[str, Any], data: st.DataObject) -> None:
    measure = params.get("measure", "fisher-z")
    table = data.draw(DATA[measure])
    order = data.draw(st.permutations(range(1, len(table))))
    one = learnt("saola-order-free", params | {"significance": 0.4}, table)
    other = make("saola-order-free", params | {"significance": 0.4})
    other.begin(table[0])
    for i in order:
        other.learn_feature(str(i), table[i])
    assert [selected[:2] for selected in one.selected] == [selected[:2] for selected in other.selected]
    assert one.metrics() == {**other.metrics(), "redundant": one.metrics()["redundant"]}


@given(CODES)
@QUICK
def test_an_order_free_answer_is_a_kernel(table: Columns) -> None:
    """No selected column dominates another, and every other relevant one is dominated by a selected one."""
    model = learnt("saola-order-free", {"measure": "symmetric-uncertainty"}, table)
    su = oracles.symmetric_uncertainty
    selected = set(map(int, names_of(model)))
    for i in range(1, len(table)):
        of_i = su(table[i], table[0])
        dominators = [
            j
            for j in selected - {i}
            if (-su(table[j], table[0]), j) < (-of_i, i)
            and (su(table[i], table[j]) > of_i or oracles.same(table[i], table[j], "symmetric-uncertainty"))
        ]
        assert bool(dominators) == (i not in selected) or of_i == 0


def test_alpha_investing_never_spends_what_it_does_not_have() -> None:
    rng = np.random.default_rng(2)
    model = make("alpha-investing", {"wealth": 0.5, "payout": 0.5})
    model.begin(rng.normal(size=50))
    wealth = 0.5
    for i in range(1, 400):
        kept = model.learn_feature(str(i), rng.normal(size=50)).kept
        wealth += (0.5 if kept else 0.0) - wealth / (2 * i)
        assert model.metrics()["wealth"] == pytest.approx(wealth)
        assert wealth > 0


def test_few_false_features_among_many() -> None:
    rng = np.random.default_rng(3)
    model = make("alpha-investing", {})
    model.begin(rng.normal(size=200))
    model.learn_features([*map(str, range(3000))], rng.normal(size=(3000, 200)))
    assert len(model.selected) <= 4
