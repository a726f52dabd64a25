"""Columns a second in the selectors, beside plain numpy: SAOLA on continuous and binary columns, alpha-investing.

CPU time; each ratio is the median over pairs of runs, one of each kind in turn, in the same process, and both must
select the same columns. The plain programs are what one would write with numpy: vectorised over rows, a loop over the
selected columns or (for correlations) one product with the matrix of them, one fit a column.

scikit-feature's alpha-investing is asked where `SKFEATURE_PYTHON` names a Python that has it.
"""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.measure import Result, Row, cpu_seconds, median
from sluiceway.operators.registry import column_selector

PAIRS = 5
FLAT = 1.2
"""The cost of a column may grow so much, at most, from few columns seen to the last of `AGES`."""
AGES = (1_000, 10_000, 100_000)
AGE_PAIRS = 60
BLOCK, WARMING = 500, 100
"""Columns that are timed together, and how many of them are learnt before, untimed."""
Table = NDArray[np.float64]
SKFEATURE = """
import sys, time
import numpy as np
from skfeature.function.streaming.alpha_investing import alpha_investing
with np.load(sys.argv[1]) as given:
    X, y = given["columns"].T.copy(), given["target"]
start = time.process_time()
selected = alpha_investing(X, y, 0.05, 0.05)
print(time.process_time() - start, len(selected))
"""


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


def plain_saola(
    target: Table, columns: Table, dep: Callable[[Any, Any], float], least: float, prepare: Any
) -> set[int]:
    """Algorithm 1: which columns it selects."""
    C = prepare(target)
    S: list[tuple[int, Any, float]] = []
    for i, column in enumerate(columns):
        if column.min() == column.max():
            continue
        F = prepare(column)
        dep_F = dep(F, C)
        if dep_F < least:
            continue
        keep = np.ones(len(S), dtype=bool)
        discarded = False
        for j, (_, Y, dep_Y) in enumerate(S):
            v = dep(F, Y)
            if dep_Y >= dep_F and v > dep_F:
                discarded = True
                break
            if dep_F > dep_Y and v > dep_Y:
                keep[j] = False
        S = [one for one, stays in zip(S, keep, strict=True) if stays]
        if not discarded:
            S.append((i, F, dep_F))
    return {i for i, _, _ in S}


def matrix_saola(target: Table, columns: Table, least: float) -> set[int]:
    """The same for correlations, with one product of the new column and all selected ones."""
    C = standardised(target)
    S, of, numbers = np.zeros((0, len(target))), np.zeros(0), np.zeros(0, dtype=np.int64)
    for i, column in enumerate(columns):
        if column.min() == column.max():
            continue
        F = standardised(column)
        dep_F = correlation(F, C)
        if dep_F < least:
            continue
        v = np.abs(S @ F)
        discards = np.flatnonzero((of >= dep_F) & (v > dep_F))
        removes = (of < dep_F) & (v > of)
        if len(discards):
            removes[discards[0] :] = False  # one pass, which stops there
        if removes.any():
            S, of, numbers = S[~removes], of[~removes], numbers[~removes]
        if not len(discards):
            S, of, numbers = np.vstack((S, F)), np.append(of, dep_F), np.append(numbers, i)
    return set(numbers.tolist())


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


def plain_alpha_investing(target: Table, columns: Table) -> set[int]:
    """A fit from scratch for every column."""
    model = np.ones((len(target), 1))
    wealth = 0.05
    selected = set()
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
            selected.add(i - 1)
    return selected


def scikit_feature(target: Table, columns: Table) -> tuple[float, int] | None:
    """CPU seconds and how many it selects, median over runs; None where there is none to ask."""
    python = os.environ.get("SKFEATURE_PYTHON")
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "columns.npz"
        np.savez(path, columns=columns, target=target)
        call = [python, "-c", SKFEATURE, str(path)]
        runs = [subprocess.run(call, capture_output=True, text=True, timeout=300, check=True) for _ in range(3)]
    answers = [run.stdout.split()[-2:] for run in runs]
    return median([float(seconds) for seconds, _ in answers]), int(answers[0][1])


def timed(work: Callable[[], set[int]]) -> tuple[float, set[int]]:
    start = cpu_seconds()
    found = work()
    return cpu_seconds() - start, found


def ours(operator: str, params: dict[str, Any], target: Table, *blocks: Table) -> Callable[[], set[int]]:
    make: Any = column_selector(operator)
    first = np.cumsum([0, *map(len, blocks)]).tolist()
    names = [[*map(str, range(at, at + len(block)))] for at, block in zip(first, blocks, strict=False)]

    def work() -> set[int]:
        model = make(**params)
        model.begin(target)
        for of_block, block in zip(names, blocks, strict=True):
            model.learn_features(of_block, block)
        return {int(one.feature) for one in model.selected}

    return work


def compared(
    what: str, other: str, least_ratio: float, columns: int, work: Callable[[], set[int]], plain: Callable[[], set[int]]
) -> Row:
    work()
    fast, slow, ratios = [], [], []
    for _ in range(PAIRS):
        seconds, selected = timed(work)
        plain_seconds, plain_selected = timed(plain)
        if selected != plain_selected:
            raise AssertionError(f"{what}: differs from {other} by the columns {selected ^ plain_selected}")
        fast.append(columns / seconds)
        slow.append(columns / plain_seconds)
        ratios.append(plain_seconds / seconds)
    return row(what, other, least_ratio, len(selected), median(fast), median(slow), median(ratios))


