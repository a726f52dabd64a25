"""Order statistics: the n-th smallest of many numbers, without sorting them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel

_FEW = 4
"""A heap of the d smallest of n pays when d * d * _FEW <= n (measured for n from 30 to 5,000)."""


@kernel
def nth_smallest(values: NDArray[np.int64], n: int, nth: int) -> int:
    """The `nth` (from 1) smallest of `values[:n]`, whose order and content are lost."""
    if nth * nth * _FEW <= n:
        return _nth_by_heap(values, n, nth)
    return _nth_by_partition(values, n, nth)


@kernel
def _nth_by_heap(values: NDArray[np.int64], n: int, nth: int) -> int:
    """One scan, the nth smallest so far kept in a heap with the largest on top."""
    for root in range(nth // 2 - 1, -1, -1):
        _sift_down(values, root, nth)
    for i in range(nth, n):
        if values[i] < values[0]:
            values[0] = values[i]
            _sift_down(values, 0, nth)
    largest: int = values[0]
    return largest


@kernel
def _sift_down(heap: NDArray[np.int64], root: int, size: int) -> None:
    value = heap[root]
    child = 2 * root + 1
    while child < size:
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[root] = heap[child]
        root = child
        child = 2 * root + 1
    heap[root] = value


@kernel
def _nth_by_partition(values: NDArray[np.int64], n: int, nth: int) -> int:
    """Quickselect; the inner loop swaps always and so has no branch to mispredict."""
    low, high, target = 0, n, nth - 1
    while high - low > 1:
        a, b, c = values[low], values[(low + high) // 2], values[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        middle = low
        for i in range(low, high):
            value = values[i]
            values[i] = values[middle]
            values[middle] = value
            middle += value < pivot
        if target < middle:
            high = middle
            continue
        low = middle
        for i in range(low, high):
            value = values[i]
            values[i] = values[middle]
            values[middle] = value
            middle += value == pivot
        if target < middle:
            break
        low = middle
    found: int = values[target]
    return found
