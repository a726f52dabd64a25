"""How many distinct features there have been: a set of feature keys, open addressing, oldest first.

The keys stand one after the other in `keys[:count]`; `table` says where (0 = free, else place + 1). The table
can be made anew from the keys, so only they are state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.random import mix64


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
    """The place of the key among the keys; -1 if it is not there."""
    mask = np.int64(len(table) - 1)
    at = np.int64(mix64(np.uint64(key))) & mask
    while table[at] != 0:
        if keys[table[at] - 1] == key:
            return table[at] - 1  # type: ignore[no-any-return]  # numpy types an item as Any
        at = (at + 1) & mask
    return -1


@kernel
def refill(keys: NDArray[np.int64], count: int, table: NDArray[np.int32]) -> None:
    """Enter the keys there are into a free table."""
    for i in range(count):
        insert(keys, i, table, keys[i], count)
