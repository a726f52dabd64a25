"""The learners against the dense oracles: on made data and on data that scikit-learn brings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare, hypergeom
from sklearn.datasets import load_breast_cancer, load_digits

from sluiceway.operators.learners.ofs import OFS
from sluiceway.operators.learners.perceptron_random import PerceptronRandom
from sluiceway.operators.learners.perceptron_truncated import PerceptronTruncated
from sluiceway.schemas.batch import InstanceBatch

from . import oracles

PAIRS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "ofs": (OFS, oracles.OFS, {}),
    "ofs, ball reached": (OFS, oracles.OFS, {"lam": 2.0, "eta": 0.5}),
    "ofs, decay": (OFS, oracles.OFS, {"lam": 0.1, "decay": True}),
    "perceptron-truncated": (PerceptronTruncated, oracles.PerceptronTruncated, {}),
    "perceptron-random": (PerceptronRandom, oracles.PerceptronRandom, {"seed": 3}),
}


def made(kind: str) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    rng = np.random.default_rng(17)
    if kind == "breast cancer":
        X, classes = load_breast_cancer(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
        order = rng.permutation(len(X))
        return X[order], np.where(classes[order] == 1, 1, -1).astype(np.int8)
    if kind == "digits":
        X, classes = load_digits(return_X_y=True)
        return np.asarray(X, dtype=np.float64) / 16, np.where(classes % 2 == 1, 1, -1).astype(np.int8)
    X = rng.normal(size=(2000, 60))
    if kind != "dense":
        X *= rng.random(X.shape) < 0.1
    if kind == "growing":  # a name appears every thirtieth row, and some are not seen again for long
        X *= np.arange(60) * 30 <= np.arange(2000)[:, None]
    if kind == "binary":
        X = (X > 0).astype(np.float64)
    noise = rng.normal(size=2000)
    return X, np.where(X[:, :5].sum(axis=1) - X[:, 5:10].sum(axis=1) + noise > 0, 1, -1).astype(np.int8)


@pytest.mark.parametrize("kind", ["dense", "sparse", "growing", "binary", "breast cancer", "digits"])
@pytest.mark.parametrize("pair", PAIRS)
def test_scores_and_weights_are_the_oracle_s(pair: str, kind: str) -> None:
    X, y = made(kind)
    learner, oracle, params = PAIRS[pair]
    for k in (1, 6, X.shape[1]):
        expected = oracle(X.shape[1], k, **params)
        scores = [expected.learn(x, int(label)) for x, label in zip(X, y, strict=True)]
        model = learner(k=k, **params)
        np.testing.assert_allclose(model.prequential(InstanceBatch.from_arrays(X, y)), scores, atol=1e-9)
        weights = np.zeros(X.shape[1])
        for feature, weight, _ in model.selected:
            weights[int(feature)] = weight
        np.testing.assert_allclose(weights, expected.w, atol=1e-9)
        if kind not in ("binary", "digits") and "random" not in pair:
            assert expected.truncate.ties <= 0.01 * expected.truncate.cuts
            assert expected.truncate.cuts > 0 or k == X.shape[1]


@pytest.mark.parametrize("kind", ["binary", "digits"])
def test_the_oracle_has_met_ties(kind: str) -> None:
    X, y = made(kind)
    oracle = oracles.PerceptronTruncated(X.shape[1], 6)
    for x, label in zip(X, y, strict=True):
        oracle.learn(x, int(label))
    assert oracle.truncate.ties > 20


def test_random_perceptron_keeps_k_of_d_on_average() -> None:
    d, k, rows = 40, 8, 3000
    rng = np.random.default_rng(5)
    model = PerceptronRandom(k=k, seed=1)
    times_kept = np.zeros(d)
    sizes = []
    for _ in range(rows):
        # A row of all features with a label that the score has wrong: every weight is non-zero, then k of d stay.
        x = {str(i): float(value) for i, value in enumerate(rng.normal(size=d))}
        y = -1 if model.score_one(x) > 0 else 1
        model.learn_one(x, y)
        for selected in model.selected:
            times_kept[int(selected.feature)] += 1
        sizes.append(len(model.selected))
    assert set(sizes) == {k}
    expected, deviation = rows * k / d, np.sqrt(rows * k / d * (1 - k / d))
    assert np.abs(times_kept - expected).max() < 4.5 * deviation


def test_random_perceptron_keeps_a_hypergeometric_number() -> None:
    d, k, n, runs = 12, 5, 4, 2000
    # n features in one row, which is wrong; the other names are seen before in rows that teach nothing that stays:
    # each is undone by its opposite.
    rows = [row for i in range(n, d) for row in ({"x": {str(i): 1.0}, "y": 1}, {"x": {str(i): 1.0}, "y": -1})]
    before = PerceptronRandom(k=d)
    before.learn_many(InstanceBatch.from_records(rows))
    assert before.selected == []
    counts = np.zeros(n + 1)
    for seed in range(runs):
        state = before.state()
        model = PerceptronRandom.from_state(state | {"params": {"k": k, "seed": seed, "max_features": d}})
        model.learn_one({str(i): 1.0 for i in range(n)}, 1)
        counts[len(model.selected)] += 1
    expected = runs * hypergeom(d, n, k).pmf(np.arange(n + 1))
    assert chisquare(counts, expected).pvalue > 0.001
