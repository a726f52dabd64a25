"""Which weights are selected: the k largest, or the fewest that keep a share of the squared norm.

Both are found by quickselect, the second by the squares that a part of the weights adds up to: every weight is
examined a constant number of times on average, and nothing is sorted. Of equal weights the smaller feature key is
selected.

The fingerprint of a set is a sum of random numbers, one for each feature key: equal sets have equal fingerprints
whatever their order, and different sets different ones, but for one chance in 2**64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.numbers.order_statistics import nth_smallest
from sluiceway.operators.kernels.numbers.random import draw

_NO_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_ANY_KEY = np.iinfo(np.int64).max
_STREAM = np.uint64(0x5E1EC7ED)
_SLACK = 1.0 - 1e-12
"""A share that is missed by no more than rounding counts as reached: else the order of a sum would decide ties."""


@kernel
def limits(
    weight: NDArray[np.float64], key: NDArray[np.int64], n: int, k: int, keep: float, room: NDArray[np.int64]
) -> tuple[int, int]:
    """(bits, last): selected are weights above the bits of |w|, and those at it with a key up to `last`.

    Of `weight[1 : n + 1]`; `k` weights, or where that is 0 those that `keep` the share. `room` for n numbers. A share
    of 1 is every weight that is not 0, also where its square is too small to be missed.
    """
    bits = weight.view(np.int64)
    there = 0
    for slot in range(1, n + 1):
        room[there] = bits[slot] & _NO_SIGN
        there += room[there] != 0
    if k > 0:
        if there <= k:
            return 1, _ANY_KEY
        cut, staying = nth_smallest(room, there, there - k + 1), k
        for slot in range(1, n + 1):
            staying -= (bits[slot] & _NO_SIGN) > cut
    else:
        if there == 0 or keep == 1.0:
            return 1, _ANY_KEY
        cut, staying = _share(room, there, keep)
    tied = 0
    for slot in range(1, n + 1):
        if (bits[slot] & _NO_SIGN) == cut:
            room[tied] = key[slot]
            tied += 1
    if staying >= tied:
        return cut, _ANY_KEY
    return cut, nth_smallest(room, tied, staying)


@kernel
def _share(sizes: NDArray[np.int64], n: int, keep: float) -> tuple[int, int]:
    """The smallest size that is kept, and how many of that size, by their bits; the order is lost."""
    size = sizes.view(np.float64)
    largest = 0.0
    for i in range(n):
        largest = max(largest, size[i])
    total = 0.0
    for i in range(n):
        total += (size[i] / largest) * (size[i] / largest)
    need = keep * total * _SLACK
    low, high = 0, n
    while True:
        a, b, c = sizes[low], sizes[(low + high) // 2], sizes[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        middle = low
        above = 0.0
        for i in range(low, high):
            value = sizes[i]
            if value > pivot:
                above += (size[i] / largest) * (size[i] / largest)
            sizes[i] = sizes[middle]
            sizes[middle] = value
            middle += value > pivot
        if above >= need and middle > low:
            high = middle
            continue
        need -= above
        equal = middle
        for i in range(middle, high):
            value = sizes[i]
            sizes[i] = sizes[equal]
            sizes[equal] = value
            equal += value == pivot
        tied = equal - middle
        square = (size[middle] / largest) * (size[middle] / largest)
        if tied * square >= need or equal == high:
            staying = 1
            while staying < tied and staying * square < need:
                staying += 1
            return pivot, staying
        need -= tied * square
        low = equal


@kernel
def mark(
    weight: NDArray[np.float64], key: NDArray[np.int64], n: int, k: int, keep: float, selected: NDArray[np.bool_],
    room: NDArray[np.int64],
) -> None:  # fmt: skip
    """`selected[slot]` for slots 1 to n. `room` for n numbers."""
    bits = weight.view(np.int64)
    cut, last = limits(weight, key, n, k, keep, room)
    for slot in range(1, n + 1):
        size = bits[slot] & _NO_SIGN
        selected[slot] = size > cut or (size == cut and key[slot] <= last)


@kernel
def fingerprint(
    weight: NDArray[np.float64], key: NDArray[np.int64], n: int, k: int, keep: float, room: NDArray[np.int64]
) -> np.uint64:
    """Of the set that is selected."""
    bits = weight.view(np.int64)
    cut, last = limits(weight, key, n, k, keep, room)
    total = np.uint64(0)
    for slot in range(1, n + 1):
        size = bits[slot] & _NO_SIGN
        if size > cut or (size == cut and key[slot] <= last):
            total += draw(_STREAM, key[slot])
    return total
