"""Records of JSON -> rows of columns, in compiled code: the whole of a record that is as records usually are.

Where the records stand and where the columns lie is told by a `Desk`: one array of numbers and pointers, because to
hand twenty arrays to compiled code costs more than to read a record. `read_rows` goes on record by record until one is
not as usual (an escape in a name, a member twice, a number that needs care, anything that might be wrong), which is
then for somebody else to judge, or until there is no room for more features.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.schemas.decimals import read_number
from sluiceway.schemas.feature_key import keys_of_names
from sluiceway.schemas.json_text import (
    CLOSE,
    CLOSE_ARRAY,
    COMMA,
    NULL,
    OPEN,
    OPEN_ARRAY,
    QUOTE,
    end_of_string,
    skip_space,
    skip_value,
    value_after,
)
from sluiceway.schemas.name_hash import TABLE_LONGS, address_of_name
from sluiceway.schemas.swar import (
    first_bytes,
    load_byte,
    load_int,
    load_long,
    load_word,
    pointer_to,
    same,
    store_byte,
    store_int,
    store_long,
    store_word,
)


class Desk(IntEnum):
    """What stands where in the array that compiled code works from; pointers unless said otherwise."""

    TEXT = 0
    """The records, each followed by a byte of 0, eight bytes readable beyond the last."""
    START = 1
    """Where each record begins in the text."""
    SIZE = 2
    # by row
    INDPTR = 3
    Y = 4
    TS = 5
    ID_AT = 6
    ID_SIZE = 7
    LABEL_ONLY = 8
    STREAM_AT = 9
    STREAM_SIZE = 10
    RECORD = 11
    # by feature
    ADDRESS = 12
    KEY = 13
    NAME_AT = 14
    NAME_SIZE = 15
    VALUES = 16
    ROOM = 17
    """A number: of features."""
    # how far the reading is: numbers
    NEXT_RECORD = 18
    NEXT_ROW = 19
    # the rules
    LIMIT = 20
    """A number: of features in a record."""
    BY_MEMBER = 21
    """1: the member `stream` names the stream; 0: it is like any unknown member."""
    LABELS = 22
    """A line of `LABEL_BYTES` for each way a label is spelt, the longest first."""
    LABEL_COUNT = 23
    ARRAY_NAMES = 24
    """The names of an array's places: a line each, as `name_hash` has them."""
    ARRAY_COUNT = 25
    ARRAY_AT = 26
    """A number: where in the text the letters of those names begin."""
    # what helps
    SEEN = 27
    """A table of twice as many words as there is room for features, at least, and a power of two."""
    STAMP = 28
    """A number that marks the words of the table that are of the present record."""
    SECRET_1 = 29
    SECRET_2 = 30
    SCRATCH = 31
    EXPECTED = 32
    """The names of an earlier record's features in their order, which the next record probably has too: a line each, as
    `name_hash` has them, of `MOST_EXPECTED` at most."""
    EXPECTED_LETTERS = 33
    """Of those names, with room for `MOST_LETTERS`."""
    EXPECTED_COUNT = 34
    """A number."""
    STRAYED = 35
    """A number: how often names were other than expected of late."""
    LETTERS = 36
    """A number: how much of the text is used."""
    TEXT_ROOM = 37
    """A number: how much may be."""
    KEEPS_ZEROS = 38
    """1: a zero is not the same as an absent feature."""
    KEEPS_NULLS = 39
    """1: a feature may be null, which is NaN in the columns."""


LABEL_TARGET, LABEL_SIZE, LABEL_AT = 0, 8, 16
LABEL_BYTES = 24
MOST_EXPECTED, MOST_LETTERS = 1 << 12, 1 << 16
DONE, ODD, NO_ROOM = 0, -1, -2

# the same as distances in bytes, which compiled code adds to where the desk stands
(
    _TEXT, _START, _SIZE,
    _INDPTR, _Y, _TS, _ID_AT, _ID_SIZE, _LABEL_ONLY, _STREAM_AT, _STREAM_SIZE, _RECORD,
    _ADDRESS, _KEY, _NAME_AT, _NAME_SIZE, _VALUES, _ROOM,
    _NEXT_RECORD, _NEXT_ROW,
    _LIMIT, _BY_MEMBER, _LABELS, _LABEL_COUNT, _ARRAY_NAMES, _ARRAY_COUNT, _ARRAY_AT,
    _SEEN, _STAMP, _SECRET_1, _SECRET_2, _SCRATCH,
    _EXPECTED, _EXPECTED_LETTERS, _EXPECTED_COUNT, _STRAYED,
    _LETTERS, _TEXT_ROOM, _KEEPS_ZEROS, _KEEPS_NULLS,
) = (8 * place for place in Desk)

