"""The order of numbers, by merging: stable, and quick to compile (numpy's sorts take Numba many seconds).

A handful of numbers is put in order where it stands, by insertion.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel

_HANDFUL = 48


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
    """`slots[:n]` in ascending order."""
    if n > _HANDFUL:
        slots[:n].sort()
        return
    for i in range(1, n):
        slot = slots[i]
        at = i
        while at > 0 and slots[at - 1] > slot:
            slots[at] = slots[at - 1]
            at -= 1
        slots[at] = slot
