"""Columns side by side, as kernels compare them: place 0 is the target, place 1 the column that has just come.

A store is continuous (standardised floats) or discrete (bits for two values, codes for more); its measure says how
two places depend on each other, as a number in [0, 1] (mutual information: in bits).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.columns import contingency
from sluiceway.operators.kernels.columns.contingency import (
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
from sluiceway.operators.kernels.columns.correlation import dot, rounded, standardise
from sluiceway.operators.kernels.columns.estimated_dot import SURE, estimated_dot

TARGET, CANDIDATE, FIRST_MEMBER = 0, 1, 2
FISHER_Z, SYMMETRIC_UNCERTAINTY, MUTUAL_INFORMATION = 0, 1, 2
MEASURES = {
    "fisher-z": FISHER_Z,
    "symmetric-uncertainty": SYMMETRIC_UNCERTAINTY,
    "mutual-information": MUTUAL_INFORMATION,
}
_AT_A_TIME = 8


class ColumnStore(NamedTuple):
    """A continuous store has `floats` and `thin` alone, a discrete one all the others."""

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


def empty_store(measure: int, rows: int, places: int) -> ColumnStore:
    discrete = measure != FISHER_Z
    terms = contingency.entropy_terms(rows) if discrete else np.zeros(1, dtype=np.int64)
    return ColumnStore(
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


def with_places(store: ColumnStore, places: int) -> ColumnStore:
    """The same columns, and room for more."""
    grown: dict[str, Any] = {}
    for field in BY_PLACE:
        array = getattr(store, field)
        grown[field] = np.zeros((places, *array.shape[1:]), dtype=array.dtype)  # no memory before it is written to
        used = np.flatnonzero(store.coded) if field == "codes" else slice(len(array))
        grown[field][used] = array[used]
    return store._replace(**grown)


@allocating_kernel
def put(store: ColumnStore, place: int, x: NDArray[np.float64]) -> bool:
    """The column into the store; whether it varies at all. O(N), or O(N log N) for codes of more than two values."""
    if store.measure == FISHER_Z:
        return standardise(x, store.floats[place], store.strand)
    levels = pack(x, store.bits[place])
    store.coded[place] = False
    if levels > 2:
        levels = encode(x, store.codes[place])
        store.coded[place] = True
    store.levels[place] = levels
    settle(store, place)
    return levels > 1


@allocating_kernel
def settle(store: ColumnStore, place: int) -> None:
    """`ones` and `content` from the bits or codes that stand there."""
    if store.coded[place] and store.levels[place] > 2:
        store.content[place] = content(store.codes[place], store.levels[place], store.terms)
        return
    ones = 0
    for word in store.bits[place]:
        ones += count_ones(word)
    store.ones[place] = ones
    store.content[place] = store.terms[ones] + store.terms[store.rows - ones]


@allocating_kernel
def move(store: ColumnStore, origin: int, place: int) -> None:
    if store.measure == FISHER_Z:
        store.floats[place] = store.floats[origin]
        store.thin[place] = store.thin[origin]
        return
    store.bits[place] = store.bits[origin]
    if store.coded[origin]:
        store.codes[place] = store.codes[origin]
    store.coded[place] = store.coded[origin]
    store.levels[place] = store.levels[origin]
    store.ones[place] = store.ones[origin]
    store.content[place] = store.content[origin]


@allocating_kernel
def codes_of(store: ColumnStore, place: int) -> NDArray[np.int32]:
    if not store.coded[place]:
        unpack(store.bits[place], store.codes[place])
        store.coded[place] = True
    codes: NDArray[np.int32] = store.codes[place]
    return codes


@allocating_kernel
def dependence(store: ColumnStore, a: int, b: int) -> float:
    """|r|, symmetric uncertainty or mutual information of two columns that vary."""
    if store.measure == FISHER_Z:
        return rounded(dot(store.floats[a], store.floats[b], store.strand))
    terms = store.terms
    if store.levels[a] == 2 and store.levels[b] == 2:
        both = common_ones(store.bits[a], store.bits[b])
        only_a, only_b = store.ones[a] - both, store.ones[b] - both
        pair = terms[both] + terms[only_a] + terms[only_b] + terms[store.rows - both - only_a - only_b]
        cells = 4
    else:
        pair, cells = pair_content(
            codes_of(store, a), store.levels[a], codes_of(store, b), store.levels[b], terms, store.joined
        )
    whole = terms[store.rows]
    shared = information(whole, store.content[a], store.content[b], pair, cells)
    if store.measure == MUTUAL_INFORMATION:
        return shared * store.bit
    return symmetric_uncertainty(whole, store.content[a], store.content[b], shared)


@allocating_kernel
def estimate(store: ColumnStore, place: int) -> None:
    """Make a column ready for `at_most`."""
    if store.measure == FISHER_Z:
        thin, floats = store.thin[place], store.floats[place]
        for row in range(len(thin)):
            thin[row] = np.float32(floats[row])


@allocating_kernel
def at_most(store: ColumnStore, places: NDArray[np.int64], start: int, count: int, found: NDArray[np.float64]) -> int:
    """What the candidate's dependences on those at `places[start:]` are at most; up to where they are found.

    Some at a time: a few too many cost less than a loop that stops and starts. Discrete columns have no estimate.
    """
    if store.measure != FISHER_Z:
        found[start:count] = np.inf
        return count
    stop = min(start + _AT_A_TIME, count)
    for s in range(start, stop):
        found[s] = abs(estimated_dot(store.thin[places[s]], store.thin[CANDIDATE])) + SURE
    return stop


@allocating_kernel
def equivalent(store: ColumnStore, a: int, b: int, v: float) -> bool:
    """Whether two columns determine each other, `v` being their dependence."""
    if store.measure == MUTUAL_INFORMATION:
        whole = store.terms[store.rows]
        return bool(store.content[a] == store.content[b] and v == (whole - store.content[a]) * store.bit)
    return v == 1.0
