"""Entropies from integer counts, themselves integers: no order of summation, no rounding noise in ties.

With T(c) = c log2 c, an entropy of N rows is N H = T(N) - Σ T(c) over the counts of its cells. T is kept in fixed
point, with as many binary places as N leaves in the 53 bits of a float (39 for 800 rows), so sums are exact: two
columns that differ by names of values only have the very same entropies, and I(X;X) = H(X) to the bit.

Columns are coded: `codes[row]` in [0, levels). A column of two values is also kept as bits, and two such columns are
counted by population counts of 64 rows at once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.numbers.sorting import order_of

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Bits = NDArray[np.uint64]
Integers = NDArray[np.int64]

_ONE = np.uint64(1)
_EVERY_OTHER = np.uint64(0x5555555555555555)
_PAIRS = np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)


@allocating_kernel
def fixed_point_places(rows: int) -> int:
    """Binary places that T(c) of at most `rows` rows may have to stay exact as a float."""
    return 52 - math.frexp(rows * math.log2(float(max(rows, 2))))[1]


@allocating_kernel
def entropy_term(count: int | np.int64, rows: int) -> np.int64:
    """T(c) = c log2 c in fixed point."""
    if count < 2:
        return np.int64(0)
    return np.int64(math.floor(math.ldexp(count * math.log2(float(count)), fixed_point_places(rows)) + 0.5))


@allocating_kernel
def entropy_terms(rows: int) -> Integers:
    """T(c) for c = 0 .. rows."""
    terms = np.zeros(rows + 1, np.int64)
    for count in range(2, rows + 1):
        terms[count] = entropy_term(count, rows)
    return terms


def one_bit(rows: int) -> float:
    """What turns N I in fixed point into I in bits."""
    return float(1.0 / (rows * 2.0 ** fixed_point_places(rows)))


@allocating_kernel
def count_ones(word: np.uint64) -> int:
    word = word - ((word >> _ONE) & _EVERY_OTHER)
    word = (word & _PAIRS) + ((word >> np.uint64(2)) & _PAIRS)
    word = (word + (word >> np.uint64(4))) & _NIBBLES
    ones: int = np.int64((word * _BYTES) >> np.uint64(56))  # type: ignore[assignment]  # to numba it is one
    return ones


@allocating_kernel
def common_ones(a: Bits, b: Bits) -> int:
    """n11: the rows where both columns have their second value."""
    n = 0
    for w in range(len(a)):
        n += count_ones(a[w] & b[w])
    return n


@allocating_kernel
def pack(x: Floats, bits: Bits) -> int:
    """How many values the column has: 1, 2 (then `bits` says where the larger one stands), or 3 for more."""
    first = x[0]
    other = first
    for i in range(len(x)):
        if x[i] != first:
            other = x[i]
            break
    if other == first:
        bits[:] = np.uint64(0)
        return 1
    larger = max(first, other)
    smaller = min(first, other)
    strangers = 0
    for w in range(len(bits)):
        word = np.uint64(0)
        start = 64 * w
        for i in range(start, min(start + 64, len(x))):
            one = x[i] == larger
            strangers += (x[i] != smaller) & (not one)
            word |= np.uint64(one) << np.uint64(i - start)
        bits[w] = word
    return 3 if strangers else 2


@allocating_kernel
def unpack(bits: Bits, codes: Codes) -> None:
    for i in range(len(codes)):
        codes[i] = np.int32((bits[i >> 6] >> np.uint64(i & 63)) & _ONE)


@allocating_kernel
def encode(x: Floats, codes: Codes) -> int:
    """Codes in order of value; the number of distinct values."""
    order = order_of(x)
    level = -1
    before = 0.0
    for i in range(len(order)):
        value = x[order[i]]
        if i == 0 or value != before:
            level += 1
            before = value
        codes[order[i]] = level
    return level + 1


@allocating_kernel
def join(a: Codes, a_levels: int, b: Codes, b_levels: int, joined: Codes) -> int:
    """The two columns as one: a code for each pair of values that occurs; how many there are."""
    rows = len(a)
    cells = a_levels * b_levels
    levels = 0
    if cells <= 4 * rows + 1024:
        code_of = np.full(cells, -1, np.int32)
        for i in range(rows):
            cell = a[i] * b_levels + b[i]
            if code_of[cell] < 0:
                code_of[cell] = levels
                levels += 1
            joined[i] = code_of[cell]
        return levels
    pairs = np.empty(rows)
    for i in range(rows):
        pairs[i] = float(a[i]) * b_levels + b[i]
    order = order_of(pairs)
    levels = -1
    for i in range(rows):
        if i == 0 or pairs[order[i]] != pairs[order[i - 1]]:
            levels += 1
        joined[order[i]] = levels
    return levels + 1


@allocating_kernel
def content(codes: Codes, levels: int, terms: Integers) -> np.int64:
    """Σ T(c) over the values of a coded column."""
    counts = np.zeros(levels, np.int64)
    for i in range(len(codes)):
        counts[codes[i]] += 1
    total = np.int64(0)
    for level in range(levels):
        total += terms[counts[level]]
    return total


@allocating_kernel
def pair_content(
    a: Codes, a_levels: int, b: Codes, b_levels: int, terms: Integers, joined: Codes
) -> tuple[np.int64, int]:
    """Σ T(c) over the pairs of values that occur, and how many do."""
    rows = len(a)
    cells = a_levels * b_levels
    if cells > 4 * rows + 1024:
        levels = join(a, a_levels, b, b_levels, joined)
        return content(joined, levels, terms), levels
    counts = np.zeros(cells, np.int64)
    for i in range(rows):
        counts[a[i] * b_levels + b[i]] += 1
    total = np.int64(0)
    levels = 0
    for cell in range(cells):
        total += terms[counts[cell]]
        levels += counts[cell] > 0
    return total, levels


@allocating_kernel
def information(whole: np.int64, a: np.int64, b: np.int64, pair: np.int64, cells: int | np.int64) -> np.int64:
    """N I = T(N) - Σ T(a) - Σ T(b) + Σ T(pairs); 0 where it is no more than T's own rounding."""
    shared = whole - a - b + pair
    return shared if shared > 2 * cells + 2 else np.int64(0)


@allocating_kernel
def symmetric_uncertainty(whole: np.int64, a: np.int64, b: np.int64, shared: np.int64) -> float:
    """2 I / (H(a) + H(b)); 0 if neither varies."""
    both = (whole - a) + (whole - b)
    return 2.0 * float(shared) / float(both) if both > 0 else 0.0
