"""Decimal numbers as text -> float64, correctly rounded, in compiled code.

Lemire: "Number Parsing at a Gigabyte per Second", Software: Practice and Experience 51, 2021. A number is mantissa *
10**exponent. 5**exponent is known to 128 bits, and its product with the mantissa has enough bits to round, but for rare
cases. Those, numbers of more than 19 digits and results that are not normal floats are not told here: a slower reader
may.
"""

from __future__ import annotations

import numpy as np

from sluiceway.compiling import kernel
from sluiceway.schemas.swar import (
    digits_in,
    high_product,
    leading_zeros,
    load_byte,
    load_word,
    number_of,
    store_word,
)

_SMALLEST, _LARGEST = -342, 308
"""Of the exponents that 19 digits can bring into the range of floats."""


def _power_of_five(exponent: int) -> int:
    """The first 128 bits of 5**exponent, rounded up where 5**-exponent has fewer."""
    if exponent >= 0:
        power: int = 5**exponent
        surplus = power.bit_length() - 128
        return power >> surplus if surplus > 0 else power << -surplus
    power = 5**-exponent
    shift = power.bit_length() + (127 if exponent >= -27 else 256)
    fraction: int = (1 << shift) // power + 1
    return fraction >> (fraction.bit_length() - 128)


_POWERS = [_power_of_five(exponent) for exponent in range(_SMALLEST, _LARGEST + 1)]
_HIGH = np.array([power >> 64 for power in _POWERS], dtype=np.uint64)
_LOW = np.array([power & (2**64 - 1) for power in _POWERS], dtype=np.uint64)
_POWERS_OF_TEN = np.array([10**digits for digits in range(9)], dtype=np.uint64)

_ONE = np.uint64(1)
_TWO_TO_53 = np.uint64(2**53)
_HIDDEN = np.uint64(2**52)
_UNDECIDED = np.uint64(0x1FF)
"""If all bits below those that matter are set, the lower half of the power may carry into them."""
_ALL = np.uint64(2**64 - 1)

_TEN = np.uint64(10)
_POINT, _PLUS, _MINUS, _ZERO, _LOWER_E = (ord(sign) for sign in ".+-0e")
_LOWER_CASE = 32
_LARGEST_POWER = 9999
"""Written out; some of it may only undo as many zeros after the point."""


@kernel
def read_number(at: int, into: int) -> int:
    """The JSON number that begins there, as the bits of a float, into that place; where it ends, -1 if not told here.

    What follows the number must be readable for eight bytes and end it: any byte that is no part of a number does.
    """
    negative = load_byte(at) == _MINUS
    at += negative
    first, mantissa = at, np.uint64(0)
    while np.uint64(load_byte(at) - _ZERO) <= 9:
        mantissa = mantissa * _TEN + np.uint64(load_byte(at) - _ZERO)
        at += 1
    digits = at - first
    if digits == 0 or (digits > 1 and load_byte(first) == _ZERO):
        return -1

    exponent = 0
    if load_byte(at) == _POINT:
        at += 1
        point, more = at, 8
        while more == 8:
            word = load_word(at)
            more = digits_in(word)
            if more < 8:  # then the last of eight; by two shifts, since one by all 64 bits is undefined
                word = (word << np.uint64(8 * (7 - more))) << np.uint64(8)
            mantissa = mantissa * _POWERS_OF_TEN[more] + number_of(word)
            at += more
        if at == point:
            return -1
        exponent = point - at
        digits += at - point
    if digits > 19:
        leading = first
        while leading < at and (load_byte(leading) == _ZERO or load_byte(leading) == _POINT):
            digits -= load_byte(leading) == _ZERO
            leading += 1
        if digits > 19:
            return -1
    if load_byte(at) | _LOWER_CASE == _LOWER_E:
        at += 1
        divides = load_byte(at) == _MINUS
        at += divides or load_byte(at) == _PLUS
        first, power = at, 0
        while np.uint64(load_byte(at) - _ZERO) <= 9:
            power = power * 10 + load_byte(at) - _ZERO
            if power > _LARGEST_POWER:
                return -1
            at += 1
        if at == first:
            return -1
        exponent += -power if divides else power

    rounded = np.uint64(0)
    if mantissa != 0:
        if exponent < _SMALLEST or exponent > _LARGEST:
            return -1
        rounded = _round(mantissa, exponent)
        if rounded == 0:
            return -1
    store_word(into, rounded | (np.uint64(negative) << np.uint64(63)))
    return at


@kernel
def _round(mantissa: np.uint64, exponent: int) -> np.uint64:
    """The bits of the nearest float, ties to even; 0 if it is not normal or cannot be told."""
    zeros = leading_zeros(mantissa)
    mantissa <<= np.uint64(zeros)
    power_of_five = exponent - _SMALLEST
    high, low = high_product(mantissa, _HIGH[power_of_five]), mantissa * _HIGH[power_of_five]
    if high & _UNDECIDED == _UNDECIDED:
        carried = high_product(mantissa, _LOW[power_of_five])
        low += carried
        high += np.uint64(low < carried)
        if low == _ALL:
            return np.uint64(0)
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    rounding = high >> shift
    if low <= 1 and -4 <= exponent <= 23 and rounding & np.uint64(3) == 1 and rounding << shift == high:
        rounding &= ~_ONE  # exactly between two floats, and the lower one is even
    rounding = (rounding + (rounding & _ONE)) >> _ONE
    power = ((217706 * exponent) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if rounding >= _TWO_TO_53:
        rounding = _HIDDEN
        power += 1
    if power <= 0 or power >= 2047:
        return np.uint64(0)
    return np.uint64((rounding & ~_HIDDEN) | (np.uint64(power) << np.uint64(52)))
