"""How fast the learners are, against River and scikit-learn on the same rows in the same process.

`prequential` on batches of 1,000 sparse rows with 100 non-zeros each; labels are random, so every row is learnt
from. With the default ball most features that a row brings are too small to stay; in a ball of radius 0.1 ("churn") the
rows before are shrunk away and most slots change hands at every row: the dearest case there is.

CPU time, the two contenders in turn, medians of the paired ratios: a busy machine slows both. The first batch of each
run, in which names are mapped to slots, is not counted; the batches share one tuple of names. Run with
`python -m benchmarks learners`.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]  # it has no types
from river import linear_model
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier

from benchmarks.measure import Result, cpu_seconds_of
from sluiceway.operators.learners.ofs import OFS
from sluiceway.schemas.batch import InstanceBatch

ROWS, NON_ZEROS, PAIRS = 1000, 100, 7
CHURN = 100.0
"""The lambda of a ball of radius 0.1."""


def batches(names: tuple[str, ...], count: int, seed: int = 0) -> list[InstanceBatch]:
    rng = np.random.default_rng(seed)
    width = len(names) // NON_ZEROS
    indptr = np.arange(ROWS + 1) * NON_ZEROS
    made = []
    for _ in range(count):
        columns = rng.integers(0, width, (ROWS, NON_ZEROS)) + np.arange(NON_ZEROS) * width
        values = rng.normal(size=(ROWS, NON_ZEROS))
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        y = rng.choice([-1, 1], size=ROWS)
        made.append(InstanceBatch.from_csr(indptr, columns.ravel(), values.ravel(), y, names=names))
    return made


def numbered(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def learn(k: int, given: list[InstanceBatch], lam: float) -> Callable[[], float]:
    """One run of OFS over the batches after the first, which warms up; the share of rows learnt from."""
    model = OFS(k=k, lam=lam)
    model.prequential(given[0])

    def run() -> float:
        learnt = 0
        for batch in given[1:]:
            learnt += int(np.count_nonzero(batch.y * model.prequential(batch) <= 1))
        return learnt / ROWS / (len(given) - 1)

    return run


def with_scikit_learn(given: list[InstanceBatch]) -> Callable[[], None]:
    model = SGDClassifier()
    matrices = [csr_matrix((b.values, b.indices, b.indptr), shape=(ROWS, len(b.names))) for b in given]
    model.partial_fit(matrices[0], given[0].y, classes=[-1, 1])

    def run() -> None:
        for matrix, batch in zip(matrices[1:], given[1:], strict=True):
            model.partial_fit(matrix, batch.y)

    return run


def with_river(given: list[InstanceBatch]) -> Callable[[], None]:
    """On rows that are dictionaries already: making them is not counted."""
    model = linear_model.PAClassifier()
    rows = []
    for batch in given[1:]:
        for row, y in enumerate((batch.y > 0).tolist()):
            part = slice(batch.indptr[row], batch.indptr[row + 1])
            names = map(batch.names.__getitem__, batch.indices[part].tolist())
            rows.append((dict(zip(names, batch.values[part].tolist(), strict=True)), y))

    def run() -> None:
        for x, y in rows:
            model.predict_one(x)
            model.learn_one(x, y)

    return run


def times_faster(ours: Callable[[], Any], other: Callable[[], Any], theirs_per_ours: float = 1.0) -> float:
    """Median over pairs of (their time for a row) / (our time for a row)."""
    ratios = [cpu_seconds_of(other) / cpu_seconds_of(ours) / theirs_per_ours for _ in range(PAIRS)]
    return statistics.median(ratios)


def growth_of_memory() -> float:
    """MB more in use after 1,000,000 distinct names than after the first 200,000."""
    model = OFS(k=100)
    process = psutil.Process(os.getpid())
    first = 0
    per_batch = 10_000
    for part in range(100):
        names = tuple(f"name-{part}-{i}" for i in range(per_batch))
        model.learn_many(batches(names, 1, seed=part)[0])
        if part == 19:
            first = process.memory_info().rss
    return float(process.memory_info().rss - first) / 1e6


def main() -> list[Result]:
    """A row a figure: what, value, target, whether it is met."""
    OFS.compile()
    few = batches(numbered(10_000), 21)
    many = batches(numbered(1_000_000), 21)
    shares: list[float] = []

    def ours(k: int, given: list[InstanceBatch], lam: float = 0.01) -> Callable[[], None]:
        run = learn(k, given, lam)
        return lambda: shares.append(run())

    def rows_per_second(k: int, lam: float = 0.01) -> float:
        run = ours(k, few, lam)
        return 20 * ROWS / statistics.median(cpu_seconds_of(run) for _ in range(PAIRS))

    figures: list[tuple[str, Callable[[], float], str, float]] = [
        ("memory growth over 1,000,000 names, MB", growth_of_memory, "at most", 8.0),
        (
            "speed / River PAClassifier, k = 100",
            lambda: times_faster(ours(100, few), with_river(few[:3]), 2 / 20),
            "at least",
            10.0,
        ),
        (
            "speed / scikit-learn SGDClassifier, k = 100",
            lambda: times_faster(ours(100, few), with_scikit_learn(few)),
            "at least",
            0.4,
        ),
        (
            "the same, churn",
            lambda: times_faster(ours(100, few, CHURN), with_scikit_learn(few)),
            "",
            0.0,
        ),
        (
            "time at 1,000,000 names / at 10,000, k = 100",
            lambda: times_faster(ours(100, few), ours(100, many)),
            "at most",
            1.6,
        ),
        ("rows a CPU second, k = 100", lambda: rows_per_second(100), "", 0.0),
        ("rows a CPU second, k = 100, churn", lambda: rows_per_second(100, CHURN), "", 0.0),
        ("rows a CPU second, k = 3000", lambda: rows_per_second(3000), "at least", 40_000.0),
        ("rows a CPU second, k = 3000, churn", lambda: rows_per_second(3000, CHURN), "", 0.0),
    ]
    result = Result("Learners: OFS, 100 non-zeros a row, batches of 1,000")
    for what, figure, bound, target in figures:
        value = figure()
        met = "" if not bound else "yes" if (value <= target if bound == "at most" else value >= target) else "NO"
        wanted = f"{bound} {target:,g}" if bound else ""
        result.rows.append({"figure": what, "value": value, "target": wanted, "met": met})
    result.notes.append(f"share of rows learnt from: {min(shares):.3f}")
    return [result]
