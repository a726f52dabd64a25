"""The rules of the papers on whole tables, written from their text to be obviously right, and for nothing else.

Every oracle takes the target and the columns in order of arrival, and returns the indices of the selected ones in the
order in which they entered. Relevances are compared to ten digits: equal in exact arithmetic is equal here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sluiceway.operators.kernels.numbers.random import draw, stream_of

Column = NDArray[np.float64]
DIGITS = 10


def entropy(*columns: Column) -> float:
    """H in bits, of the columns together."""
    _, counts = np.unique(np.column_stack(columns), axis=0, return_counts=True)
    p = counts / counts.sum()
    return float(-(p * np.log2(p)).sum())


def mutual_information(x: Column, y: Column) -> float:
    return round(entropy(x) + entropy(y) - entropy(x, y), DIGITS)


def symmetric_uncertainty(x: Column, y: Column) -> float:
    both = entropy(x) + entropy(y)
    return round(2 * (entropy(x) + entropy(y) - entropy(x, y)) / both, DIGITS) if both else 0.0


def correlation(x: Column, y: Column) -> float:
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return round(float(abs(np.corrcoef(x, y)[0, 1])), DIGITS)


MEASURES: dict[str, Callable[[Column, Column], float]] = {
    "fisher-z": correlation,
    "symmetric-uncertainty": symmetric_uncertainty,
    "mutual-information": mutual_information,
}


def correlated(r: float, rows: int, significance: float, given: int = 0) -> bool:
    """Fisher's Z: the p-value of r is at most the significance."""
    freedom = rows - given - 3
    if freedom <= 0:
        return False
    with np.errstate(divide="ignore"):
        return bool(2 * stats.norm.sf(np.sqrt(freedom) * np.arctanh(min(abs(r), 1.0))) <= significance)


def relevant(dep: float, rows: int, measure: str, significance: float, delta: float) -> bool:
    return correlated(dep, rows, significance) if measure == "fisher-z" else dep > delta


def same(x: Column, y: Column, measure: str) -> bool:
    """Whether each column is a function of the other (a linear one, for Fisher-Z)."""
    if measure == "fisher-z":
        return correlation(x, y) == 1
    return len(np.unique(x)) == len(np.unique(y)) == len(np.unique(np.column_stack((x, y)), axis=0))


def saola(
    C: Column,
    columns: Sequence[Column],
    *,
    measure: str = "fisher-z",
    bound: str = "min",
    ties: str = "inclusive",
    significance: float = 0.01,
    delta: float = 0.0,
) -> list[int]:
    dep = MEASURES[measure]
    S: list[int] = []
    of: dict[int, float] = {}
    for i, F in enumerate(columns):
        of[i] = dep(F, C)
        if not relevant(of[i], len(C), measure, significance, delta):
            continue
        discarded = False
        for j in list(S):
            Y = columns[j]
            v = dep(F, Y)
            d2 = min(of[i], of[j]) if bound == "min" else max(of[i], of[j])
            redundant = v > d2 or (ties == "inclusive" and same(F, Y, measure))
            at_least = of[j] >= of[i] if ties == "inclusive" else of[j] > of[i]
            if at_least and redundant:
                discarded = True
                break
            if of[i] > of[j] and redundant:
                S.remove(j)
        if not discarded:
            S.append(i)
    return S


def order_free(
    C: Column,
    columns: Sequence[Column],
    *,
    measure: str = "fisher-z",
    ties: str = "inclusive",
    significance: float = 0.01,
    delta: float = 0.0,
) -> set[int]:
    """The kernel, found greedily. Names are the indices, so the smaller index wins ties."""
    dep = MEASURES[measure]
    of = [dep(F, C) for F in columns]
    S: set[int] = set()
    for i in sorted(range(len(columns)), key=lambda i: (-of[i], i)):
        if not relevant(of[i], len(C), measure, significance, delta):
            continue
        for j in S:
            if ties == "strict" and of[j] == of[i]:
                continue
            v = dep(columns[i], columns[j])
            if v > of[i] or (ties == "inclusive" and same(columns[i], columns[j], measure)):
                break
        else:
            S.add(i)
    return S


