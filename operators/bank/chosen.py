"""What is selected in models of a bank: names by their numbers in the book, with weights, the largest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.block import key_of, name_of, since_of, weight_of


class Chosen(NamedTuple):
    """Of some models, one after the other; of equal weights the smaller feature key first."""

    ends: NDArray[np.int64]
    """Where each model's features end."""
    number: NDArray[np.int32]
    weight: NDArray[np.float64]
    since: NDArray[np.int64]
    """The version at which the feature last entered."""


def together(chosen: Sequence[Chosen]) -> Chosen:
    """What was chosen model by model."""
    ends = np.cumsum([len(one.number) for one in chosen], dtype=np.int64)
    number, weight, since = (np.concatenate(parts) for parts in zip(*(one[1:] for one in chosen), strict=True))
    return Chosen(ends, number, weight, since)


def every_weight(models: NDArray[np.int64], heads: NDArray[Any], arena: Arena) -> Chosen:
    """Of learners that select every feature with a weight, which is what stands in its slot times the scale."""
    counts = heads["active"][models]
    ends = np.cumsum(counts)
    total, most = int(ends[-1]), int(counts.max())
    chosen = Chosen(ends, np.empty(total, dtype=np.int32), np.empty(total), np.empty(total, dtype=np.int64))
    _every_weight(models, heads, arena, chosen, np.empty((2, most), dtype=np.int64))
    return chosen


@kernel
def _every_weight(
    models: NDArray[np.int64], heads: NDArray[Any], arena: Arena, chosen: Chosen, orders: NDArray[np.int64]
) -> None:
    at = 0
    for model in models:
        active = heads[model].active
        if active == 0:
            continue
        block, room, scale = heads[model].block, heads[model].room, heads[model].scale
        weight, since = weight_of(arena, block, room), since_of(arena, block, room)
        key, name = key_of(arena, block, room), name_of(arena, block, room)
        which = _put_in_order(weight, key, active, orders)
        for i in range(active):
            slot = orders[which, i]
            chosen.number[at], chosen.weight[at], chosen.since[at] = name[slot], scale * weight[slot], since[slot]
            at += 1


@kernel
def _put_in_order(
    weight: NDArray[np.float64], key: NDArray[np.int64], active: int, orders: NDArray[np.int64]
) -> int:
    """Merge sort of the slots from one of two orders into the other; the one that it ends in."""
    for i in range(active):
        orders[0, i] = i + 1
    which, width = 0, 1
    while width < active:
        for start in range(0, active, 2 * width):
            left, middle, end = start, min(start + width, active), min(start + 2 * width, active)
            right = middle
            for at in range(start, end):
                takes_left = right >= end
                if left < middle and not takes_left:
                    a, b = orders[which, left], orders[which, right]
                    one, other = abs(weight[a]), abs(weight[b])
                    takes_left = one > other or (one == other and key[a] <= key[b])
                if takes_left:
                    orders[1 - which, at] = orders[which, left]
                    left += 1
                else:
                    orders[1 - which, at] = orders[which, right]
                    right += 1
        which, width = 1 - which, 2 * width
    return which
