"""Examples small enough to check by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sluiceway.operators.contract import ColumnSelector, Removed, Verdict
from sluiceway.operators.kernels.keys import feature_keys
from sluiceway.operators.selectors.alpha_investing import AlphaInvesting
from sluiceway.operators.selectors.fast_osfs import FastOSFS
from sluiceway.operators.selectors.fcbf import FCBF
from sluiceway.operators.selectors.ofs_a3m import OFSA3M
from sluiceway.operators.selectors.ofs_density import OFSDensity
from sluiceway.operators.selectors.osfs import OSFS
from sluiceway.operators.selectors.saola import Saola
from sluiceway.operators.selectors.saola_order_free import SaolaOrderFree
from sluiceway.operators.selectors.saola_stream import SaolaStream

# Correlations with the target: 0.9 (strong), 0.6 (middle), 0.5 (weak); made exact by orthogonal parts.
BASIS = np.array([[1, 1, 1, 1, -1, -1, -1, -1], [1, 1, -1, -1, 1, 1, -1, -1], [1, -1, 1, -1, 1, -1, 1, -1],
                  [1, -1, -1, 1, 1, -1, -1, 1]] , dtype=float).repeat(10, axis=1)  # fmt: skip
C, U, V, W = BASIS


def mix(c: float, u: float = 0.0, v: float = 0.0) -> Any:
    """A column whose correlation with C is c, with U is u, with V is v."""
    return c * C + u * U + v * V + np.sqrt(max(1 - c * c - u * u - v * v, 0.0)) * W


def shown(model: ColumnSelector) -> list[tuple[str, float, int]]:
    return [(feature, round(weight, 9), since) for feature, weight, since in model.selected]


def test_saola_discards_what_a_stronger_one_covers() -> None:
    strong, weak = mix(0.8, 0.6), mix(0.4, 0.9)  # r(strong, weak) = 0.32 + 0.54 = 0.86 > 0.4
    model = Saola()
    model.begin(C)
    assert model.learn_feature("strong", strong) == Verdict(True, (), "selected")
    assert model.learn_feature("weak", weak) == Verdict(False, (), "redundant", ("strong",))
    assert model.learn_feature("noise", U) == Verdict(False, (), "irrelevant")
    assert shown(model) == [("strong", 0.8, 1)]
    counted = {"irrelevant": 1, "constant": 0, "single_class_target": 0, "redundant": 1, "columns_left_out": 0}
    assert model.metrics() == counted


def test_saola_removes_what_the_new_one_covers() -> None:
    strong, weak = mix(0.8, 0.6), mix(0.4, 0.9)
    model = Saola()
    model.begin(C)
    model.learn_feature("weak", weak)
    assert model.learn_feature("strong", strong) == Verdict(True, (Removed("weak", ("strong",)),), "selected")
    assert shown(model) == [("strong", 0.8, 2)]


@pytest.mark.parametrize("seed", range(12))
def test_saola_settles_what_an_estimate_leaves_open(seed: int) -> None:
    """r(first, F) lies 1e-9 above or below dep(F), which single precision cannot tell."""
    rng = np.random.default_rng(seed)
    made, _ = np.linalg.qr(np.column_stack((np.ones(500), rng.normal(size=(500, 3)))))
    target, u, v = made[:, 1:].T
    for beyond, reason in ((1e-9, "redundant"), (-1e-9, "selected")):
        model = Saola()
        model.begin(target)
        model.learn_feature("first", 0.6 * target + 0.8 * u)
        b = (0.3 + beyond - 0.6 * 0.3) / 0.8
        F = 0.3 * target + b * u + np.sqrt(1 - 0.3**2 - b * b) * v
        assert model.learn_feature("F", F).reason == reason


def test_saola_max_asks_for_more() -> None:
    strong, weak = mix(0.8, 0.6), mix(0.4, 0.5)  # r = 0.32 + 0.3 = 0.62: above 0.4, below 0.8
    for bound, kept in (("min", False), ("max", True)):
        model = Saola(bound=bound)
        model.begin(C)
        verdicts = model.learn_features(["strong", "weak"], [strong, weak])
        assert verdicts[1].kept is kept


def test_saola_removals_stay_although_the_new_one_is_discarded() -> None:
    """F covers Y1, which came first, and is covered by Y2: both Y1 and F are gone."""
    y1 = mix(0.35, 0.0, 0.9)
    y2 = mix(0.8, 0.6)
    f = mix(0.4, 0.55, 0.6)
    assert np.corrcoef([y1, f, y2])[0, 1] > 0.4
    assert np.corrcoef([y1, f, y2])[1, 2] > 0.4
    assert np.corrcoef([y1, f, y2])[0, 2] < 0.35
    model = Saola()
    model.begin(C)
    verdicts = model.learn_features(["y1", "y2", "f"], [y1, y2, f])
    assert verdicts[2] == Verdict(False, (Removed("y1", ("f",)),), "redundant", ("y2",))
    assert [s.feature for s in model.selected] == ["y2"]
    free = SaolaOrderFree()
    free.begin(C)
    verdicts = free.learn_features(["y1", "f", "y2"], [y1, f, y2])
    assert verdicts[1].removed == (Removed("y1", ("f",)),)
    assert verdicts[2] == Verdict(True, (Removed("f", ("y2",)),), "selected", (), ("y1",))
    assert [(s.feature, s.since) for s in free.selected] == [("y2", 3), ("y1", 3)]


BENIGN_OR_NOT = ["benign", "malignant", "malignant", "benign"] * 20


@pytest.mark.parametrize(
    "target",
    [BENIGN_OR_NOT, np.array(BENIGN_OR_NOT), pd.Series(BENIGN_OR_NOT), pd.Categorical(BENIGN_OR_NOT),
     pl.Series(BENIGN_OR_NOT), np.array(BENIGN_OR_NOT, dtype=object), np.array(BENIGN_OR_NOT) == "malignant"],
    ids=["list", "numpy", "pandas", "categorical", "polars", "objects", "booleans"],
)  # fmt: skip
def test_texts_and_booleans_hold_classes(target: Any) -> None:
    by_name, by_number = Saola(), Saola()
    by_name.begin(target)
    by_number.begin([0, 1, 1, 0] * 20)
    for model in (by_name, by_number):
        model.learn_features(["a", "b"], np.array([[1.0, 9.0, 8.0, 3.0] * 20, [1.0, 2.0, 3.0, 9.0] * 20]))
    assert by_name.state() == by_number.state()


def test_texts_of_three_classes_need_a_measure_for_them() -> None:
    three = ["ant", "bee", "wasp"] * 30
    with pytest.raises(ValueError, match=r"has 3 classes .*choose a measure or test for discrete data"):
        Saola().begin(three)
    model = Saola(measure="symmetric-uncertainty")
    model.begin(three)
    assert model.learn_feature("a", [1, 2, 3] * 30).kept
    with pytest.raises(ValueError, match="the target is not a list of numbers"):
        model.begin(["ant", None, "wasp"])  # type: ignore[arg-type]  # what is refused


def test_symmetric_uncertainty_by_hand() -> None:
    """Target 1100, column 1000: I = H(3/4) + 1 - 1.5 bits, SU = 2 I / (H(3/4) + 1)."""
    h = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    for measure, value in (("symmetric-uncertainty", 2 * (h - 0.5) / (h + 1)), ("mutual-information", h - 0.5)):
        model = Saola(measure=measure)
        model.begin([1, 1, 0, 0])
        model.learn_feature("a", [1, 0, 0, 0])
        assert shown(model) == [("a", round(value, 9), 1)]
    model = Saola(measure="mutual-information")
    model.begin([1, 1, 0, 0])
    assert model.learn_feature("independent", [1, 0, 1, 0]).reason == "irrelevant"


def test_a_column_just_significant_and_one_just_not() -> None:
    """80 rows, significance 0.01: |r| >= tanh(2.5758 / sqrt(77)) = 0.2854."""
    model = Saola()
    model.begin(C)
    assert model.learn_feature("below", mix(0.2853)).reason == "irrelevant"
    assert model.learn_feature("above", mix(0.2855)).kept


def test_osfs_needs_two_features_to_explain_a_third() -> None:
    """c = a + b and x = c + noise: x depends on c given a alone or b alone, but not given both."""
    rng = np.random.default_rng(1)
    a, b, noise = rng.normal(size=(3, 500))
    c = a + b
    x = c + noise
    for selector in (OSFS, FastOSFS):
        narrow, wide = selector(max_subset=1), selector(max_subset=2)
        for model, expected in ((narrow, {"a", "b", "x"}), (wide, {"a", "b"})):
            model.begin(c)
            verdicts = model.learn_features(["a", "b", "x"], [a, b, x])
            assert {s.feature for s in model.selected} == expected
        assert verdicts[2].by == ("a", "b")
        model.begin(c)
        verdicts = model.learn_features(["x", "a", "b"], [x, a, b])
        removed = Removed("x", ("a", "b") if selector is OSFS else ("b", "a"))  # the new one stands first
        assert verdicts[2].removed == (removed,)


def test_of_two_copies_osfs_keeps_the_newer_and_fast_osfs_the_older() -> None:
    target = np.tile([0.0, 0.0, 1.0, 1.0], 30)
    for test in ("g2", "fisher-z"):
        slow, fast = OSFS(test=test), FastOSFS(test=test)
        for model in (slow, fast):
            model.begin(target)
            assert model.learn_feature("same", target).kept
        assert slow.learn_feature("copy", target) == Verdict(True, (Removed("same", ("copy",)),), "selected")
        assert fast.learn_feature("copy", target) == Verdict(False, (), "redundant", ("same",))


def test_alpha_investing_by_hand() -> None:
    model = AlphaInvesting(wealth=0.5, payout=0.5)
    model.begin(C)
    assert model.learn_feature("noise", U).reason == "irrelevant"  # 0.5 - 0.25
    assert model.learn_feature("strong", mix(0.8, 0.6)).kept  # 0.25 - 0.0625 + 0.5
    assert model.metrics()["wealth"] == pytest.approx(0.6875)
    # What strong leaves of U lies across C's remainder: r = -0.48 / sqrt(1 - .64) / sqrt(1 - .36) = -1.
    assert model.learn_feature("noise", U).kept
    assert [s.feature for s in model.selected] == ["noise", "strong"]
    verdict = model.learn_feature("sum", mix(0.8, 0.6) + 3 * U)
    assert (verdict.reason, len(verdict.by)) == ("redundant", 1)


def test_fcbf_keeps_the_predominant() -> None:
    model = FCBF()
    model.begin([1, 1, 1, 1, 0, 0, 0, 0])
    good, worse = [1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0]
    verdicts = model.learn_features(["worse", "good"], [worse, good])
    assert verdicts[1] == Verdict(True, (Removed("worse", ("good",)),), "selected")
    model.learn_feature("good again", good)  # equal relevance: the smaller key stays
    smaller = min("good", "good again", key=lambda name: int(feature_keys([name])[0]))
    assert [s.feature for s in model.selected] == [smaller]


def test_relevant_columns_beyond_the_limit_are_left_out_and_counted() -> None:
    for model in (SaolaOrderFree(max_features=2), FCBF(max_features=2)):
        model.begin(np.tile([0.0, 1.0], 50))
        rng = np.random.default_rng(1)
        columns = [np.where(rng.random(100) < 0.9, np.tile([0.0, 1.0], 50), 0.5) for _ in range(4)]
        verdicts = model.learn_features(["a", "b", "c", "d"], columns)
        assert [verdict.reason.startswith("left out") for verdict in verdicts] == [False, False, True, True]
        assert model.metrics()["columns_left_out"] == 2
        assert model.metrics()["held"] == 2


def test_a_held_column_that_is_not_selected_may_come_again() -> None:
    strong, weak = mix(0.8, 0.6), mix(0.4, 0.9)
    model = SaolaOrderFree()
    model.begin(C)
    model.learn_features(["strong", "weak"], [strong, weak])
    assert model.learn_feature("weak", mix(0.7, -0.5)).kept
    assert {s.feature for s in model.selected} == {"strong", "weak"}
    assert model.metrics()["held"] == 2
    with pytest.raises(ValueError, match="'weak' is selected already"):
        model.learn_feature("weak", weak)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Saola(measure="pearson"), "measure must be one of fisher-z, symmetric-uncertainty, "),
        (lambda: Saola(bound="mean"), "bound must be one of min, max, not 'mean'"),
        (lambda: Saola(ties=None), "ties must be one of inclusive, strict, not None"),  # type: ignore[arg-type]
        (lambda: Saola(significance=0), "significance must be a number between 0 and 1, not 0"),
        (lambda: Saola(significance=float("nan")), "significance must be a number between 0 and 1, not nan"),
        (lambda: Saola(delta=1.0), "delta must be a number of at least 0 and below 1, not 1.0"),
        (lambda: Saola(delta=True), "delta must be a number of at least 0 and below 1, not True"),
        (lambda: OSFS(max_subset=0), "max_subset must be a whole number of at least 1, not 0"),
        (lambda: OSFS(test="chi2"), "test must be one of fisher-z, g2, not 'chi2'"),
        (lambda: FastOSFS(max_subset=11), "max_subset must be at most 10, not 11"),
        (lambda: AlphaInvesting(wealth=0), "wealth must be a number between 0 and 1, not 0"),
        (lambda: FCBF(max_features=0), "max_features must be a whole number of at least 1, not 0"),
        (lambda: SaolaStream(refresh=0), "refresh must be a whole number of at least 1, not 0"),
    ],
)
def test_hyper_parameters_are_checked_at_once(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        make()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("cls", "purity"), [(OFSA3M, 5 / 12), (OFSDensity, 5 / 24)])
def test_how_pure_neighbourhoods_are_by_hand(cls: Any, purity: float) -> None:
    """Rows a, b, c, d; distances in the column's own unit, as both rules know no other.

    gap: up to the first step of at least 0.75 (farthest - nearest), density: up to the first rise of s_t / t
    a: 2.5 b, 3 c, 8 d      gap b c       1/2    density b c      1/2
    b: 0.5 c, 2.5 a, 5.5 d  gap c a d     1/3    density c        0
    c: 0.5 b, 3 a, 5 d      gap b a d     1/3    density b        0
    d: 5 c, 5.5 b, 8 a      gap c b       1/2    density c b a    1/3
    """
    model = cls()
    model.begin([1, 1, -1, -1])
    assert model.learn_feature("constant", [3.0, 3.0, 3.0, 3.0]).reason.endswith("constant")
    assert model.learn_feature("F", [0.0, 2.5, 3.0, 8.0]).kept
    [(_, weight, _)] = model.selected
    assert weight == pytest.approx(purity, abs=1e-15)
    assert model.metrics()["purity"] == weight
