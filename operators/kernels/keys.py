"""Feature keys: the order in which names win ties, with no state behind it.

A name that is a plain whole number ("0", "17"; no sign, no leading zero, at most 18 digits) has its value as
key. Any other has 2**62 plus a 62-bit hash of its UTF-8 bytes: above all numbers, the same everywhere and for
ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.numbers.random import mix64

_ABOVE_NUMBERS = 1 << 62
_LOW_62_BITS = np.uint64((1 << 62) - 1)
_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


def feature_keys(names: Sequence[str]) -> NDArray[np.int64]:
    """The key of each name; lone surrogates are hashed as they would stand in UTF-8."""
    blob = np.frombuffer("".join(names).encode("utf-8", "surrogatepass") + b"\x00", dtype=np.uint8)
    lengths = np.fromiter(map(len, names), dtype=np.int64, count=len(names))
    keys = np.empty(len(names), dtype=np.int64)
    keys_of_blob(blob, lengths, keys)
    return keys


@kernel
def keys_of_blob(blob: NDArray[np.uint8], lengths: NDArray[np.int64], keys: NDArray[np.int64]) -> None:
    """`blob`: all names in UTF-8, one after the other, and a closing NUL; `lengths` in characters."""
    at = 0
    for i in range(len(lengths)):
        start = at
        digits = True
        value = np.int64(0)
        hashed = _FNV_OFFSET
        characters = lengths[i]
        # A character ends where no continuation byte (10xxxxxx) follows.
        while characters > 0 or (blob[at] & 0xC0) == 0x80:
            byte = blob[at]
            characters -= (byte & 0xC0) != 0x80
            digits &= 48 <= byte <= 57
            value = value * 10 + (np.int64(byte) - 48)
            hashed = (hashed ^ np.uint64(byte)) * _FNV_PRIME
            at += 1
        size = at - start
        if digits and 0 < size <= 18 and (size == 1 or blob[start] != 48):
            keys[i] = value
        else:
            keys[i] = _ABOVE_NUMBERS + np.int64(mix64(hashed) & _LOW_62_BITS)
