"""The parts of a JSON text, as compiled code writes them: letters, whole numbers, and what was written elsewhere.

Places are plain pointers. Eight bytes are copied at a time, so what is copied must be readable for eight bytes beyond
its end, and where it is copied to must have as much room to spare.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import as_argument, kernel
from sluiceway.schemas.swar import (
    READABLE_BEYOND,
    equal,
    load_byte,
    load_long,
    load_word,
    store_byte,
    store_word,
    trailing_zeros,
    untold,
)

MOST_DIGITS = 20
_QUOTE, _ESCAPE, _FIRST_PRINTED, _ZERO = ord('"'), ord("\\"), 32, ord("0")
_COMMA, _TEN = np.uint64(ord(",")), np.uint64(10)


def octets(text: bytes) -> NDArray[np.uint8]:
    """A text that can be copied from."""
    return as_argument(np.frombuffer(text + READABLE_BEYOND, dtype=np.uint8))


def phrases(texts: Sequence[bytes]) -> NDArray[np.uint8]:
    """Texts that `put_phrase` knows by their number: where each begins, and where the last ends, then all of them."""
    ends = np.cumsum([8 * (len(texts) + 1), *map(len, texts)], dtype=np.int64)
    return octets(ends.tobytes() + b"".join(texts))


@kernel
def put(to: int, at: int, size: int) -> int:
    """Copy; where it ends."""
    for done in range(0, size, 8):
        store_word(to + done, load_word(at + done))
    return to + size


@kernel
def put_phrase(to: int, of: int, which: int) -> int:
    begin, end = load_long(of + 8 * which), load_long(of + 8 * which + 8)
    return put(to, of + begin, end - begin)


@kernel
def is_plain(at: int, size: int) -> bool:
    """Whether that can stand between quotes as it is: no letter in it must be escaped."""
    for done in range(0, size, 8):
        if untold(load_word(at + done)) != 0 and not _are_plain(at + done, min(size - done, 8)):
            return False
    return True


@kernel
def _are_plain(at: int, count: int) -> bool:
    for i in range(count):
        letter = load_byte(at + i)
        if letter < _FIRST_PRINTED or letter == _QUOTE or letter == _ESCAPE:  # noqa: SIM109  # compiled faster
            return False
    return True


@kernel
def put_number(to: int, number: int) -> int:
    """A whole number that is not negative."""
    left, digits, bound = np.uint64(number), 1, _TEN
    while left >= bound and digits < MOST_DIGITS - 1:
        bound *= _TEN
        digits += 1
    for i in range(digits):
        tens = left // _TEN
        store_byte(to + digits - 1 - i, _ZERO + np.int64(left - tens * _TEN))
        left = tens
    return to + digits


@kernel
def next_comma(at: int) -> int:
    """Where it stands: there is one."""
    found = equal(load_word(at), _COMMA)
    while found == 0:
        at += 8
        found = equal(load_word(at), _COMMA)
    place: int = at + (trailing_zeros(found) >> 3)
    return place
