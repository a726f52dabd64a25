"""Columns side by side, as kernels compare them: place 0 is the target, place 1 the column that has just come.

A shelf is continuous (standardised floats) or discrete (bits for two values, codes for more); its measure says how
two places depend on each other, as a number in [0, 1] (mutual information: in bits).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels import contingency
from sluiceway.operators.kernels.contingency import (
    common_ones,
    content,
    count_ones,
    encode,
    information,
    pack,
    pair_content,
    symmetric_uncertainty,
    unpack,
)
from sluiceway.operators.kernels.correlation import dot, rounded, standardise
from sluiceway.operators.kernels.nearly import SURE, nearly

TARGET, CANDIDATE, FIRST_HELD = 0, 1, 2
FISHER_Z, SYMMETRIC_UNCERTAINTY, MUTUAL_INFORMATION = 0, 1, 2
MEASURES = {
    "fisher-z": FISHER_Z,
    "symmetric-uncertainty": SYMMETRIC_UNCERTAINTY,
    "mutual-information": MUTUAL_INFORMATION,
}
_AT_A_TIME = 8


class Shelf(NamedTuple):
    """A continuous shelf has `floats` and `thin` alone, a discrete one all the others."""

    measure: int
    rows: int
    # by place
    floats: NDArray[np.float64]
    thin: NDArray[np.float32]
    """The same in half the bytes, for estimates; there once `estimate` has been called."""
    bits: NDArray[np.uint64]
    codes: NDArray[np.int32]
    coded: NDArray[np.bool_]
    """Whether `codes` are there: those of a column of two values are made from its bits when first needed."""
    levels: NDArray[np.int64]
    ones: NDArray[np.int64]
    content: NDArray[np.int64]
    """Σ T(c) over the column's values."""
    # for all places
    terms: NDArray[np.int64]
    bit: float
    """One bit of information, shared by all rows, is 1 / bit in fixed point."""
    strand: NDArray[np.float64]
    joined: NDArray[np.int32]