def fcbf(C: Column, columns: Sequence[Column], *, delta: float = 0.0) -> set[int]:
    su = [symmetric_uncertainty(F, C) for F in columns]
    S = sorted((i for i in range(len(columns)) if su[i] > delta), key=lambda i: (-su[i], i))
    p = 0
    while p < len(S):
        after = [q for q in S[p + 1 :] if not symmetric_uncertainty(columns[S[p]], columns[q]) >= su[q]]
        S = S[: p + 1] + after
        p += 1
    return set(S)


def partial_correlation(x: Column, c: Column, given: Sequence[Column]) -> float:
    """By what is left of both after regressing on the others."""
    design = np.column_stack([np.ones(len(x)), *given])
    left = []
    for v in (x, c):
        e = v - design @ np.linalg.lstsq(design, v, rcond=None)[0]
        if np.linalg.norm(e) < 1e-5 * np.linalg.norm(v - v.mean()):
            return 0.0
        left.append(e)
    return float(left[0] @ left[1] / np.linalg.norm(left[0]) / np.linalg.norm(left[1]))


def g_square_p(x: Column, c: Column, given: Sequence[Column]) -> float:
    """2 Σ n ln(n / expected) over the strata, degrees of freedom from the levels that each stratum has."""
    strata = np.unique(np.column_stack([np.zeros(len(x)), *given]), axis=0, return_inverse=True)[1].ravel()
    g, freedom = 0.0, 0
    for s in np.unique(strata):
        a = np.unique(x[strata == s], return_inverse=True)[1]
        b = np.unique(c[strata == s], return_inverse=True)[1]
        table = np.zeros((a.max() + 1, b.max() + 1))
        np.add.at(table, (a, b), 1)
        expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
        seen = table > 0
        g += 2 * (table[seen] * np.log(table[seen] / expected[seen])).sum()
        freedom += (table.shape[0] - 1) * (table.shape[1] - 1)
    return float(stats.chi2.sf(g, freedom)) if freedom else 1.0


def independent(x: Column, c: Column, given: Sequence[Column], test: str, significance: float) -> bool:
    if np.ptp(x) == 0 or np.ptp(c) == 0:
        return True
    if test == "g2":
        return g_square_p(x, c, given) > significance
    return not correlated(partial_correlation(x, c, given), len(x), significance, len(given))


def subsets(of: Iterable[int], most: int, least: int = 1) -> Iterable[tuple[int, ...]]:
    pool = list(of)
    for size in range(least, most + 1):
        yield from combinations(pool, size)


def osfs(
    C: Column, columns: Sequence[Column], *, test: str = "fisher-z", significance: float = 0.01, max_subset: int = 3
) -> list[int]:
    S: list[int] = []
    for i, F in enumerate(columns):
        if independent(F, C, [], test, significance):
            continue
        S.append(i)
        for j in list(S):
            for Z in subsets([k for k in S if k != j], max_subset):
                if independent(columns[j], C, [columns[k] for k in Z], test, significance):
                    S.remove(j)
                    break
    return S


def fast_osfs(
    C: Column, columns: Sequence[Column], *, test: str = "fisher-z", significance: float = 0.01, max_subset: int = 3
) -> list[int]:
    S: list[int] = []
    for i, F in enumerate(columns):
        if independent(F, C, [], test, significance):
            continue
        if any(independent(F, C, [columns[k] for k in Z], test, significance) for Z in subsets(S, max_subset)):
            continue
        for j in list(S):
            others = [k for k in S if k != j]
            for Z in subsets(others, max_subset - 1, least=0):
                if independent(columns[j], C, [F, *(columns[k] for k in Z)], test, significance):
                    S.remove(j)
                    break
        S.append(i)
    return S


def alpha_investing(C: Column, columns: Sequence[Column], *, wealth: float = 0.05, payout: float = 0.05) -> list[int]:
    S: list[int] = []
    for i, x in enumerate(columns, start=1):
        alpha = wealth / (2 * i)
        wealth -= alpha
        if regression_p(C, [columns[k] for k in S], x) < alpha:
            S.append(i - 1)
            wealth += payout
    return S


