"""Feature keys: the order in which names win ties, with no state behind it.

A name that is a plain whole number ("0", "17"; no sign, no leading zero, at most 18 digits) has its value as key. Any
other has 2**62 plus a 62-bit hash of its UTF-8 bytes (FNV-1a, finished as in splitmix64): above all numbers, the same
everywhere and for ever.
"""

from __future__ import annotations

import numpy as np

from sluiceway.compiling import kernel
from sluiceway.schemas.swar import load_byte, load_int, load_long, load_word, store_long, store_word

_ABOVE_NUMBERS = 1 << 62
_LOW_62_BITS = np.uint64((1 << 62) - 1)
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ZERO = ord("0")
_DIGITS = 18


@kernel
def key_of_name(at: int, size: int) -> int:
    """The key of a name that is not empty."""
    return _key(at, size, _FNV_OFFSET, 0)


@kernel
def keys_of_names(text: int, at: int, size: int, keys: int, count: int) -> None:
    """The keys of names: where each begins in the text, of 8 bytes; its size, of 4; its key, of 8. All pointers.

    Four at a time: a hash waits for each multiplication before the next, four hashes wait for theirs together.
    """
    together = count & ~3
    for i in range(0, together, 4):
        a, b = text + load_long(at + 8 * i), text + load_long(at + 8 * i + 8)
        c, d = text + load_long(at + 8 * i + 16), text + load_long(at + 8 * i + 24)
        shortest = load_int(size + 4 * i)
        for k in range(1, 4):
            if load_int(size + 4 * (i + k)) < shortest:
                shortest = load_int(size + 4 * (i + k))
        p = q = r = s = _FNV_OFFSET
        for j in range(shortest):
            p = (p ^ np.uint64(load_byte(a + j))) * _FNV_PRIME
            q = (q ^ np.uint64(load_byte(b + j))) * _FNV_PRIME
            r = (r ^ np.uint64(load_byte(c + j))) * _FNV_PRIME
            s = (s ^ np.uint64(load_byte(d + j))) * _FNV_PRIME
        store_word(keys + 8 * i, p)
        store_word(keys + 8 * i + 8, q)
        store_word(keys + 8 * i + 16, r)
        store_word(keys + 8 * i + 24, s)
        for k in range(i, i + 4):
            hashed = load_word(keys + 8 * k)
            store_long(keys + 8 * k, _key(text + load_long(at + 8 * k), load_int(size + 4 * k), hashed, shortest))
    for i in range(together, count):
        store_long(keys + 8 * i, _key(text + load_long(at + 8 * i), load_int(size + 4 * i), _FNV_OFFSET, 0))


@kernel
def _key(at: int, size: int, z: np.uint64, hashed: int) -> int:
    """The key of a name of whose bytes so many have entered the hash."""
    if np.uint64(load_byte(at) - _ZERO) <= 9 and size <= _DIGITS and (size == 1 or load_byte(at) != _ZERO):
        value, i, digit = 0, 0, 0
        while i < size and np.uint64(digit) <= 9:
            digit = load_byte(at + i) - _ZERO
            value = value * 10 + digit
            i += 1
        if np.uint64(digit) <= 9:
            return value
    for i in range(hashed, size):
        z = (z ^ np.uint64(load_byte(at + i))) * _FNV_PRIME
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    z ^= z >> np.uint64(31)
    return _ABOVE_NUMBERS + int(z & _LOW_62_BITS)
