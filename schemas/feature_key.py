"""Feature keys: the order in which names win ties, with no state behind it.

A name that is a plain whole number ("0", "17"; no sign, no leading zero, at most 18 digits) has its value as key. Any
other has 2**62 plus a 62-bit hash of its UTF-8 bytes (FNV-1a, finished as in splitmix64): above all numbers, the same
everywhere and for ever.
"""

from __future__ import annotations

import numpy as np

from sluiceway.compiling import part
from sluiceway.schemas.swar import load_byte

_ABOVE_NUMBERS = 1 << 62
_LOW_62_BITS = np.uint64((1 << 62) - 1)
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ZERO = ord("0")
_DIGITS = 18


@part
def key_of_name(at: int, size: int) -> int:
    """The key of a name that is not empty."""
    if np.uint64(load_byte(at) - _ZERO) <= 9 and size <= _DIGITS and (size == 1 or load_byte(at) != _ZERO):
        value = 0
        for i in range(size):
            digit = load_byte(at + i) - _ZERO
            if np.uint64(digit) > 9:
                return _hashed(at, size)
            value = value * 10 + digit
        return value
    return _hashed(at, size)


@part
def _hashed(at: int, size: int) -> int:
    z = _FNV_OFFSET
    for i in range(size):
        z = (z ^ np.uint64(load_byte(at + i))) * _FNV_PRIME
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    z ^= z >> np.uint64(31)
    return _ABOVE_NUMBERS + int(z & _LOW_62_BITS)
