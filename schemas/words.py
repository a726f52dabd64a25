"""Text eight bytes at a time: what compiled code needs for that and Numba does not have.

A word has the byte at the lowest address in its lowest bits, as on every machine that Numba compiles for. Whoever loads
words keeps eight bytes readable beyond the end of the text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel

READABLE_BEYOND = bytes(8)

_WORD, _DOUBLE_WORD = ir.IntType(64), ir.IntType(128)
_LOWEST, _HIGHEST = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_UPPER_HALVES = np.uint64(0xF0F0F0F0F0F0F0F0)
_SIXES, _THREES = np.uint64(0x0606060606060606), np.uint64(0x3030303030303030)


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def load_word(_: Any, text: Any, at: Any) -> Any:
    """The eight bytes of the text from `at` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), _WORD.as_pointer())
        return builder.load(place, align=1)

    return types.uint64(text, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def high_product(_: Any, one: Any, other: Any) -> Any:
    """The upper word of a product of two words."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other = (builder.zext(argument, _DOUBLE_WORD) for argument in arguments)
        return builder.trunc(builder.lshr(builder.mul(one, other), ir.Constant(_DOUBLE_WORD, 64)), _WORD)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def leading_zeros(_: Any, word: Any) -> Any:
    """Of a word that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], cgutils.true_bit)

    return types.int64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def trailing_zeros(_: Any, word: Any) -> Any:
    """Of a word that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.int64(types.uint64), generate


@kernel
def digits_in(word: np.uint64) -> int:
    """With how many decimal digits it begins."""
    # 0x30 to 0x39: the upper half of the byte is 3, and still is after adding 6
    other = ((word & _UPPER_HALVES) ^ _THREES) | (((word + _SIXES) & _UPPER_HALVES) ^ _THREES)
    return 8 if other == 0 else trailing_zeros(other) >> 3


@kernel
def number_of(word: np.uint64) -> np.uint64:
    """The number that eight digits spell: pairs first, then fours, then all."""
    word = ((word & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(10 * 2**8 + 1)) >> np.uint64(8)
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(100 * 2**16 + 1)) >> np.uint64(16)
    return ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(10_000 * 2**32 + 1)) >> np.uint64(32)


@kernel
def below(word: np.uint64, bound: np.uint64) -> np.uint64:
    """Not 0 if a byte is below the bound, at most 128; the lowest bit that is set is that of the first such byte."""
    return (word - _LOWEST * bound) & ~word & _HIGHEST


@kernel
def equal(word: np.uint64, byte: np.uint64) -> np.uint64:
    """Not 0 if a byte is this one; the lowest bit that is set is that of the first such byte."""
    return below(word ^ (_LOWEST * byte), np.uint64(1))


@inlined
def same(text: NDArray[np.uint8], at: int, other: NDArray[np.uint8], other_at: int, length: int) -> bool:
    """Whether so many bytes are the same in both."""
    whole = length & ~7
    for i in range(0, whole, 8):
        if load_word(text, at + i) != load_word(other, other_at + i):
            return False
    if whole == length:
        return True
    differing = load_word(text, at + whole) ^ load_word(other, other_at + whole)
    return bool(differing << np.uint64(8 * (8 - (length - whole))) == 0)
