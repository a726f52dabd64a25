"""The order of numbers, by merging: stable, and quick to compile (numpy's sorts take Numba many seconds).

Of a handful of numbers it is counted for each how many are smaller: more comparisons, but none to be mispredicted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel

_HANDFUL = 64


@kernel
def order_of(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Where the smallest stands, the second, ...; equal ones in the order they have."""
    n = len(values)
    order, merged = np.arange(n), np.empty(n, np.int64)
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            left, middle, end = start, min(start + width, n), min(start + 2 * width, n)
            right = middle
            for at in range(start, end):
                if left < middle and (right >= end or values[order[left]] <= values[order[right]]):
                    merged[at] = order[left]
                    left += 1
                else:
                    merged[at] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order


@kernel
def sort_slots(slots: NDArray[np.int64], n: int) -> None:
    """`slots[:n]`, no two of which are equal, in ascending order."""
    if n > _HANDFUL:
        slots[:n].sort()
        return
    unsorted = slots[:n].copy()
    for i in range(n):
        smaller = 0
        for j in range(n):
            smaller += unsorted[j] < unsorted[i]
        slots[smaller] = unsorted[i]
