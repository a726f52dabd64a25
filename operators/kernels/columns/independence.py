"""Conditional independence of a column and the target, given others: Fisher's Z of the partial correlation, or G².

    Fisher-Z:  √(N - |S| - 3) |atanh r(x, c | S)| < z
    G²:        2 Σ n_xcs ln(n_xcs n_s / (n_xs n_cs)),  χ² with Σ_s (levels of x in s - 1)(levels of c in s - 1)
               degrees of freedom: only levels that a stratum has count

A column that the others determine (or others that determine the target) leaves nothing to depend on: independent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.columns.column_store import CANDIDATE, FISHER_Z, TARGET, ColumnStore, codes_of
from sluiceway.operators.kernels.columns.contingency import content, join
from sluiceway.operators.kernels.columns.correlation import dot
from sluiceway.operators.kernels.numbers.tails import chi_square_tail

_NOTHING_LEFT = 1e-10
NOT_SEPARATED = -1


class Tests(NamedTuple):
    significance: float
    critical: float
    """z with P(|Z| >= z) = significance."""
    most: int
    """How many columns may be conditioned on at once."""
    r: NDArray[np.float64]
    """Correlations by place and place (Fisher-Z)."""
    # scratch
    swept: NDArray[np.float64]
    strata: NDArray[np.int32]
    """Three rows of codes."""
    subset: NDArray[np.int64]
    chosen: NDArray[np.int64]
    pool: NDArray[np.int64]


@allocating_kernel
def correlate(store: ColumnStore, tests: Tests, place: int, others: NDArray[np.int64], count: int) -> None:
    """The candidate's correlations, entered as those of `place`: once a column, then tests need no rows."""
    if store.measure != FISHER_Z:
        return
    r = tests.r
    r[place, place] = 1.0
    r[place, TARGET] = r[TARGET, place] = dot(store.floats[place], store.floats[TARGET], store.strand)
    r[TARGET, TARGET] = 1.0
    for s in range(count):
        y = others[s]
        r[place, y] = r[y, place] = dot(store.floats[place], store.floats[y], store.strand)


@allocating_kernel
def rename(tests: Tests, place: int, others: NDArray[np.int64], count: int) -> None:
    """The candidate has been given `place`."""
    if tests.r.size == 0:
        return
    r = tests.r
    r[place, place] = 1.0
    r[place, TARGET] = r[TARGET, place] = r[CANDIDATE, TARGET]
    for s in range(count):
        y = others[s]
        r[place, y] = r[y, place] = r[CANDIDATE, y]


@allocating_kernel
def independent(store: ColumnStore, tests: Tests, x: int, size: int) -> bool:
    """Of column x and the target, given the columns `tests.subset[:size]`."""
    if store.measure == FISHER_Z:
        return _independent_linear(store, tests, x, size)
    return _independent_strata(store, tests, x, size)


@allocating_kernel
def _independent_linear(store: ColumnStore, tests: Tests, x: int, size: int) -> bool:
    """The correlation matrix of x, target and subset, swept by the subset one column after the other."""
    m = tests.swept
    for i in range(size + 2):
        a = x if i == 0 else TARGET if i == 1 else tests.subset[i - 2]
        for j in range(size + 2):
            b = x if j == 0 else TARGET if j == 1 else tests.subset[j - 2]
            m[i, j] = tests.r[a, b]
    for k in range(2, size + 2):
        pivot = m[k, k]
        if pivot < _NOTHING_LEFT:  # determined by those before it
            continue
        for i in range(size + 2):
            if i < 2 or i > k:
                factor = m[i, k] / pivot
                for j in range(size + 2):
                    if j < 2 or j > k:
                        m[i, j] -= factor * m[k, j]
    if m[0, 0] < _NOTHING_LEFT or m[1, 1] < _NOTHING_LEFT:
        return True
    partial = min(abs(m[0, 1]) / math.sqrt(m[0, 0] * m[1, 1]), 1.0)
    freedom = store.rows - size - 3
    if freedom <= 0:
        return True
    return bool(partial < math.tanh(tests.critical / math.sqrt(freedom)))


@allocating_kernel
def _independent_strata(store: ColumnStore, tests: Tests, x: int, size: int) -> bool:
    strata, x_strata, c_strata = tests.strata[0], tests.strata[1], tests.strata[2]
    strata[:] = 0
    levels = 1
    for k in range(size):
        z = tests.subset[k]
        levels = join(strata, levels, codes_of(store, z), store.levels[z], x_strata)
        strata[:] = x_strata
    n_s = content(strata, levels, store.terms)
    x_levels = join(strata, levels, codes_of(store, x), store.levels[x], x_strata)
    n_xs = content(x_strata, x_levels, store.terms)
    c_levels = join(strata, levels, codes_of(store, TARGET), store.levels[TARGET], c_strata)
    n_cs = content(c_strata, c_levels, store.terms)
    of_x = _levels_by_stratum(strata, levels, x_strata, x_levels)
    of_c = _levels_by_stratum(strata, levels, c_strata, c_levels)
    freedom = 0
    for s in range(levels):
        freedom += (of_x[s] - 1) * (of_c[s] - 1)
    cells = join(x_strata, x_levels, codes_of(store, TARGET), store.levels[TARGET], store.joined)
    n_xcs = content(store.joined, cells, store.terms)
    shared = n_xcs - n_xs - n_cs + n_s
    if freedom == 0 or shared <= 2 * cells + 2:  # no more than rounding
        return True
    statistic = 2.0 * math.log(2.0) * float(shared) * store.bit * store.rows
    return chi_square_tail(statistic, freedom) > tests.significance


@allocating_kernel
def _levels_by_stratum(
    strata: NDArray[np.int32], levels: int, within: NDArray[np.int32], within_levels: int
) -> NDArray[np.int64]:
    count = np.zeros(levels, np.int64)
    seen = np.zeros(within_levels, np.bool_)
    for i in range(len(strata)):
        if not seen[within[i]]:
            seen[within[i]] = True
            count[strata[i]] += 1
    return count


@allocating_kernel
def separating(store: ColumnStore, tests: Tests, x: int, count: int, with_candidate: int) -> int:
    """The size of the first subset of `tests.pool[:count]` given which x and the target are independent.

    Smaller subsets first, then in order of the pool; found in `tests.subset`. With `with_candidate` (a place, or
    NOT_SEPARATED for none) that column belongs to every subset.
    """
    fixed = 0 if with_candidate == NOT_SEPARATED else 1
    chosen = tests.chosen
    for size in range(1, tests.most + 1):
        free = size - fixed
        if free > count:
            break
        for k in range(free):
            chosen[k] = k
        while True:
            if fixed:
                tests.subset[0] = with_candidate
            for k in range(free):
                tests.subset[fixed + k] = tests.pool[chosen[k]]
            if independent(store, tests, x, size):
                return size
            k = free - 1
            while k >= 0 and chosen[k] == count - free + k:
                k -= 1
            if k < 0:
                break
            chosen[k] += 1
            for j in range(k + 1, free):
                chosen[j] = chosen[j - 1] + 1
    return NOT_SEPARATED
