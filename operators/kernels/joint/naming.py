"""Features' names of one model: each has a slot, found by the name's address, as `schemas.name_hash` makes it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.joint.line import ints_at, line_at, longs_at, words_at
from sluiceway.schemas.swar import load_byte, pointer_to, store_byte


@kernel
def slot_of(line: Any, address: np.uint64) -> int:
    """-1: the name is not known."""
    index, addresses = ints_at(line.index_at, line.index_size), words_at(line.address_at, line.room)
    mask = np.uint64(line.index_size - 1)
    at = address & mask
    slot = index[at]
    while slot >= 0 and addresses[slot] != address:
        at = (at + np.uint64(1)) & mask
        slot = index[at]
    return int(slot)


@kernel
def enter(line: Any, address: np.uint64, key: int, spelt: int, size: int) -> int:
    """A new name's slot; `spelt`: where it stands. There is room for it."""
    slot = line.features
    words_at(line.address_at, line.room)[slot] = address
    longs_at(line.key_at, line.room)[slot] = key
    letters = line.letters
    for i in range(size):
        store_byte(line.letters_at + letters + i, load_byte(spelt + i))
    longs_at(line.name_at, line.room + 1)[slot + 1] = letters + size
    line.letters = letters + size
    line.features = slot + 1
    index_name(line, slot)
    return int(slot)


@kernel
def index_name(line: Any, slot: int) -> None:
    index, addresses = ints_at(line.index_at, line.index_size), words_at(line.address_at, line.room)
    mask = np.uint64(line.index_size - 1)
    at = addresses[slot] & mask
    while index[at] >= 0:
        at = (at + np.uint64(1)) & mask
    index[at] = slot


@kernel
def index_all(at: int) -> None:
    """All names, into an index in which none is."""
    line = line_at(at)
    for slot in range(line.features):
        index_name(line, slot)


@kernel
def enter_all(
    at: int, text: NDArray[np.uint8], address: NDArray[np.uint64], key: NDArray[np.int64],
    name_at: NDArray[np.int64], name_size: NDArray[np.int32],
) -> None:  # fmt: skip
    """Names that are new, for which there is room."""
    line = line_at(at)
    for i in range(len(address)):
        enter(line, address[i], key[i], pointer_to(text) + name_at[i], int(name_size[i]))


@kernel
def find_all(at: int, address: NDArray[np.uint64], slots: NDArray[np.int64]) -> None:
    line = line_at(at)
    for i in range(len(address)):
        slots[i] = slot_of(line, address[i])