_NAME_X, _NAME_Y = ord("x"), ord("y")
_NAME_ID, _NAME_TS = (int.from_bytes(name, "little") for name in (b"id", b"ts"))
_NAME_STREAM = np.uint64(int.from_bytes(b"stream", "little"))
_HAS_X, _HAS_Y, _HAS_ID, _HAS_TS, _HAS_STREAM = 1, 2, 4, 8, 16
_ZERO, _MOST_DIGITS = ord("0"), 18
_LINE_BYTES = 8 * TABLE_LONGS
_LOWER_32_BITS = (1 << 32) - 1
_NO_SIGN = np.uint64(2**63 - 1)
_MOST_LEFT_OUT = 4
"""Expected names that one record leaves out in a row, and is still as expected."""
_SELDOM = 255
NAN = np.uint64(np.float64(np.nan).view(np.uint64))


@kernel
def read_rows(desk: NDArray[np.int64], stop: int) -> int:
    """Read the records before `stop`: DONE; or ODD or NO_ROOM, and the next record is the one of which it is said."""
    at = pointer_to(desk)
    record, row = load_long(at + _NEXT_RECORD), load_long(at + _NEXT_ROW)
    indptr, records = load_long(at + _INDPTR), load_long(at + _RECORD)
    said = DONE
    while record < stop:
        said = _read_record(at, record, row, load_long(indptr + 8 * row))
        if said < 0:
            break
        store_long(indptr + 8 * (row + 1), said)
        store_long(records + 8 * row, record)
        said = DONE
        record += 1
        row += 1
    store_long(at + _NEXT_RECORD, record)
    store_long(at + _NEXT_ROW, row)
    return said


@kernel
def _read_record(desk: int, record: int, row: int, place: int) -> int:
    """Its row, features from `place` on: where they end."""
    text = load_long(desk + _TEXT)
    at = text + load_long(load_long(desk + _START) + 8 * record)
    stop = at + load_long(load_long(desk + _SIZE) + 8 * record)
    id_size, target, has = 0, 0, 0
    store_long(load_long(desk + _TS) + 8 * row, 0)
    store_int(load_long(desk + _STREAM_SIZE) + 4 * row, 0)
    at = skip_space(at)
    if load_byte(at) != OPEN:
        return ODD
    while True:
        at = skip_space(at + 1)
        if load_byte(at) != QUOTE:
            return ODD
        name = at + 1
        at = end_of_string(name, False)
        if at < 0:
            return ODD
        size = at - name
        at = value_after(at)
        if at < 0:
            return ODD
        member = _member(name, size, load_long(desk + _BY_MEMBER))
        if has & member != 0:
            return ODD  # of two the last counts
        has |= member
        if member != 0 and first_bytes(load_word(at), 4) == NULL:
            has &= ~member if member == _HAS_X else -1
            at += 4
        elif member == _HAS_X:
            place = read_features(desk, at, place)
            if place < 0:
                return place
            at = load_long(desk + _SCRATCH)
        elif member == _HAS_Y:
            at = read_label(desk, at)
            target = load_long(desk + _SCRATCH)
        elif member == _HAS_TS:
            end = end_of_digits(at)
            if end > 0:
                store_long(load_long(desk + _TS) + 8 * row, whole_number(at, end))
            at = end
        elif member == _HAS_ID or member == _HAS_STREAM:  # noqa: SIM109  # compiled faster
            begin, end = at, -1
            if load_byte(at) == QUOTE:
                begin = at + 1
                end = end_of_string(begin, False)
                at = end + 1
            elif member == _HAS_ID:
                at = end = end_of_digits(at)
            if end <= begin:
                return ODD
            if member == _HAS_ID:
                id_size = end - begin
                store_long(load_long(desk + _ID_AT) + 8 * row, begin - text)
            else:
                store_long(load_long(desk + _STREAM_AT) + 8 * row, begin - text)
                store_int(load_long(desk + _STREAM_SIZE) + 4 * row, end - begin)
        else:
            at = skip_value(at, desk + _SCRATCH)
        if at < 0:
            return ODD
        at = skip_space(at)
        sign = load_byte(at)
        if sign == CLOSE:
            break
        if sign != COMMA:
            return ODD
    if skip_space(at + 1) != stop:
        return ODD
    label_only = has & _HAS_X == 0
    if label_only and (id_size == 0 or target == 0):
        return ODD
    store_int(load_long(desk + _ID_SIZE) + 4 * row, id_size)
    store_byte(load_long(desk + _Y) + row, target)
    store_byte(load_long(desk + _LABEL_ONLY) + row, label_only)
    return place


