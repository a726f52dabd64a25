"""From an address to a slot: a hash table of slots, linear probing, no tombstones.

Addresses are keyed hashes already, so their low bits are the place; nobody who does not know the key can make them
meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel

Index = NDArray[Any]
"""Slots by place, 0 = free: bytes or 32-bit numbers."""


@kernel
def slot_at(index: Index, address: NDArray[np.uint64], wanted: np.uint64) -> int:
    """The slot of an address; 0 if it has none."""
    mask = np.uint64(len(index) - 1)
    at = wanted & mask
    slot = index[at]
    while slot != 0 and address[slot] != wanted:
        at = (at + np.uint64(1)) & mask
        slot = index[at]
    return int(slot)


@kernel
def enter(index: Index, address: NDArray[np.uint64], slot: int) -> None:
    mask = np.uint64(len(index) - 1)
    at = address[slot] & mask
    while index[at] != 0:
        at = (at + np.uint64(1)) & mask
    index[at] = slot


@kernel
def remove(index: Index, address: NDArray[np.uint64], slot: int) -> None:
    """What was pushed on by the slot moves back, so that a search may stop at the first free place."""
    mask = np.uint64(len(index) - 1)
    at = address[slot] & mask
    while index[at] != slot:
        at = (at + np.uint64(1)) & mask
    hole = at
    at = (at + np.uint64(1)) & mask
    while index[at] != 0:
        home = address[index[at]] & mask
        if ((at - home) & mask) >= ((at - hole) & mask):
            index[hole] = index[at]
            hole = at
        at = (at + np.uint64(1)) & mask
    index[hole] = 0


@kernel
def fill(index: Index, address: NDArray[np.uint64], slots: int) -> None:
    """Slots 1 to `slots`, into an index of any content."""
    index[:] = 0
    for slot in range(1, slots + 1):
        enter(index, address, slot)
