"""Every learner of the registry beside River, scikit-learn and Vowpal Wabbit: the same rows in the same order.

5,000 sparse rows with 100 non-zeros of 10,000 names, which come as words do (Zipf); a fifth of the names decide the
label, which is wrong for one row in ten. Each contender predicts a row before it learns from it, from the first row on
(scikit-learn at 1,000: predicts a batch, then learns from it). CPU time of the learner alone: rows are made before, in
the form that the contender wants. Non-zeros are the weights at the end that are not 0.

The last two columns are the time of a row at 1,000,000 names over that at 10,000, all of them seen before, every row
new: on rows as above, and on rows that draw their names uniformly, which is the most that memory can cost: where every
name has a weight, every non-zero is a miss of the caches. What memory alone costs is the row "w . x and nothing else":
weights in one array, read by the row's own indices, and not asked for ahead. Uniform rows have random labels, and are
learnt from with `trigger = "hinge"` where there is a choice, so that about as many are learnt from at both sizes; a
note has them with "error", and which share is learnt from.

Vowpal Wabbit is asked where it is installed, which `make` does wherever there is a wheel of it. Run with
`python -m benchmarks contenders`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from river import feature_selection, linear_model, stats
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier

from benchmarks.learners import NON_ZEROS, ROWS, numbered
from benchmarks.measure import Result, cpu_seconds_of
from sluiceway.operators import registry
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.operators.learners.dense import DenseLearner
from sluiceway.schemas.batch import InstanceBatch

try:
    import vowpalwabbit
except ImportError:  # there are not wheels for every machine
    vowpalwabbit = None

BATCHES, RUNS, PAIRS = 5, 3, 15
VW_BITS = 18
NAMES = (10_000, 1_000_000)
MOST = 1.6
"""Times slower with many names."""


def labelled(names: tuple[str, ...], batches: int, *, zipf: bool) -> list[InstanceBatch]:
    rng = np.random.default_rng(0)
    width = len(names) // NON_ZEROS
    truth = np.where(rng.random(len(names)) < 0.2, rng.normal(size=len(names)), 0.0)
    rows = batches * ROWS
    if zipf:  # the chance of a rank is 1/rank, within each of the 100 strips of names
        places = np.floor(np.exp(rng.random((rows, NON_ZEROS)) * np.log(width))).astype(np.int64) - 1
    else:
        places = rng.integers(0, width, (rows, NON_ZEROS))
    columns = places + np.arange(NON_ZEROS) * width
    values = rng.normal(size=columns.shape)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    if zipf:
        y = np.sign((truth[columns] * values).sum(axis=1)) * np.where(rng.random(rows) < 0.1, -1, 1)
        y[y == 0] = 1
    else:
        y = rng.choice([-1, 1], size=rows)
    indptr = np.arange(rows + 1) * NON_ZEROS
    whole = InstanceBatch.from_csr(indptr, columns.ravel(), values.ravel(), y, names=names)
    return [whole.slice(at, at + ROWS) for at in range(0, rows, ROWS)]


def learns_from_errors(name: str) -> bool:
    """By default, but not of necessity."""
    trigger = registry.parameters(name).get("trigger")
    return trigger is not None and trigger.default == "error"


def new_model(name: str, *, always: bool = False) -> Any:
    """With the defaults, and k = 100 where a k is needed; all weights are selected where a share is, to be counted.

    `always`: every row is learnt from, where there is a choice.
    """
    cls: Any = registry.learner(name)
    if registry.needs(name, "k"):
        return cls(k=100)
    more = {"trigger": "hinge"} if always and learns_from_errors(name) else {}
    return cls(keep=1.0, **more) if issubclass(cls, DenseLearner) else cls()


def ours(name: str, given: list[InstanceBatch]) -> tuple[float, int, int]:
    """CPU seconds, mistakes, non-zeros."""
    spent, wrong, model = [], 0, new_model(name)
    for _ in range(RUNS):
        model = new_model(name)
        scores: list[NDArray[np.float64]] = []
        spent.append(cpu_seconds_of(partial(scores.extend, map(model.prequential, given))))
        wrong = sum(int((b.y * s <= 0).sum()) for b, s in zip(given, scores, strict=True))
    return statistics.median(spent), wrong, len(model.selected)


def river(model: Any, learnt: Any, given: list[InstanceBatch]) -> tuple[float, int, int]:
    """`learnt` is the part of the model that has the weights."""
    rows = []
    for batch in given:
        for row, y in enumerate((batch.y > 0).tolist()):
            part = slice(batch.indptr[row], batch.indptr[row + 1])
            names = map(batch.names.__getitem__, batch.indices[part].tolist())
            rows.append((dict(zip(names, batch.values[part].tolist(), strict=True)), y))
    wrong = 0

    def run() -> None:
        nonlocal wrong
        for x, y in rows:
            wrong += model.predict_one(x) != y
            model.learn_one(x, y)

    spent = cpu_seconds_of(run)
    return spent, wrong, sum(weight != 0 for weight in learnt.weights.values())


def passive_aggressive(given: list[InstanceBatch]) -> tuple[float, int, int]:
    model = linear_model.PAClassifier()
    return river(model, model, given)


def select_k_best(given: list[InstanceBatch]) -> tuple[float, int, int]:
    """The 100 features that correlate most, as many as ours keep, before the same learner.

    River 0.26 predicts from these but lets the learner learn from all, so its non-zeros are not 100.
    """
    last = linear_model.PAClassifier()
    return river(feature_selection.SelectKBest(stats.PearsonCorr(), k=100) | last, last, given)


def scikit_learn(given: list[InstanceBatch], size: int) -> tuple[float, int, int]:
    """SGDClassifier, hinge loss, no penalty."""
    model = SGDClassifier(penalty=None)
    whole = [csr_matrix((b.values, b.indices, b.indptr), shape=(ROWS, len(b.names))) for b in given]
    rows = [
        (X[at : at + size], b.y[at : at + size])
        for X, b in zip(whole, given, strict=True)
        for at in range(0, ROWS, size)
    ]
    wrong = 0

    def run() -> None:
        nonlocal wrong
        for at, (X, y) in enumerate(rows):
            wrong += int((model.predict(X) != y).sum()) if at else len(y)
            model.partial_fit(X, y, classes=[-1, 1])

    return cpu_seconds_of(run), wrong, int(np.count_nonzero(model.coef_))


def vowpal_wabbit(given: list[InstanceBatch]) -> tuple[float, int, int]:
    """Rows are parsed before, as all other contenders' are made."""
    model = vowpalwabbit.Workspace(f"--loss_function hinge --noconstant --quiet -b {VW_BITS}")
    rows = []
    for batch in given:
        for row, y in enumerate(batch.y.tolist()):
            part = slice(batch.indptr[row], batch.indptr[row + 1])
            pairs = zip(batch.indices[part].tolist(), batch.values[part].tolist(), strict=True)
            rows.append((model.parse(f"{y} | " + " ".join(f"{i}:{v!r}" for i, v in pairs)), y))
    wrong = 0

    def run() -> None:
        nonlocal wrong
        for row, y in rows:
            wrong += y * model.predict(row) <= 0
            model.learn(row)

    spent = cpu_seconds_of(run)
    weights = sum(model.get_weight(i) != 0 for i in range(1 << VW_BITS))
    for row, _ in rows:
        model.finish_example(row)
    model.finish()
    return spent, wrong, weights


