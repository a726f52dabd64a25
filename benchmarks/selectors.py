"""Columns a second in the selectors, beside plain numpy: SAOLA on continuous and binary columns, alpha-investing.

CPU time; each ratio is the median over pairs of runs, one of each kind in turn, in the same process. The plain programs
are what one would write with numpy: vectorised over rows, a loop over the selected columns, one fit a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.measure import Result, Row, cpu_seconds, median
from sluiceway.operators.registry import column_selector

PAIRS = 5
Table = NDArray[np.float64]


def dense_columns(rows: int, selected: int, count: int, seed: int = 0) -> tuple[Table, Table, Table]:
    """A target, `selected` columns that SAOLA keeps, and `count` more: half irrelevant, half relevant and redundant."""
    rng = np.random.default_rng(seed)
    target = np.where(np.arange(rows) < rows // 2, 1.0, -1.0)
    rng.shuffle(target)
    noise, _ = np.linalg.qr(np.column_stack((np.ones(rows), target, rng.normal(size=(rows, selected)))))
    z = target / np.linalg.norm(target)
    r = 0.12  # two kept ones correlate by r² < r
    kept = r * z + math.sqrt(1 - r * r) * noise[:, 2:].T
    irrelevant = rng.normal(size=(count // 2, rows))
    irrelevant -= irrelevant.mean(axis=1, keepdims=True)
    irrelevant -= np.outer(irrelevant @ z, z)
    like = kept[rng.integers(selected, size=count - count // 2)]
    redundant = 0.85 * like + 0.5 * rng.normal(size=like.shape) / math.sqrt(rows)
    more = np.concatenate((irrelevant, redundant))
    return target, kept, more[rng.permutation(count)]


def binary_columns(rows: int, count: int, seed: int = 0) -> tuple[Table, Table]:
    """Sparse ones as in molecule data: a target, and columns of which some have to do with it."""
    rng = np.random.default_rng(seed)
    target = (rng.random(rows) < 0.2).astype(float)
    rate = rng.choice([0.02, 0.1, 0.3], size=(count, 1))
    lift = rng.choice([1.0, 1.0, 1.5, 2.5], size=(count, 1))
    return target, (rng.random((count, rows)) < rate * np.where(target > 0, lift, 1.0)).astype(float)


def plain_saola(target: Table, columns: Table, dep: Callable[[Any, Any], float], least: float, prepare: Any) -> int:
    """Algorithm 1; how many it selects."""
    C = prepare(target)
    S: list[Any] = []
    of: list[float] = []
    for column in columns:
        if column.min() == column.max():
            continue
        F = prepare(column)
        dep_F = dep(F, C)
        if dep_F < least:
            continue
        keep = np.ones(len(S), dtype=bool)
        for j, Y in enumerate(S):
            v = dep(F, Y)
            if of[j] >= dep_F and v > dep_F:
                break
            if dep_F > of[j] and v > of[j]:
                keep[j] = False
        else:
            S.append(F)
            of.append(dep_F)
            keep = np.append(keep, True)
        S = [Y for Y, stays in zip(S, keep, strict=True) if stays]
        of = [r for r, stays in zip(of, keep, strict=True) if stays]
    return len(S)


def standardised(x: Table) -> Table:
    z = x - x.mean()
    return np.asarray(z / np.linalg.norm(z))


def correlation(x: Table, y: Table) -> float:
    return abs(float(x @ y))


def symmetric_uncertainty(x: NDArray[np.int64], y: NDArray[np.int64]) -> float:
    table = np.bincount(2 * x + y, minlength=4).reshape(2, 2) / len(x)
    a, b, both = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0)), _entropy(table.ravel())
    return 2 * (a + b - both) / (a + b)


def _entropy(p: Table) -> float:
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum())


def plain_alpha_investing(target: Table, columns: Table) -> int:
    """A fit from scratch for every column."""
    model = np.ones((len(target), 1))
    wealth = 0.05
    for i, column in enumerate(columns, start=1):
        alpha = wealth / (2 * i)
        wealth -= alpha
        design = np.column_stack((model, column))
        inverse = np.linalg.pinv(design.T @ design)
        coefficients = inverse @ (design.T @ target)
        residual = target - design @ coefficients
        freedom = len(target) - design.shape[1]
        t = coefficients[-1] / np.sqrt(residual @ residual / freedom * inverse[-1, -1])
        if 2 * stats.t.sf(abs(t), freedom) < alpha:
            model = design
            wealth += 0.05
    return model.shape[1] - 1


def timed(work: Callable[[], int]) -> tuple[float, int]:
    start = cpu_seconds()
    found = work()
    return cpu_seconds() - start, found


def ours(operator: str, params: dict[str, Any], target: Table, *blocks: Table) -> Callable[[], int]:
    make: Any = column_selector(operator)
    names = [[f"{at}-{i}" for i in range(len(block))] for at, block in enumerate(blocks)]

    def work() -> int:
        model = make(**params)
        model.begin(target)
        for of_block, block in zip(names, blocks, strict=True):
            model.learn_features(of_block, block)
        return len(model.selected)

    return work


def compared(what: str, target_ratio: float, columns: int, work: Callable[[], int], plain: Callable[[], int]) -> Row:
    work()
    fast, slow, ratios = [], [], []
    for _ in range(PAIRS):
        seconds, selected = timed(work)
        plain_seconds, plain_selected = timed(plain)
        if selected != plain_selected:
            raise AssertionError(f"{what}: {selected} columns selected, plain numpy selects {plain_selected}")
        fast.append(columns / seconds)
        slow.append(columns / plain_seconds)
        ratios.append(plain_seconds / seconds)
    return {
        "what": what,
        "selected": selected,
        "columns/s": median(fast),
        "plain numpy": median(slow),
        "ratio": median(ratios),
        "target": target_ratio,
    }


def speed() -> Result:
    result = Result("selectors: columns a second of CPU time, one core")
    target, kept, more = dense_columns(1000, 50, 2000)
    least = math.tanh(-stats.norm.ppf(0.005) / math.sqrt(997))
    both = np.concatenate((kept, more))
    plain = lambda: plain_saola(target, both, correlation, least, standardised)  # noqa: E731
    result.rows.append(
        compared("saola, Fisher-Z, 1,000 rows", 5, len(both), ours("saola", {}, target, kept, more), plain)
    )
    labels, columns = binary_columns(800, 2000)
    coded = lambda: plain_saola(  # noqa: E731
        labels, columns, symmetric_uncertainty, 1e-12, lambda x: x.astype(np.int64)
    )
    measure = {"measure": "symmetric-uncertainty"}
    result.rows.append(
        compared("saola, binary SU, 800 rows", 30, len(columns), ours("saola", measure, labels, columns), coded)
    )
    rng = np.random.default_rng(1)
    noisy = rng.normal(size=(600, 500))
    y = noisy[:40].sum(axis=0) + 3 * rng.normal(size=500)
    result.rows.append(
        compared(
            "alpha-investing, 500 rows", 10, len(noisy), ours("alpha-investing", {}, y, noisy),
            lambda: plain_alpha_investing(y, noisy),
        )
    )  # fmt: skip
    return result


def flatness() -> Result:
    """The cost of a column as columns seen grow: the selection stays, so should the cost."""
    result = Result("saola: microseconds a column as columns seen grow (Fisher-Z, 1,000 rows, 50 selected)")
    target, kept, more = dense_columns(1000, 50, 2000)
    model: Any = column_selector("saola")()
    model.begin(target)
    model.learn_features([f"kept-{i}" for i in range(len(kept))], kept)
    for part in range(10):
        names = [f"{part}-{i}" for i in range(len(more))]
        seconds, _ = timed(lambda names=names: len(model.learn_features(names, more)))  # type: ignore[misc]
        result.rows.append({"columns seen": model.version, "µs a column": 1e6 * seconds / len(more)})
    return result


def main() -> list[Result]:
    return [speed(), flatness()]


if __name__ == "__main__":
    from rich.console import Console

    for one in main():
        one.show(Console())
