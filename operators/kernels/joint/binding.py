"""Rows of a poll as the joint operators read them: each model's together, by the slots of their features."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.joint.line import line_at, longs_at
from sluiceway.operators.kernels.joint.naming import enter, slot_of
from sluiceway.operators.kernels.numbers.sorting import sort_numbers
from sluiceway.schemas.swar import pointer_to


class Given(NamedTuple):
    """Rows as they came."""

    text: NDArray[np.uint8]
    indptr: NDArray[np.int64]
    address: NDArray[np.uint64]
    key: NDArray[np.int64]
    name_at: NDArray[np.int64]
    name_size: NDArray[np.int32]
    values: NDArray[np.float64]


class Bound(NamedTuple):
    """The features of a row in ascending order of their slots; those without a slot are left out."""

    indptr: NDArray[np.int64]
    slots: NDArray[np.int32]
    values: NDArray[np.float64]
    ignored: NDArray[np.int64]
    """By row: values that would have been learnt, had there been room for their names."""
    scratch: NDArray[np.int64]
    """Twice as much as the longest row."""


@kernel
def tells(x: float, absent_is_zero: bool) -> bool:
    """Whether a value says more than that the feature is absent."""
    return x != 0.0 if absent_is_zero else not math.isnan(x)


@kernel
def bind(
    lines: NDArray[np.int64], order: NDArray[np.int64], model: NDArray[np.int64], y: NDArray[np.int8], given: Given,
    row: int, bound: Bound,
) -> int:  # fmt: skip
    """From that row on; `order`: which of the given rows each is, `model`: whose. New names of labelled rows get slots.

    The row whose model must make room for names first; the number of rows if all are bound.
    """
    text, indptr = pointer_to(given.text), bound.indptr
    slots, values, scratch = bound.slots, bound.values, bound.scratch
    while row < len(order):
        line = line_at(lines[model[row]])
        absent_is_zero, most = line.absent_is_zero != 0, line.most_features
        first, to = given.indptr[order[row]], indptr[row]
        count, ignored, last, rises = 0, 0, -1, True
        for at in range(first, given.indptr[order[row] + 1]):
            slot = slot_of(line, given.address[at])
            if slot < 0:
                if y[row] == 0 or not tells(given.values[at], absent_is_zero):
                    continue
                if line.features >= most:
                    ignored += 1
                    continue
                size = int(given.name_size[at])
                if line.features >= line.room or line.letters + size > line.letters_room:
                    return row
                slot = enter(line, given.address[at], given.key[at], text + given.name_at[at], size)
                longs_at(line.first_at, line.room)[slot] = -1
            rises = rises and slot > last
            last = slot
            slots[to + count], values[to + count] = slot, given.values[at]
            scratch[count] = (slot << 32) | (at - first)
            count += 1
        if not rises:
            sort_numbers(scratch, count)
            for i in range(count):
                slots[to + i] = scratch[i] >> 32
                values[to + i] = given.values[first + (scratch[i] & 0xFFFFFFFF)]
        indptr[row + 1], bound.ignored[row] = to + count, ignored
        row += 1
    return row
