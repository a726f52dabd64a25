"""truncate(w, B): all but the B largest |w| become 0; of equal ones the smaller feature key stays.

Only the non-zero weights, at most B + nnz(x), are looked at. |w| is compared by the bits of the float, which
are ordered as the numbers are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.slots import ACTIVE, Model, settle

_NO_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
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


@kernel
def truncate(m: Model, entrants: int, k: int) -> bool:
    """w <- truncate(w, k); then slots are given up and taken. Whether the set of non-zero weights changed."""
    active = m.counts[ACTIVE]
    slots = m.weight[1 : active + 1].view(np.int64)
    arriving = m.entrant.view(np.int64)
    smallest = _NO_SIGN
    for i in range(active):
        smallest = min(smallest, slots[i] & _NO_SIGN)
    if active == k:  # below the smallest of k others: never among the k largest
        entrants = _leave_out_smaller(m, entrants, smallest)
        if entrants == 0 and smallest > 0:
            return False
    excess = active + entrants - k
    if excess > 0:
        for i in range(active):
            m.ordering[i] = slots[i] & _NO_SIGN
        for e in range(entrants):
            m.ordering[active + e] = arriving[e] & _NO_SIGN
        cut = nth_smallest(m.ordering, active + entrants, excess)
        _drop(m, entrants, excess, cut)
    return settle(m, entrants)


@kernel
def _leave_out_smaller(m: Model, entrants: int, smallest: np.int64) -> int:
    arriving = m.entrant.view(np.int64)
    left = 0
    for e in range(entrants):
        m.entrant[left] = m.entrant[e]
        m.entrant_name[left] = m.entrant_name[e]
        left += (arriving[e] & _NO_SIGN) >= smallest
    return left


@kernel
def _drop(m: Model, entrants: int, excess: int, cut: int) -> None:
    """Weights below `cut` become 0, and of those at `cut` the ones with the largest keys, `excess` in all."""
    active = m.counts[ACTIVE]
    slots = m.weight[1 : active + 1].view(np.int64)
    arriving = m.entrant.view(np.int64)
    below = 0
    tied = 0
    for i in range(active):
        size = slots[i] & _NO_SIGN
        if size < cut:
            slots[i] = 0
            below += 1
        elif size == cut:
            m.ordering[tied] = m.key[i + 1]
            tied += 1
    for e in range(entrants):
        size = arriving[e] & _NO_SIGN
        if size < cut:
            arriving[e] = 0
            below += 1
        elif size == cut:
            m.ordering[tied] = m.name_key[m.entrant_name[e]]
            tied += 1
    staying = tied - (excess - below)
    last_key = nth_smallest(m.ordering, tied, staying) if staying > 0 else np.int64(-1)
    for i in range(active):
        if (slots[i] & _NO_SIGN) == cut:
            if staying > 0 and m.key[i + 1] <= last_key:
                staying -= 1
            else:
                slots[i] = 0
    for e in range(entrants):
        if (arriving[e] & _NO_SIGN) == cut:
            if staying > 0 and m.name_key[m.entrant_name[e]] <= last_key:
                staying -= 1
            else:
                arriving[e] = 0