def empty_shelf(measure: int, rows: int, places: int) -> Shelf:
    discrete = measure != FISHER_Z
    terms = contingency.entropy_terms(rows) if discrete else np.zeros(1, dtype=np.int64)
    return Shelf(
        measure=measure,
        rows=rows,
        floats=np.zeros((places, 0 if discrete else rows)),
        thin=np.zeros((places, 0 if discrete else rows), dtype=np.float32),
        bits=np.zeros((places, -(-rows // 64) if discrete else 0), dtype=np.uint64),
        codes=np.zeros((places, rows if discrete else 0), dtype=np.int32),
        coded=np.zeros(places, dtype=np.bool_),
        levels=np.zeros(places, dtype=np.int64),
        ones=np.zeros(places, dtype=np.int64),
        content=np.zeros(places, dtype=np.int64),
        terms=terms,
        bit=contingency.one_bit(rows) if discrete else 0.0,
        strand=np.zeros(rows // 4 + 1),
        joined=np.zeros(rows if discrete else 0, dtype=np.int32),
    )


BY_PLACE = ("floats", "thin", "bits", "codes", "coded", "levels", "ones", "content")


def with_places(shelf: Shelf, places: int) -> Shelf:
    """The same columns, and room for more."""
    grown: dict[str, Any] = {}
    for field in BY_PLACE:
        array = getattr(shelf, field)
        grown[field] = np.zeros((places, *array.shape[1:]), dtype=array.dtype)  # no memory before it is written to
        used = np.flatnonzero(shelf.coded) if field == "codes" else slice(len(array))
        grown[field][used] = array[used]
    return shelf._replace(**grown)


@kernel
def put(shelf: Shelf, place: int, x: NDArray[np.float64]) -> bool:
    """The column onto the shelf; whether it varies at all. O(N), or O(N log N) for codes of more than two values."""
    if shelf.measure == FISHER_Z:
        return standardise(x, shelf.floats[place], shelf.strand)
    levels = pack(x, shelf.bits[place])
    shelf.coded[place] = False
    if levels > 2:
        levels = encode(x, shelf.codes[place])
        shelf.coded[place] = True
    shelf.levels[place] = levels
    settle(shelf, place)
    return levels > 1


@kernel
def settle(shelf: Shelf, place: int) -> None:
    """`ones` and `content` from the bits or codes that stand there."""
    if shelf.coded[place] and shelf.levels[place] > 2:
        shelf.content[place] = content(shelf.codes[place], shelf.levels[place], shelf.terms)
        return
    ones = 0
    for word in shelf.bits[place]:
        ones += count_ones(word)
    shelf.ones[place] = ones
    shelf.content[place] = shelf.terms[ones] + shelf.terms[shelf.rows - ones]


@kernel
def move(shelf: Shelf, origin: int, place: int) -> None:
    if shelf.measure == FISHER_Z:
        shelf.floats[place] = shelf.floats[origin]
        shelf.thin[place] = shelf.thin[origin]
        return
    shelf.bits[place] = shelf.bits[origin]
    if shelf.coded[origin]:
        shelf.codes[place] = shelf.codes[origin]
    shelf.coded[place] = shelf.coded[origin]
    shelf.levels[place] = shelf.levels[origin]
    shelf.ones[place] = shelf.ones[origin]
    shelf.content[place] = shelf.content[origin]


@kernel
def codes_of(shelf: Shelf, place: int) -> NDArray[np.int32]:
    if not shelf.coded[place]:
        unpack(shelf.bits[place], shelf.codes[place])
        shelf.coded[place] = True
    codes: NDArray[np.int32] = shelf.codes[place]
    return codes


@kernel
def dependence(shelf: Shelf, a: int, b: int) -> float:
    """|r|, symmetric uncertainty or mutual information of two columns that vary."""
    if shelf.measure == FISHER_Z:
        return rounded(dot(shelf.floats[a], shelf.floats[b], shelf.strand))
    terms = shelf.terms
    if shelf.levels[a] == 2 and shelf.levels[b] == 2:
        both = common_ones(shelf.bits[a], shelf.bits[b])
        only_a, only_b = shelf.ones[a] - both, shelf.ones[b] - both
        pair = terms[both] + terms[only_a] + terms[only_b] + terms[shelf.rows - both - only_a - only_b]
        cells = 4
    else:
        pair, cells = pair_content(
            codes_of(shelf, a), shelf.levels[a], codes_of(shelf, b), shelf.levels[b], terms, shelf.joined
        )
    whole = terms[shelf.rows]
    shared = information(whole, shelf.content[a], shelf.content[b], pair, cells)
    if shelf.measure == MUTUAL_INFORMATION:
        return shared * shelf.bit
    return symmetric_uncertainty(whole, shelf.content[a], shelf.content[b], shared)


@kernel
def estimate(shelf: Shelf, place: int) -> None:
    """Make a column ready for `at_most`."""
    if shelf.measure == FISHER_Z:
        thin, floats = shelf.thin[place], shelf.floats[place]
        for row in range(len(thin)):
            thin[row] = np.float32(floats[row])


@kernel
def at_most(shelf: Shelf, places: NDArray[np.int64], start: int, count: int, found: NDArray[np.float64]) -> int:
    """What the candidate's dependences on those at `places[start:]` are at most; up to where they are found.

    Some at a time: a few too many cost less than a loop that stops and starts. Discrete columns have no estimate.
    """
    if shelf.measure != FISHER_Z:
        found[start:count] = np.inf
        return count
    stop = min(start + _AT_A_TIME, count)
    for s in range(start, stop):
        found[s] = abs(nearly(shelf.thin[places[s]], shelf.thin[CANDIDATE])) + SURE
    return stop


@kernel
def equivalent(shelf: Shelf, a: int, b: int, v: float) -> bool:
    """Whether two columns determine each other, `v` being their dependence."""
    if shelf.measure == MUTUAL_INFORMATION:
        whole = shelf.terms[shelf.rows]
        return bool(shelf.content[a] == shelf.content[b] and v == (whole - shelf.content[a]) * shelf.bit)
    return v == 1.0
