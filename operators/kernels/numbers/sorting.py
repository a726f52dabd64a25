"""The order of numbers, by merging: stable, and quick to compile (numpy's sorts take Numba many seconds).

Of a handful of numbers it is counted for each how many are smaller: more comparisons, but none to be mispredicted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel, kernel

_HANDFUL = 64


@allocating_kernel
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
def sort_numbers(numbers: NDArray[np.int64], n: int) -> None:
    """`numbers[:n]` in ascending order; as many after them are used as scratch."""
    if n > _HANDFUL:
        _sort_by_merging(numbers, n)
        return
    unsorted = numbers[n : 2 * n]
    for i in range(n):
        unsorted[i] = numbers[i]
    for i in range(n):
        before = 0
        for j in range(i):
            before += unsorted[j] <= unsorted[i]
        for j in range(i + 1, n):
            before += unsorted[j] < unsorted[i]
        numbers[before] = unsorted[i]


@kernel
def _sort_by_merging(numbers: NDArray[np.int64], n: int) -> None:
    source, target = 0, n
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            left, middle, end = start, min(start + width, n), min(start + 2 * width, n)
            right = middle
            for at in range(start, end):
                if left < middle and (right >= end or numbers[source + left] <= numbers[source + right]):
                    numbers[target + at] = numbers[source + left]
                    left += 1
                else:
                    numbers[target + at] = numbers[source + right]
                    right += 1
        source, target = target, source
        width *= 2
    if source > 0:
        for i in range(n):
            numbers[i] = numbers[n + i]