def every_name(names: tuple[str, ...]) -> InstanceBatch:
    """Each name once."""
    width = len(names) // NON_ZEROS
    columns = np.arange(width)[:, None] + np.arange(NON_ZEROS) * width
    y = np.random.default_rng(1).choice([-1, 1], size=width)
    indptr = np.arange(width + 1) * NON_ZEROS
    return InstanceBatch.from_csr(indptr, columns.ravel(), np.full(columns.size, 0.1), y, names=names)


class Growth:
    """Time with many names over time with few, after a batch that has every name: each row comes once."""

    def __init__(self, *, zipf: bool) -> None:
        self._first = [every_name(numbered(names)) for names in NAMES]
        self._rows = [labelled(first.names, PAIRS * BATCHES, zipf=zipf) for first in self._first]

    def of(self, new: Callable[[], Callable[[InstanceBatch], Any]]) -> tuple[float, list[Any]]:
        """The ratio, and what the learners returned, few and many."""
        learners = [new() for _ in NAMES]
        returned: list[list[Any]] = [[] for _ in NAMES]
        for learn, first in zip(learners, self._first, strict=True):
            learn(first)

        def run(size: int, pair: int) -> float:
            batches = self._rows[size][pair * BATCHES : (pair + 1) * BATCHES]
            return cpu_seconds_of(lambda: returned[size].extend(map(learners[size], batches)))

        ratio = statistics.median(run(1, pair) / run(0, pair) for pair in range(PAIRS))
        return ratio, returned

    def from_errors(self, name: str) -> str:
        """As a note: the ratio with the default trigger, and the shares of rows learnt from, few and many."""
        ratio, scores = self.of(lambda: new_model(name).prequential)
        shares = [
            float(np.mean([batch.y * score <= 0 for batch, score in zip(batches, of_size, strict=True)]))
            for batches, of_size in zip(self._rows, scores, strict=True)
        ]
        return f"{name} {ratio:.2f} ({shares[0]:.0%}, {shares[1]:.0%})"


