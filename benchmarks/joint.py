"""How fast the joint operators decide and learn, and on how few features, at 2, 3 and 11 classes.

Rows of 500 features, the shape of madelon (`make_classification` is the program that made it), most of them telling
nothing; five bins. Beside them scikit-learn's naive Bayes, which looks at all features of every row. Rows are dense,
as arrays, and decided in one call. Then what an instance costs in a flow's lane with one stream and with many, each of
which has a model of its own. CPU time, medians. Run with `python -m benchmarks joint`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB

from benchmarks.measure import Result, Row, cpu_seconds_of, median
from benchmarks.streams.many import Visiting
from benchmarks.turns import take_turns
from sluiceway.operators.joint.etana import Etana
from sluiceway.operators.joint.f_etana import FEtana
from sluiceway.schemas.batch import InstanceBatch

FEATURES, TRAIN, ROWS, RUNS = 500, 4000, 20_000, 5
CLASSES = (2, 3, 11)
CONTENDERS: dict[str, Callable[..., Any]] = {
    "etana": Etana, "f-etana": FEtana, "f-etana, tree": partial(FEtana, dependence="tree"),
}  # fmt: skip
AT_LEAST = 300_000
"""Rows a second, of two classes: the shape of madelon."""
STREAMS, ROUNDS, WARM_UP, NEVER = (1, 100, 1_000), 3, 10, 10**6


def made(classes: int) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    X, y = make_classification(
        TRAIN + ROWS, FEATURES, n_informative=12, n_redundant=20, n_classes=classes, n_clusters_per_class=1,
        class_sep=1.5, random_state=classes,
    )  # fmt: skip
    return X, np.asarray(2 * y - 1 if classes == 2 else y + 1, dtype=np.int8)


def batch(X: NDArray[np.float64], y: NDArray[np.int8]) -> InstanceBatch:
    """Every value is there, of labels of any number of classes."""
    rows, features = X.shape
    order = np.arange(rows, dtype=np.int64)
    return InstanceBatch(
        tuple(map(str, range(features))), np.arange(rows + 1, dtype=np.int64) * features,
        np.tile(np.arange(features, dtype=np.int32), rows), X.ravel(), y, order, order, order + 1,
    )  # fmt: skip


def measured(run: Callable[[], Any]) -> float:
    run()
    return median([cpu_seconds_of(run) for _ in range(RUNS)])


def main() -> list[Result]:
    result = Result(f"Deciding {ROWS:,} rows of {FEATURES} features, five bins, c = .01")
    for classes in CLASSES:
        X, y = made(classes)
        train, test = batch(X[:TRAIN], y[:TRAIN]), batch(X[TRAIN:], y[TRAIN:])
        for name, cls in CONTENDERS.items():
            model = cls(bins=5, warm_up=TRAIN)
            learning = cpu_seconds_of(partial(model.learn_many, train))
            decisions = model.classify(test)  # the policy is solved here
            taken = measured(partial(model.classify, test))
            right = float((decisions.label == test.y).mean())
            result.rows.append(_row(classes, name, ROWS / taken, float(decisions.used.mean()), right, learning))
        bayes = GaussianNB()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            learning = cpu_seconds_of(partial(bayes.fit, X[:TRAIN], y[:TRAIN]))
            taken = measured(partial(bayes.predict, X[TRAIN:]))
            right = float((bayes.predict(X[TRAIN:]) == y[TRAIN:]).mean())
        result.rows.append(_row(classes, "scikit-learn's GaussianNB", ROWS / taken, float(FEATURES), right, learning))
    result.notes.append(
        f"Learning is that of {TRAIN:,} rows, cuts of all features included. Looking at more features than an instance"
        " needs is what the others save: where features cost nothing, naive Bayes on all of them is as good."
    )
    result.notes.append(
        "No batch greedy of a peer is beside them: under none of the names afa, pyafa, afabench, acquirebench, aaco,"
        " dynamic-selection, active-feature-acquisition and cost-sensitive-feature-acquisition is there a package."
    )
    return [result, _by_streams()]


def _by_streams() -> Result:
    """A short warm-up, so that models decide, and no policy after it, whose cost one stream would have to itself."""
    result = Result("Streams of joint operators: 20 features of 200 names, decode, decide and learn")
    for name in ("etana", "f-etana"):
        works: dict[str, tuple[Any, ...]] = {
            f"{streams:,}": (Visiting, {"name": name, "warm_up": WARM_UP, "refit_every": NEVER}, streams)
            for streams in STREAMS
        }
        costs = take_turns(works, ROUNDS)
        for streams in works:
            ratio = median([many / one for one, many in zip(costs["1"], costs[streams], strict=True)])
            row: Row = {"operator": name, "streams": streams, "CPU µs an instance": median(costs[streams])}
            result.rows.append(row | {"against one stream": ratio, "MB in use": costs.about[streams]["MB"]})
    result.notes.append(
        "All streams' rows of a poll are decided and learnt in the same compiled calls; what grows is how much memory"
        " is gone through, each stream's counts and policy. Making policies, some milliseconds each, is left out."
    )
    return result


def _row(classes: int, name: str, rate: float, used: float, right: float, learning: float) -> Row:
    asked = classes == 2 and name in CONTENDERS
    return {
        "classes": str(classes), "contender": name, "rows/s": rate,
        f"at least {AT_LEAST:,}": ("yes" if rate >= AT_LEAST else "NO") if asked else "",
        "mean features": used, "accuracy": right, "s to learn": learning,
    }  # fmt: skip
