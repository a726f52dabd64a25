"""The addresses of feature names: 64-bit hashes keyed by a secret of the process.

A word of the name at a time is mixed in by a multiplication of 64 x 64 bits whose two halves are folded together, as
wyhash does it. Who does not know the secret cannot choose names that collide; among n names by chance two do with a
probability of n**2 / 2**65. Where that must not happen, names are compared.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import is_compiled, kernel
from sluiceway.schemas.feature_key import key_of_name
from sluiceway.schemas.swar import READABLE_BEYOND, first_bytes, high_product, load_word, pointer_to, same

_SECRET = np.frombuffer(os.urandom(16), dtype=np.uint64) | np.uint64(1)  # odd: a factor of 0 would fold all to 0
SECRET_1, SECRET_2 = _SECRET[0], _SECRET[1]


TABLE_ADDRESS, TABLE_KEY, TABLE_AT, TABLE_SIZE = range(4)
TABLE_LONGS = 4
"""A table of names has a line of these for each: address and key, where its letters begin and how many they are."""


class NameTable(NamedTuple):
    """Names that are used again and again: their letters, and the table of them, places counted from 0."""

    letters: bytes
    lines: NDArray[np.uint64]

    @classmethod
    def of(cls, names: Sequence[bytes]) -> NameTable:
        letters = b"".join(names)
        text = np.frombuffer(bytearray(letters + READABLE_BEYOND), dtype=np.uint8)
        return cls(letters, name_table(text, 0, names))


def name_table(text: NDArray[np.uint8], at: int, names: Sequence[bytes]) -> NDArray[np.uint64]:
    """Write names into a text from there on, one after the other; the table of them."""
    table = np.empty((len(names), TABLE_LONGS), dtype=np.uint64)
    if names:
        sizes = np.fromiter(map(len, names), dtype=np.int64, count=len(names))
        ends = at + np.cumsum(sizes)
        text[at : ends[-1]] = np.frombuffer(b"".join(names), dtype=np.uint8)
        table[:, TABLE_AT], table[:, TABLE_SIZE] = ends - sizes, sizes
        _hash_all(text, SECRET_1, SECRET_2, table)
    return table


def hash_names(
    text: NDArray[np.uint8], at: NDArray[np.int64], size: NDArray[np.int32]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Addresses and keys of names that stand in a text."""
    table = np.zeros((len(at), TABLE_LONGS), dtype=np.uint64)
    table[:, TABLE_AT], table[:, TABLE_SIZE] = at, size
    _hash_all(text, SECRET_1, SECRET_2, table)
    return table[:, TABLE_ADDRESS].copy(), table[:, TABLE_KEY].astype(np.int64)


def number_names(
    text: NDArray[np.uint8],
    address: NDArray[np.uint64],
    name_at: NDArray[np.int64],
    name_size: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Equal names get equal numbers, counted in the order of first appearance; and where each first appears."""
    table = np.zeros(1 << (2 * len(address)).bit_length(), dtype=np.int32)
    number = np.empty(len(address), dtype=np.int32)
    first = np.empty(len(address), dtype=np.int64)
    count = _number_all(text, address, name_at, name_size, table, number, first)
    return number, first[:count]


def names_are_compiled() -> bool:
    """Whether all of this can start at once."""
    return is_compiled(_hash_all) and is_compiled(_number_all)


@kernel
def address_of_name(at: int, size: int, secret_1: np.uint64, secret_2: np.uint64) -> np.uint64:
    """The address of a name that is not empty."""
    mixed = secret_2
    stop = at + size - 8
    while at < stop:
        mixed = _fold(mixed ^ load_word(at), secret_1)
        at += 8
    mixed = _fold(mixed ^ first_bytes(load_word(at), stop + 8 - at), secret_1)
    return _fold(mixed ^ np.uint64(size), secret_2)


@kernel
def _fold(one: np.uint64, other: np.uint64) -> np.uint64:
    return np.uint64(high_product(one, other) ^ (one * other))


@kernel
def _hash_all(text: NDArray[np.uint8], secret_1: np.uint64, secret_2: np.uint64, table: NDArray[np.uint64]) -> None:
    for i in range(len(table)):
        at, size = pointer_to(text) + int(np.int64(table[i, TABLE_AT])), int(np.int64(table[i, TABLE_SIZE]))
        table[i, TABLE_ADDRESS] = address_of_name(at, size, secret_1, secret_2)
        table[i, TABLE_KEY] = np.uint64(key_of_name(at, size))


@kernel
def _number_all(
    text: NDArray[np.uint8],
    address: NDArray[np.uint64],
    name_at: NDArray[np.int64],
    name_size: NDArray[np.int32],
    table: NDArray[np.int32],
    number: NDArray[np.int32],
    first: NDArray[np.int64],
) -> int:
    """`table`: number + 1 by address, 0 = free; at most half of it is used."""
    letters = pointer_to(text)
    mask = np.uint64(len(table) - 1)
    count = 0
    for i in range(len(address)):
        slot = address[i] & mask
        while table[slot] != 0:
            j = first[table[slot] - 1]
            size = int(name_size[i])
            alike = address[j] == address[i] and name_size[j] == size
            if alike and same(letters + name_at[j], letters + name_at[i], size):
                break
            slot = (slot + np.uint64(1)) & mask
        if table[slot] == 0:
            first[count] = i
            count += 1
            table[slot] = count
        number[i] = table[slot] - 1
    return count