@njit  # type: ignore[untyped-decorator]  # numba has no types
def _dot_rows(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], values: NDArray[np.float64], weight: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:  # fmt: skip
    for row in range(len(scores)):
        f = 0.0
        for j in range(indptr[row], indptr[row + 1]):
            f += weight[indices[j]] * values[j]
        scores[row] = f


def new_dot() -> Callable[[InstanceBatch], Any]:
    weights: list[NDArray[np.float64]] = []

    def score(batch: InstanceBatch) -> None:
        if not weights:
            weights.append(np.random.default_rng(0).normal(size=len(batch.names)))
        _dot_rows(batch.indptr, batch.indices, batch.values, weights[0], np.empty(len(batch)))

    return score


def new_scikit_learn() -> Callable[[InstanceBatch], Any]:
    model = SGDClassifier(penalty=None)

    def learn(batch: InstanceBatch) -> None:
        X = csr_matrix((batch.values, batch.indices, batch.indptr), shape=(len(batch), len(batch.names)))
        model.partial_fit(X, batch.y, classes=[-1, 1])

    return learn


def main() -> list[Result]:
    few = labelled(numbered(NAMES[0]), BATCHES, zipf=True)
    words, uniform = Growth(zipf=True), Growth(zipf=False)
    total = ROWS * BATCHES
    result = Result(f"Learners: {total:,} rows, {NON_ZEROS} non-zeros, prequential, CPU time")
    theirs = passive_aggressive(few)
    slow: list[str] = []
    growing: list[str] = []

    def add(name: str, found: tuple[float, int, int], as_words: Any = None, all_learnt: Any = None) -> None:
        seconds, wrong, weights = found
        grows = [words.of(as_words)[0], uniform.of(all_learnt or as_words)[0]] if as_words else []
        result.rows.append(
            {
                "learner": name,
                "rows/s": total / seconds,
                "/ River": theirs[0] / seconds,
                "accuracy": 1 - wrong / total if weights else "",
                "non-zeros": weights or "",
                "1M / 10k names": grows[0] if grows else "",
                "the same, uniform": grows[1] if grows else "",
            }
        )
        if all_learnt is not None:
            slow.extend([name] if theirs[0] / seconds < 5 else [])
            growing.extend(f"{name} ({ratio:.2f})" for ratio in grows if ratio > MOST)

    for name, entry in registry.OPERATORS.items():
        if entry.kind is LEARNER:
            entry.cls.compile()
            add(
                name,
                ours(name, few),
                lambda name=name: new_model(name).prequential,
                lambda name=name: new_model(name, always=True).prequential,
            )
    add("River PAClassifier", theirs)
    add("River SelectKBest, PAClassifier", select_k_best(few))
    add("scikit-learn SGDClassifier, partial_fit of 1", scikit_learn(few, 1))
    add("scikit-learn SGDClassifier, partial_fit of 1,000", scikit_learn(few, ROWS), new_scikit_learn)
    dot = new_dot()
    dot(few[0])
    seconds = statistics.median(cpu_seconds_of(lambda: [dot(batch) for batch in few]) for _ in range(RUNS))
    add("w . x and nothing else", (seconds, total, 0), new_dot)
    if vowpalwabbit is not None:
        add("Vowpal Wabbit, hinge", vowpal_wabbit(few))
    result.notes.append("at least 5 times River: " + (f"NO for {', '.join(slow)}" if slow else "yes, every learner"))
    result.notes.append(
        f"at most {MOST} times the time at 1,000,000 names, both ways: "
        + (f"NO for {', '.join(growing)}" if growing else "yes, every learner")
    )
    lazy = map(uniform.from_errors, filter(learns_from_errors, registry.OPERATORS))
    result.notes.append("uniform, learning from errors alone (of what share of rows): " + ", ".join(lazy))
    if vowpalwabbit is None:
        result.notes.append("Vowpal Wabbit: not asked, it is not installed here")
    return [result]
