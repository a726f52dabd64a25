"""Text eight bytes at a time (SWAR: a word as a register of bytes): what compiled code needs and Numba does not have.

Text is addressed by plain pointers: functions that take numbers alone compile quickly and are cheap to call, where
every array handed over is seven arguments. Whoever calls keeps the array alive and eight bytes readable beyond the end
of the text. A word has the byte at the lowest address in its lowest bits, as on every machine that Numba compiles for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sluiceway.compiling import kernel

READABLE_BEYOND = bytes(8)

_BYTE, _INT, _WORD, _DOUBLE_WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.IntType(128)
_LOWEST, _HIGHEST = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_UPPER_HALVES = np.uint64(0xF0F0F0F0F0F0F0F0)
_SIXES, _THREES = np.uint64(0x0606060606060606), np.uint64(0x3030303030303030)
_ALL = np.uint64(2**64 - 1)


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def pointer_to(_: Any, array: Any) -> Any:
    """Where the first element of an array stands in memory."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(held.data, _WORD)

    return types.int64(array), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def load_byte(_: Any, at: Any) -> Any:
    """The byte there, as a number that can be calculated with."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(builder.inttoptr(arguments[0], _BYTE.as_pointer())), _WORD)

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def load_word(_: Any, at: Any) -> Any:
    """The eight bytes from there on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()), align=1)

    return types.uint64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def store_word(_: Any, at: Any, word: Any) -> Any:
    """Write eight bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _WORD.as_pointer()), align=1)

    return types.void(types.int64, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def load_long(_: Any, at: Any) -> Any:
    """The eight bytes from there on, as a number that can be calculated with."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()), align=1)

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def load_int(_: Any, at: Any) -> Any:
    """The four bytes from there on, a number that is not negative."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(builder.inttoptr(arguments[0], _INT.as_pointer()), align=1), _WORD)

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def store_long(_: Any, at: Any, number: Any) -> Any:
    """Write a number of eight bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _WORD.as_pointer()), align=1)

    return types.void(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def store_int(_: Any, at: Any, number: Any) -> Any:
    """Write a number of four bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(builder.trunc(arguments[1], _INT), builder.inttoptr(arguments[0], _INT.as_pointer()), align=1)

    return types.void(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def store_byte(_: Any, at: Any, number: Any) -> Any:
    """Write a number of one byte."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(builder.trunc(arguments[1], _BYTE), builder.inttoptr(arguments[0], _BYTE.as_pointer()))

    return types.void(types.int64, types.int64), generate


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


@kernel
def untold(word: np.uint64) -> np.uint64:
    """Not 0 if a byte of a JSON string is more than a letter of ASCII: a quote, an escape, a control character, or a
    part of a longer letter; the lowest bit that is set is that of the first such byte."""
    quote, escape = word ^ (_LOWEST * np.uint64(34)), word ^ (_LOWEST * np.uint64(92))
    found = ((quote - _LOWEST) & ~quote) | ((escape - _LOWEST) & ~escape) | (word - _LOWEST * np.uint64(32)) | word
    return found & _HIGHEST


@kernel
def first_bytes(word: np.uint64, count: int) -> np.uint64:
    """The word with all but its first 1 to 8 bytes set to 0."""
    return word & (_ALL >> np.uint64(64 - 8 * count))


@kernel
def same(at: int, other: int, size: int) -> bool:
    """Whether the bytes are the same in both places."""
    stop = at + size - 8
    while at <= stop:
        if load_word(at) != load_word(other):
            return False
        at += 8
        other += 8
    left = stop + 8 - at
    return left == 0 or first_bytes(load_word(at) ^ load_word(other), left) == 0
