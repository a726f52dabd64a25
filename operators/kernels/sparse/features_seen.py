"""The features that labelled instances have had so far: a hash set of feature keys that also numbers them.

Features are numbered in order of arrival, those of one row in order of their keys, so numbers do not depend on the
order in which a record lists its features. At the limit new features are left out of the model; if a row brings more
than there is room for, those with the smallest keys come in.

The keys stand one after the other in `keys[:head.features]`. A table with open addressing says where (0: free, else
position + 1). It can be made again from the keys, so only they are state. `head.open` counts the bound names that have
no number yet, as far as is known: when it is 0, rows need not be examined at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.numbers.random import mix64
from sluiceway.operators.kernels.numbers.sorting import sort_numbers
from sluiceway.operators.kernels.sparse.slots import Model, Rows


class Features(NamedTuple):
    """The features of all labelled instances so far."""

    keys: NDArray[np.int64]
    """By number."""
    table: NDArray[np.int32]
    known: NDArray[np.int32]
    """By bound name: number + 1; -1: left out; 0: not looked up yet, or not there."""


def table_for(capacity: int) -> NDArray[np.int32]:
    """A free table that is at most half full with `capacity` keys; its size is a power of two."""
    return np.zeros(2 << max(capacity - 1, 1).bit_length(), dtype=np.int32)


@kernel
def insert(keys: NDArray[np.int64], count: int, table: NDArray[np.int32], key: int, limit: int) -> int:
    """The count after: one more if the key is new; -1 if it is new but there are `limit` already."""
    mask = np.int64(len(table) - 1)
    at = np.int64(mix64(np.uint64(key))) & mask
    while table[at] != 0:
        if keys[table[at] - 1] == key:
            return count
        at = (at + 1) & mask
    if count >= limit:
        return -1
    keys[count] = key
    table[at] = count + 1
    return count + 1


@kernel
def find(keys: NDArray[np.int64], table: NDArray[np.int32], key: int) -> int:
    """The number of the key; -1 if it is not there."""
    mask = np.int64(len(table) - 1)
    at = np.int64(mix64(np.uint64(key))) & mask
    while table[at] != 0:
        if keys[table[at] - 1] == key:
            return table[at] - 1  # type: ignore[no-any-return]  # numpy types an item as Any
        at = (at + 1) & mask
    return -1


@kernel
def refill(keys: NDArray[np.int64], count: int, table: NDArray[np.int32]) -> None:
    """Enter the first `count` keys into a free table."""
    for i in range(count):
        insert(keys, i, table, keys[i], count)


@kernel
def has_room(rows: Rows, row: int, m: Model, seen: Features, limit: int) -> bool:
    """Whether all that the row can bring fits the arrays as they are."""
    length = rows.indptr[row + 1] - rows.indptr[row]
    return bool(min(limit, m.head[0].features + length) <= len(seen.keys))


@kernel
def recall(rows: Rows, row: int, m: Model, seen: Features) -> int:
    """Look up the row's features; how many are new, their keys in `m.ordering`."""
    new = 0
    if m.head[0].open == 0:
        return new
    for j in range(rows.indptr[row], rows.indptr[row + 1]):
        name = rows.indices[j]
        if seen.known[name] == 0 and rows.values[j] != 0.0:
            seen.known[name] = find(seen.keys, seen.table, m.name_key[name]) + 1
            if seen.known[name] == 0:
                m.ordering[new] = m.name_key[name]
                new += 1
            else:
                m.head[0].open -= 1
    return new


@kernel
def look(rows: Rows, row: int, m: Model, seen: Features, limit: int) -> None:
    """Count the features of a labelled row; those beyond the limit are left out of the step."""
    new = recall(rows, row, m, seen)
    if new > 0:
        keys = m.ordering
        sort_numbers(keys, new)
        for i in range(min(new, limit - m.head[0].features)):
            m.head[0].features = insert(seen.keys, m.head[0].features, seen.table, keys[i], limit)
        recall(rows, row, m, seen)
    if m.head[0].features < limit or m.head[0].open == 0:
        return
    first = rows.indptr[row]
    for j in range(first, rows.indptr[row + 1]):
        name = rows.indices[j]
        if seen.known[name] <= 0 and rows.values[j] != 0.0:
            seen.known[name] = -1
            m.head[0].ignored += 1
            m.touched[j - first] = -1
