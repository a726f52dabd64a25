"""Sums over instances from which all correlations or contingencies follow: they grow with features, merge by addition.

Continuous: n, Σ x_j, Σ x_j x_k, in double-double numbers (about 106 bits; Dekker 1971), and parts merge in any order
with the same result but for the last of 106 bits. There is no shift against cancellation: with one, an absent feature
would not be 0, and sums over the instances that have both of two features would be needed for every pair. Instead, what
106 bits cannot hold is told apart from what they can: such a feature counts as constant.

How wrong they can be, with u = 2⁻⁵³, Q = n √(Σ x² Σ y²) and M = n Σ x y - Σ x Σ y:
- a product is exact (`product`); an addition (`add_to`) rounds low + rest, then the sum of the errors, then may cut a
  high part that cancels: 1, 2 and 4 u² of the absolute values added so far, below 8 u²;
- a term goes through at most n additions, however parts merge, so Σ x y is off by 8 n u² Σ |x y|, Σ x by 8 n u² Σ |x|;
  n Σ |x y| and Σ |x| Σ |y| are at most Q, hence M by 24 n u² Q;
- `comoment` rounds what is below the high parts, 16 u² Q, and its result, 2 u M.
So M is right to 2 u |M| + (24 n + 16) u² Q. With κ = n Σ x² / M(x, x) = (root mean square / standard deviation)², r is
right to (24 n + 16) u² (√(κ_x κ_y) + |r| (κ_x + κ_y) / 2), and 2⁻⁴⁰ for rounding it. Where no addition rounds (integers
whose squares sum up to less than 2¹⁰⁶) the 24 n falls away.

Discrete: how often each non-zero value of a feature occurs, and each pair of such values of two features. What stands
at 0 follows by subtraction. For binary features that is one integer a pair.

Both kinds have places: of a feature, or of one non-zero value of a feature; place 0 is the target (continuous), and the
target's classes have places like values (discrete). Only [i, j] with i >= j is used.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.columns.column_store import FISHER_Z, MUTUAL_INFORMATION
from sluiceway.operators.kernels.columns.contingency import entropy_term, information, symmetric_uncertainty
from sluiceway.operators.kernels.columns.correlation import rounded
from sluiceway.operators.kernels.columns.pairwise import DISCARD_F, REMOVE_Y, compare

_SPLIT = 134217729.0
_ROUNDING = 2.0**-100
"""For each instance, the share of the mean square that a variance must lie above, or it is that of a constant feature:
more than the (24 n + 16) 2**-106 by which that of a constant can be off, however many instances there are."""
_LEAST = 1e-270
"""A sum of squares below this has lost digits at the lower end of the range."""


class Sums(NamedTuple):
    measure: int
    # continuous, by place, and by place and place: high and low parts
    high: NDArray[np.float64]
    low: NDArray[np.float64]
    product_high: NDArray[np.float64]
    product_low: NDArray[np.float64]
    # discrete, by place and place; on the diagonal, by place
    together: NDArray[np.int64]


class Features(NamedTuple):
    """The target and then the features in order of their keys; each has the places `places[first[f]:first[f + 1]]`."""

    first: NDArray[np.int64]
    places: NDArray[np.int64]


@allocating_kernel
def add_to(high: NDArray[np.float64], low: NDArray[np.float64], i: int, j: int, x: float, rest: float) -> None:
    """The double-double at [i, j] += x + rest."""
    old = high[i, j]
    s = old + x
    back = s - old
    error = (old - (s - back)) + (x - back)
    error += low[i, j] + rest
    high[i, j] = s + error
    low[i, j] = error - (high[i, j] - s)


@allocating_kernel
def product(x: float, y: float) -> tuple[float, float]:
    """x y, and what its rounding lost."""
    p = x * y
    a = _SPLIT * x
    x_high = a - (a - x)
    x_low = x - x_high
    b = _SPLIT * y
    y_high = b - (b - y)
    y_low = y - y_high
    return p, ((x_high * y_high - p) + x_high * y_low + x_low * y_high) + x_low * y_low


@allocating_kernel
def add_rows(
    indptr: NDArray[np.int64], places: NDArray[np.int64], values: NDArray[np.float64], y: NDArray[np.int64],
    start: int, stop: int, sums: Sums, place: NDArray[np.int64], value: NDArray[np.float64],
) -> None:  # fmt: skip
    """Rows [start, stop) that have a label; `places` of -1 are left out, as are values of 0.

    `y` is the label itself (continuous) or the place of its class, -1 for none (discrete: both).
    `place` and `value` are scratch for the longest row and its target.
    """
    for row in range(start, stop):
        n = 1
        if sums.measure == FISHER_Z:
            if y[row] == 0:
                continue
            place[0] = 0
            value[0] = float(y[row])
        else:
            if y[row] < 0:
                continue
            place[0] = y[row]
        for j in range(indptr[row], indptr[row + 1]):
            if places[j] >= 0 and values[j] != 0.0:
                place[n] = places[j]
                value[n] = values[j]
                n += 1
        if sums.measure == FISHER_Z:
            _add_products(sums, place, value, n)
        else:
            for a in range(n):
                for b in range(a + 1):
                    sums.together[max(place[a], place[b]), min(place[a], place[b])] += 1


@allocating_kernel
def _add_products(sums: Sums, place: NDArray[np.int64], value: NDArray[np.float64], n: int) -> None:
    for a in range(n):
        add_to(sums.high, sums.low, place[a], 0, value[a], 0.0)
        for b in range(a + 1):
            p, rest = product(value[a], value[b])
            i, j = max(place[a], place[b]), min(place[a], place[b])
            add_to(sums.product_high, sums.product_low, i, j, p, rest)


@allocating_kernel
def add_sums(whole: Sums, part: Sums, to: NDArray[np.int64]) -> None:
    """whole += part, whose place i is place `to[i]` of the whole."""
    for i in range(len(to)):
        if whole.measure == FISHER_Z:
            add_to(whole.high, whole.low, to[i], 0, part.high[i, 0], part.low[i, 0])
        for j in range(i + 1):
            a, b = max(to[i], to[j]), min(to[i], to[j])
            if whole.measure == FISHER_Z:
                add_to(whole.product_high, whole.product_low, a, b, part.product_high[i, j], part.product_low[i, j])
            else:
                whole.together[a, b] += part.together[i, j]


@allocating_kernel
def comoment(sums: Sums, n: int, a: int, b: int) -> float:
    """n Σ x y - Σ x Σ y; the difference is taken before anything is rounded to 53 bits."""
    i, j = max(a, b), min(a, b)
    size = float(n)
    p, rest = product(size, sums.product_high[i, j])
    rest += size * sums.product_low[i, j]
    q, other = product(sums.high[a, 0], sums.high[b, 0])
    other += sums.high[a, 0] * sums.low[b, 0] + sums.low[a, 0] * sums.high[b, 0]
    return float((p - q) + (rest - other))


@allocating_kernel
def variance(sums: Sums, n: int, a: int) -> float:
    """n Σ x² - (Σ x)²; 0 if no more than rounding."""
    found = comoment(sums, n, a, a)
    squares = float(n) * sums.product_high[a, a]
    return found if found > _ROUNDING * float(n) * squares and sums.product_high[a, a] > _LEAST else 0.0


@allocating_kernel
def content_of(sums: Sums, features: Features, n: int, f: int) -> tuple[np.int64, np.int64]:
    """Σ T(c) over the values of a feature, 0 included, and how many it has."""
    rest = np.int64(n)
    total = np.int64(0)
    levels = np.int64(0)
    for s in range(features.first[f], features.first[f + 1]):
        count = sums.together[features.places[s], features.places[s]]
        total += entropy_term(count, n)
        levels += count > 0
        rest -= count
    return total + entropy_term(rest, n), levels + (rest > 0)


@allocating_kernel
def pair_content_of(sums: Sums, features: Features, n: int, f: int, g: int) -> tuple[np.int64, np.int64]:
    """Σ T(c) over the pairs of values of two features that occur, and how many do."""
    total = np.int64(0)
    cells = np.int64(0)
    neither = np.int64(n)
    for t in range(features.first[g], features.first[g + 1]):
        neither -= sums.together[features.places[t], features.places[t]]
    for s in range(features.first[f], features.first[f + 1]):
        a = features.places[s]
        rest = sums.together[a, a]
        for t in range(features.first[g], features.first[g + 1]):
            b = features.places[t]
            count = sums.together[max(a, b), min(a, b)]
            rest -= count
            total += entropy_term(count, n)
            cells += count > 0
        neither -= rest
        total += entropy_term(rest, n)
        cells += rest > 0
    for t in range(features.first[g], features.first[g + 1]):
        b = features.places[t]
        rest = sums.together[b, b]
        for s in range(features.first[f], features.first[f + 1]):
            a = features.places[s]
            rest -= sums.together[max(a, b), min(a, b)]
        total += entropy_term(rest, n)
        cells += rest > 0
    return total + entropy_term(neither, n), cells + (neither > 0)


@allocating_kernel
def dependence_of(
    sums: Sums, features: Features, n: int, f: int, g: int, size: NDArray[np.float64], levels: NDArray[np.int64],
    contents: NDArray[np.int64], bit: float,
) -> float:  # fmt: skip
    if sums.measure == FISHER_Z:
        a, b = features.places[features.first[f]], features.places[features.first[g]]
        return rounded(comoment(sums, n, a, b) / (math.sqrt(size[f]) * math.sqrt(size[g])))
    pair, cells = pair_content_of(sums, features, n, f, g)
    if levels[f] == 2 and levels[g] == 2:
        cells = np.int64(4)
    whole = entropy_term(n, n)
    shared = information(whole, contents[f], contents[g], pair, cells)
    if sums.measure == MUTUAL_INFORMATION:
        return shared * bit
    return symmetric_uncertainty(whole, contents[f], contents[g], shared)


@allocating_kernel
def select(
    sums: Sums, features: Features, n: int, least: float, largest: bool, strict: bool, bit: float,
    chosen: NDArray[np.int64], relevance: NDArray[np.float64], varies: NDArray[np.bool_],
) -> int:  # fmt: skip
    """SAOLA over the features in order, from sums alone; how many it selects, and which: `chosen[:count]`.

    `chosen` counts features from 0, the target left out; `relevance` and `varies` are by feature, the target first.
    """
    total = len(features.first) - 1
    size = np.zeros(total)
    levels = np.zeros(total, np.int64)
    contents = np.zeros(total, np.int64)
    for f in range(total):
        if sums.measure == FISHER_Z:
            size[f] = variance(sums, n, features.places[features.first[f]])
        else:
            contents[f], levels[f] = content_of(sums, features, n, f)
            size[f] = float(levels[f] - 1)
        if not 0.0 < size[f] < np.inf:
            size[f] = 0.0
        varies[f] = size[f] > 0.0
    if size[0] == 0.0:
        return 0
    count = 0
    for f in range(1, total):
        if size[f] == 0.0:
            continue
        dep_F = dependence_of(sums, features, n, f, 0, size, levels, contents, bit)
        if not dep_F >= least:
            continue
        relevance[f] = dep_F
        kept = 0
        discarded = False
        for s in range(count):
            g = chosen[s] + 1
            found = 0
            if not discarded:
                v = dependence_of(sums, features, n, f, g, size, levels, contents, bit)
                same = v == 1.0
                if sums.measure == MUTUAL_INFORMATION:
                    same = contents[f] == contents[g] and v == (entropy_term(n, n) - contents[f]) * bit
                found = compare(dep_F, relevance[g], v, same, largest, strict)
                discarded = found == DISCARD_F
            if found != REMOVE_Y:
                chosen[kept] = chosen[s]
                kept += 1
        if not discarded:
            chosen[kept] = f - 1
            kept += 1
        count = kept
    return count