@kernel
def _member(name: int, size: int, by_member: int) -> int:
    """Which of those that count; 0: none."""
    letter = load_byte(name)
    if size == 1:
        return _HAS_X if letter == _NAME_X else (_HAS_Y if letter == _NAME_Y else 0)
    if size == 2:
        letters = letter | (load_byte(name + 1) << 8)
        return _HAS_ID if letters == _NAME_ID else (_HAS_TS if letters == _NAME_TS else 0)
    named = by_member != 0 and size == 6 and first_bytes(load_word(name), 6) == _NAME_STREAM
    return _HAS_STREAM if named else 0


@kernel
def end_of_digits(at: int) -> int:
    """Where a whole number ends that is not negative and not too long; -1 if it is none."""
    stop = at
    while np.uint64(load_byte(stop) - _ZERO) <= 9:
        stop += 1
    size = stop - at
    return -1 if size == 0 or size > _MOST_DIGITS or (size > 1 and load_byte(at) == _ZERO) else stop


@kernel
def whole_number(at: int, stop: int) -> int:
    value = 0
    while at < stop:
        value = value * 10 + (load_byte(at) - _ZERO)
        at += 1
    return value


@kernel
def read_label(desk: int, at: int) -> int:
    """Where the label ends, and what it is into the scratch.

    Of a longer number the beginning may be taken for a label; what comes after it then shows that something is wrong.
    """
    line = load_long(desk + _LABELS)
    for _ in range(load_long(desk + _LABEL_COUNT)):
        size: int = load_long(line + LABEL_SIZE)
        if same(at, load_long(line + LABEL_AT), size):
            store_long(desk + _SCRATCH, load_long(line + LABEL_TARGET))
            return at + size
        line += LABEL_BYTES
    return -1


@kernel
def read_features(desk: int, at: int, first: int) -> int:
    """The features of an object or array: where they end in the columns; where it ends itself, into the scratch."""
    text, room = load_long(desk + _TEXT), load_long(desk + _ROOM)
    addresses, keys, values = load_long(desk + _ADDRESS), load_long(desk + _KEY), load_long(desk + _VALUES)
    names, sizes = load_long(desk + _NAME_AT), load_long(desk + _NAME_SIZE)
    secret_1, secret_2 = load_word(desk + _SECRET_1), load_word(desk + _SECRET_2)
    is_array = load_byte(at) == OPEN_ARRAY
    if not is_array and load_byte(at) != OPEN:
        return ODD
    close = CLOSE_ARRAY if is_array else CLOSE
    # lines of names: those of an array, or those that an object probably has
    line, letters = load_long(desk + _ARRAY_NAMES), load_long(desk + _ARRAY_AT)
    beyond = line + _LINE_BYTES * load_long(desk + _ARRAY_COUNT)
    if not is_array:
        line, letters = load_long(desk + _EXPECTED), load_long(desk + _EXPECTED_LETTERS)
        beyond = line + _LINE_BYTES * load_long(desk + _EXPECTED_COUNT)
    place, zeros, expected = first, 0, first
    at = skip_space(at + 1)
    sign = load_byte(at)
    while sign != close:
        if place == room:
            return NO_ROOM
        if is_array:
            if line == beyond:
                return ODD
            store_long(names + 8 * place, letters + load_long(line + 16))
        else:
            if sign != QUOTE:
                return ODD
            name = at + 1
            line = _expected_line(name, line, beyond, letters)
            if line != beyond:
                at = name + load_long(line + 24)
            else:
                at = end_of_string(name, False)
                size = at - name
                if size <= 0:
                    return ODD
                store_word(addresses + 8 * place, address_of_name(name, size, secret_1, secret_2))
                store_int(sizes + 4 * place, size)
            store_long(names + 8 * place, name - text)
            at = value_after(at)
            if at < 0:
                return ODD
        if line != beyond:
            store_long(addresses + 8 * place, load_long(line))
            store_long(keys + 8 * place, load_long(line + 8))
            store_int(sizes + 4 * place, load_long(line + 24))
            line += _LINE_BYTES
            expected += 1
        end = read_number(at, values + 8 * place)
        if end < 0:
            if load_long(desk + _KEEPS_NULLS) == 0 or first_bytes(load_word(at), 4) != NULL:
                return ODD
            store_word(values + 8 * place, NAN)
            end = at + 4
        at = end
        zeros += load_word(values + 8 * place) & _NO_SIGN == 0
        place += 1
        at = skip_space(at)
        sign = load_byte(at)
        if sign == COMMA:
            at = skip_space(at + 1)
            sign = load_byte(at)
            if sign == close:
                return ODD
        elif sign != close:
            return ODD
    count = place - first
    if count > load_long(desk + _LIMIT):
        return ODD
    if expected == place:
        store_long(desk + _STRAYED, load_long(desk + _STRAYED) >> 1)
    else:  # expected names differ from each other, and their keys are known
        if not all_differ(desk, addresses + 8 * first, count):
            return ODD
        keys_of_names(text, names + 8 * expected, sizes + 4 * expected, keys + 8 * expected, place - expected)
        _expect(desk, first, count)
    if zeros != 0 and load_long(desk + _KEEPS_ZEROS) == 0:
        place = without_zeros(desk, first, place)
    store_long(desk + _SCRATCH, at + 1)
    return place