def row(what: str, other: str, least: float, selected: int, fast: float, slow: float, ratio: float) -> Row:
    target = "-" if not least else f"at least {least:g}: {'met' if ratio >= least else 'NOT MET'}"
    return {
        "what": what,
        "selected": selected,
        "columns/s": fast,
        "beside": other,
        "its columns/s": slow,
        "ratio": ratio,
        "target": target,
    }


def speed() -> Result:
    result = Result("selectors: columns a second of CPU time, one core")
    loop = "plain numpy"
    target, kept, more = dense_columns(1000, 50, 2000)
    least = math.tanh(-stats.norm.ppf(0.005) / math.sqrt(997))
    both = np.concatenate((kept, more))
    what, work = "saola, Fisher-Z, 1,000 rows", ours("saola", {}, target, kept, more)
    plain = lambda: plain_saola(target, both, correlation, least, standardised)  # noqa: E731
    result.rows.append(compared(what, loop, 5, len(both), work, plain))
    product = lambda: matrix_saola(target, both, least)  # noqa: E731
    result.rows.append(compared(what, "numpy, matrix product", 0, len(both), work, product))
    labels, columns = binary_columns(800, 2000)
    coded = lambda: plain_saola(  # noqa: E731
        labels, columns, symmetric_uncertainty, 1e-12, lambda x: x.astype(np.int64)
    )
    measure = {"measure": "symmetric-uncertainty"}
    work = ours("saola", measure, labels, columns)
    result.rows.append(compared("saola, binary SU, 800 rows", loop, 30, len(columns), work, coded))
    rng = np.random.default_rng(1)
    noisy = rng.normal(size=(600, 500))
    y = noisy[:40].sum(axis=0) + 3 * rng.normal(size=500)
    what, work = "alpha-investing, 500 rows", ours("alpha-investing", {}, y, noisy)
    result.rows.append(compared(what, loop, 10, len(noisy), work, lambda: plain_alpha_investing(y, noisy)))
    theirs = scikit_feature(y, noisy)
    if theirs is None:
        result.notes.append("scikit-feature: not asked, SKFEATURE_PYTHON names no Python that has it")
    else:
        seconds, selected = median([timed(work)[0] for _ in range(PAIRS)]), len(work())
        fast, slow = len(noisy) / seconds, len(noisy) / theirs[0]
        beside = f"scikit-feature, which selects {theirs[1]}"
        result.rows.append(row(what, beside, 10, selected, fast, slow, theirs[0] / seconds))
        result.notes.append(
            f"scikit-feature is timed in a process of its own, and does other work: of the same columns it selects"
            f" {theirs[1]}, not {selected}, and the cost of a column follows how many are selected"
        )
    return result


def flatness() -> Result:
    """The cost of a column as columns seen grow: the selection stays, so should the cost.

    A model that has seen many columns and one that has seen only those it keeps learn the same block in turn, each
    going first as often as the other, so that whatever else the machine does meets both. What counts is the median
    of the ratios of such pairs once the older model has seen the most.
    """
    result = Result("saola: the cost of a column as columns seen grow (Fisher-Z, 1,000 rows, 50 selected)")
    target, kept, more = dense_columns(1000, 50, BLOCK)
    old = _started(target, kept)
    for seen in AGES:
        while old.version < seen:
            _learn_cost(old, more)
        fresh_costs: list[float] = []
        old_costs: list[float] = []
        for pair in range(AGE_PAIRS):
            fresh = _started(target, kept)
            for model in (fresh, old) if pair % 2 else (old, fresh):
                _learn_cost(model, more[:WARMING])  # both have what they hold in the processor's memory
                (old_costs if model is old else fresh_costs).append(_learn_cost(model, more))
        if [one.weight for one in old.selected] != [one.weight for one in fresh.selected]:
            raise AssertionError("the two models do not hold the same columns")
        ratios = sorted(one / other for one, other in zip(old_costs, fresh_costs, strict=True))
        result.rows.append(
            {
                "columns seen": seen,
                "µs a column": median(old_costs),
                "µs, few seen": median(fresh_costs),
                "ratio": median(ratios),
                "its quartiles": f"{ratios[len(ratios) // 4]:.2f} to {ratios[-1 - len(ratios) // 4]:.2f}",
            }
        )
    growth = median(ratios)
    met = "met" if growth <= FLAT else "NOT MET"
    result.notes.append(f"{AGE_PAIRS} pairs each; at most {FLAT} once {AGES[-1]:,} are seen: {met} ({growth:.2f})")
    return result


def _started(target: Table, kept: Table) -> Any:
    model: Any = column_selector("saola")()
    model.begin(target)
    model.learn_features([f"kept-{i}" for i in range(len(kept))], kept)
    return model


def _learn_cost(model: Any, columns: Table) -> float:
    """Microseconds a column, under names that have not come before."""
    names = [f"{model.version}-{i}" for i in range(len(columns))]
    start = cpu_seconds()
    model.learn_features(names, columns)
    return 1e6 * (cpu_seconds() - start) / len(columns)


def main() -> list[Result]:
    return [speed(), flatness()]


if __name__ == "__main__":
    from rich.console import Console

    for one in main():
        one.show(Console())