def regression_p(C: Column, model: Sequence[Column], x: Column) -> float:
    """The p-value of x's coefficient in the least-squares fit of C on an intercept, the model and x: a refit."""
    if np.ptp(C) == 0:
        return 1.0
    design = np.column_stack([np.ones(len(C)), *model, x])
    if np.linalg.matrix_rank(design / np.maximum(np.linalg.norm(design, axis=0), 1e-300), tol=1e-5) < design.shape[1]:
        return 1.0
    freedom = len(C) - design.shape[1]
    if freedom <= 0:
        return 1.0
    coefficients = np.linalg.lstsq(design, C, rcond=None)[0]
    residual = C - design @ coefficients
    if residual @ residual < 1e-20 * (C - C.mean()) @ (C - C.mean()):
        return 0.0
    inverse = np.linalg.inv(design.T @ design)
    t = coefficients[-1] / np.sqrt(residual @ residual / freedom * inverse[-1, -1])
    return float(2 * stats.t.sf(abs(t), freedom))


def gap_ends(s: Sequence[float], t: int) -> bool:
    """OFS-A3M: the distance s_t lies behind the first large gap."""
    return not s[t] - s[t - 1] < 1.5 * (s[-1] - s[1]) / (len(s) - 2)


def density_ends(s: Sequence[float], t: int) -> bool:
    """OFS-Density: distances grow faster than their number."""
    return not (s[t] / t <= s[t - 1] / (t - 1) or s[t] == 0)


def neighbourhood_purity(C: Column, columns: Sequence[Column], ends: Callable[[Sequence[float], int], bool]) -> float:
    """γ: the mean over rows of the share of neighbours that have the row's label."""
    table = np.column_stack([(x - x.mean()) / x.std(ddof=1) for x in columns])
    shares = []
    for i, row in enumerate(table):
        D = np.sqrt(((table - row) ** 2).sum(axis=1))
        order = np.argsort(D, kind="stable")
        s = D[order].tolist()
        stop = next((t for t in range(2, len(s)) if ends(s, t)), len(s))
        near = order[1:stop]
        shares.append(int((C[near] == C[i]).sum()) / len(near))
    return sum(shares) / len(C)


def _shuffled(S: Sequence[int], number: int, seed: int) -> list[int]:
    """The order in which the members are tried, drawn by Fisher and Yates: which one it is, is no part of the rule."""
    turn, stream = list(S), np.uint64(stream_of(seed, number, 3))
    for last in range(len(turn) - 1, 0, -1):
        other = int(draw(stream, last)) % (last + 1)
        turn[last], turn[other] = turn[other], turn[last]
    return turn


def ofs_a3m(C: Column, columns: Sequence[Column], *, seed: int = 0) -> list[int]:
    def purity(of: Sequence[int]) -> float:
        return neighbourhood_purity(C, [columns[k] for k in of], gap_ends)

    S: list[int] = []
    of_S = threshold = 0.0
    alone: dict[int, float] = {}
    for i, F in enumerate(columns):
        if np.ptp(F) == 0:
            continue
        alone[i] = purity([i])
        if alone[i] < threshold or alone[i] == 0:
            continue
        with_it = purity([*S, i])
        if with_it < of_S:
            continue
        R = [*S, i]
        if with_it == of_S:
            for u in _shuffled(S, i + 1, seed):
                without = [k for k in R if k != u]
                if purity(without) == with_it:
                    R = without
        S, of_S = R, with_it
        threshold = sum(alone[k] for k in S) / len(S)
    return S


def ofs_density(C: Column, columns: Sequence[Column], *, seed: int = 0) -> list[int]:
    def purity(of: Sequence[int]) -> float:
        return neighbourhood_purity(C, [columns[k] for k in of], density_ends)

    S: list[int] = []
    of_S = threshold = 0.0
    alone: dict[int, float] = {}
    for i, F in enumerate(columns):
        if np.ptp(F) == 0:
            continue
        alone[i] = purity([i])
        if alone[i] < threshold or alone[i] == 0:
            continue
        with_it = purity([*S, i])
        R, of_R = [*S, i], with_it
        if with_it <= of_S:
            if of_S - with_it > 0.05 * of_S:
                continue
            for u in _shuffled(S, i + 1, seed):
                without = [k for k in R if k != u]
                if purity(without) >= of_R:
                    R, of_R = without, purity(without)
            if of_R < of_S:  # nothing is removed, and what is counted stays as it was
                S = [*S, i]
                continue
        S, of_S = R, of_R
        threshold = sum(alone[k] for k in S) / len(S)
    return S