@kernel
def _expected_line(name: int, line: int, beyond: int, letters: int) -> int:
    """The line of the name that begins there: one of the next few, since features may be left out; `beyond` if none.

    Once a name was not expected, no name of its record is.
    """
    last = min(beyond, line + _LINE_BYTES * _MOST_LEFT_OUT)
    while line < last:
        size = load_long(line + 24)
        # in this order: what is the same is text, so that what follows it can be read
        if same(name, letters + load_long(line + 16), size) and load_byte(name + size) == QUOTE:
            return line
        line += _LINE_BYTES
    return beyond


@kernel
def _expect(desk: int, first: int, count: int) -> None:
    """The names of these features, all of a record, become those that are expected.

    If that does not help, it is done for the 1st, 2nd, 4th, 8th, ... record with other names alone.
    """
    strayed = load_long(desk + _STRAYED) + 1
    store_long(desk + _STRAYED, strayed)
    if strayed & (strayed - 1) != 0 and strayed & _SELDOM != 0:
        return
    text, addresses, keys = load_long(desk + _TEXT), load_long(desk + _ADDRESS), load_long(desk + _KEY)
    names, sizes = load_long(desk + _NAME_AT), load_long(desk + _NAME_SIZE)
    line, letters, used = load_long(desk + _EXPECTED), load_long(desk + _EXPECTED_LETTERS), 0
    count = min(count, MOST_EXPECTED)
    for i in range(first, first + count):
        name, size = text + load_long(names + 8 * i), load_int(sizes + 4 * i)
        if used + size > MOST_LETTERS:
            count = i - first
            break
        store_long(line, load_long(addresses + 8 * i))
        store_long(line + 8, load_long(keys + 8 * i))
        store_long(line + 16, used)
        store_long(line + 24, size)
        for letter in range(0, size, 8):
            store_word(letters + used + letter, load_word(name + letter))
        used += size
        line += _LINE_BYTES
    store_long(desk + _EXPECTED_COUNT, count)


@kernel
def all_differ(desk: int, addresses: int, count: int) -> bool:
    """Whether no address stands there twice: of a name that does, or of two names, which is for others to tell."""
    seen, stamp = load_long(desk + _SEEN), load_long(desk + _STAMP) + 1
    store_long(desk + _STAMP, stamp)
    size = 4
    while size < 2 * count:
        size *= 2
    mask, mark = np.uint64(size - 1), stamp << 32
    for i in range(count):
        address = load_word(addresses + 8 * i)
        slot = address & mask
        found = load_long(seen + 8 * int(slot))
        while found >= mark:
            if load_word(addresses + 8 * (found & _LOWER_32_BITS)) == address:
                return False
            slot = (slot + np.uint64(1)) & mask
            found = load_long(seen + 8 * int(slot))
        store_long(seen + 8 * int(slot), mark | i)
    return True


@kernel
def without_zeros(desk: int, first: int, stop: int) -> int:
    """Zeros taken out of the features of a row: where they end."""
    addresses, values = load_long(desk + _ADDRESS), load_long(desk + _VALUES)
    names, sizes, keys = load_long(desk + _NAME_AT), load_long(desk + _NAME_SIZE), load_long(desk + _KEY)
    filled = first
    for i in range(first, stop):
        bits = load_word(values + 8 * i)
        store_word(values + 8 * filled, bits)
        store_word(addresses + 8 * filled, load_word(addresses + 8 * i))
        store_long(names + 8 * filled, load_long(names + 8 * i))
        store_int(sizes + 4 * filled, load_int(sizes + 4 * i))
        store_long(keys + 8 * filled, load_long(keys + 8 * i))
        filled += bits & _NO_SIGN != 0
    return filled
