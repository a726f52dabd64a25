"""The parts of a JSON text, as compiled code walks over them: space, strings, whole values.

A text is bytes that somebody else wrote and that may be anything. It ends in a byte of 0, which JSON allows nowhere, so
that no step has to ask whether there is more to read. Whatever is not understood here is -1: a parser may still accept
it. What is understood is JSON as orjson judges it, letters in UTF-8 included.
"""

from __future__ import annotations

import numpy as np

from sluiceway.compiling import kernel
from sluiceway.schemas.decimals import read_number
from sluiceway.schemas.swar import first_bytes, load_byte, load_word, trailing_zeros, untold

QUOTE, ESCAPE, COLON, COMMA = (ord(sign) for sign in '"\\:,')
OPEN, CLOSE, OPEN_ARRAY, CLOSE_ARRAY = (ord(sign) for sign in "{}[]")
NULL, TRUE, FALSE = (np.uint64(int.from_bytes(word, "little")) for word in (b"null", b"true", b"false"))
_FIRST_PRINTED, _FIRST_BEYOND_ASCII = 32, 128
_SLASH, _B, _F, _N, _R, _T = (ord(sign) for sign in "/bfnrt")
_MOST_NESTED = 60
"""A bit for each level has to fit into a word."""


@kernel
def skip_space(at: int) -> int:
    while True:
        sign = load_byte(at)
        if sign > 32 or not (sign == 32 or sign == 10 or sign == 13 or sign == 9):
            return at
        at += 1


@kernel
def end_of_string(at: int, escapes: bool) -> int:
    """From after the opening quote to the closing one. Of escapes, if they may be at all, those of one letter."""
    found = untold(load_word(at))
    while found == 0:
        at += 8
        found = untold(load_word(at))
    at += trailing_zeros(found) >> 3
    return at if load_byte(at) == QUOTE else _end_of_unusual_string(at, escapes)


@kernel
def _end_of_unusual_string(at: int, escapes: bool) -> int:
    while True:
        sign = load_byte(at)
        if sign == QUOTE:
            return at
        if sign < _FIRST_PRINTED:
            return -1
        if sign == ESCAPE:
            letter = load_byte(at + 1)
            if not escapes or not _may_be_escaped(letter):
                return -1
            at += 2
        elif sign < _FIRST_BEYOND_ASCII:
            at += 1
        else:
            size = _letter_size(at)
            if size == 0:
                return -1
            at += size


@kernel
def _may_be_escaped(letter: int) -> bool:
    if letter == QUOTE or letter == ESCAPE or letter == _SLASH:  # noqa: SIM109  # compiled faster
        return True
    return letter == _B or letter == _F or letter == _N or letter == _R or letter == _T  # the same


@kernel
def _letter_size(at: int) -> int:
    """Of how many bytes the letter beyond ASCII is; 0 if not UTF-8: cut short, too long, a surrogate, too high."""
    first, second = load_byte(at), load_byte(at + 1)
    if not 0xC2 <= first <= 0xF4:
        return 0
    low = 0xA0 if first == 0xE0 else (0x90 if first == 0xF0 else 0x80)
    high = 0x9F if first == 0xED else (0x8F if first == 0xF4 else 0xBF)
    if not low <= second <= high:
        return 0
    size = 2 if first < 0xE0 else (3 if first < 0xF0 else 4)
    for i in range(2, size):
        if load_byte(at + i) & 0xC0 != 0x80:
            return 0
    return size


@kernel
def _skip_scalar(at: int, scratch: int) -> int:
    sign = load_byte(at)
    if sign == QUOTE:
        end = end_of_string(at + 1, True)
        return -1 if end < 0 else end + 1
    if sign == _T:
        return at + 4 if first_bytes(load_word(at), 4) == TRUE else -1
    if sign == _F:
        return at + 5 if first_bytes(load_word(at), 5) == FALSE else -1
    if sign == _N:
        return at + 4 if first_bytes(load_word(at), 4) == NULL else -1
    return read_number(at, scratch)


@kernel
def value_after(end_of_name: int) -> int:
    """From the quote that ends a member's name to its value."""
    at = skip_space(end_of_name + 1)
    return skip_space(at + 1) if load_byte(at) == COLON else -1


@kernel
def _skip_name(at: int) -> int:
    """From the quote that opens a member's name to its value."""
    if load_byte(at) != QUOTE:
        return -1
    at = end_of_string(at + 1, True)
    return -1 if at < 0 else value_after(at)


@kernel
def skip_value(at: int, scratch: int) -> int:
    """From where a value begins to where it ends; numbers are read into `scratch`, since some only seem to be some."""
    depth, objects = 0, np.uint64(0)  # a bit a level, the innermost lowest: whether it is an object
    while True:
        sign = load_byte(at)
        if sign == OPEN or sign == OPEN_ARRAY:  # noqa: SIM109  # compiled faster
            at = skip_space(at + 1)
            if load_byte(at) != (CLOSE if sign == OPEN else CLOSE_ARRAY):
                depth += 1
                objects = (objects << np.uint64(1)) | np.uint64(sign == OPEN)
                if sign == OPEN:
                    at = _skip_name(at)
                if at < 0 or depth > _MOST_NESTED:
                    return -1
                continue
            at += 1
        else:
            at = _skip_scalar(at, scratch)
            if at < 0:
                return -1
        while depth > 0:
            at = skip_space(at)
            sign = load_byte(at)
            inside_object = objects & np.uint64(1) != 0
            if sign == COMMA:
                break
            if sign != (CLOSE if inside_object else CLOSE_ARRAY):
                return -1
            at += 1
            depth -= 1
            objects >>= np.uint64(1)
        if depth == 0:
            return at
        at = skip_space(at + 1)
        if objects & np.uint64(1) != 0:
            at = _skip_name(at)
            if at < 0:
                return -1
