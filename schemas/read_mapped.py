"""Records of another shape -> rows of columns, in compiled code: one walk through the record, by a plan of its members.

What is as usual is done here, as `read_rows` does it for records that need no map; anything odd is for the rules in
Python (`sluiceway.schemas.mapped_judge`), and both say the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.schemas.decimals import read_number
from sluiceway.schemas.json_text import (
    CLOSE,
    CLOSE_ARRAY,
    COMMA,
    FALSE,
    NULL,
    OPEN,
    OPEN_ARRAY,
    QUOTE,
    TRUE,
    end_of_string,
    skip_space,
    skip_value,
    value_after,
)
from sluiceway.schemas.member_table import (
    ADDRESS,
    FEATURES,
    FLAGS,
    FULL_AT,
    FULL_SIZE,
    IGNORE,
    IN_RECORD,
    INCLUDED,
    INSIDE,
    KEY,
    LEADING,
    LEVEL,
    MOST_LEVELS,
    ONE_HOT,
    ROLE,
    Plan,
    begin_record,
    line_of_member,
    write_place,
)
from sluiceway.schemas.read_rows import (
    DONE,
    NAN,
    NO_ROOM,
    ODD,
    Desk,
    all_differ,
    end_of_digits,
    read_features,
    read_label,
    whole_number,
    without_zeros,
)
from sluiceway.schemas.swar import (
    first_bytes,
    load_byte,
    load_int,
    load_long,
    load_word,
    pointer_to,
    store_byte,
    store_int,
    store_long,
    store_word,
)
from sluiceway.schemas.times import read_iso_time

_TEXT, _START, _SIZE = 8 * Desk.TEXT, 8 * Desk.START, 8 * Desk.SIZE
_INDPTR, _Y, _TS, _RECORD = 8 * Desk.INDPTR, 8 * Desk.Y, 8 * Desk.TS, 8 * Desk.RECORD
_ID_AT, _ID_SIZE, _LABEL_ONLY = 8 * Desk.ID_AT, 8 * Desk.ID_SIZE, 8 * Desk.LABEL_ONLY
_STREAM_AT, _STREAM_SIZE = 8 * Desk.STREAM_AT, 8 * Desk.STREAM_SIZE
_ADDRESS, _KEY, _NAME_AT, _NAME_SIZE = 8 * Desk.ADDRESS, 8 * Desk.KEY, 8 * Desk.NAME_AT, 8 * Desk.NAME_SIZE
_VALUES, _ROOM, _LIMIT, _LETTERS = 8 * Desk.VALUES, 8 * Desk.ROOM, 8 * Desk.LIMIT, 8 * Desk.LETTERS
_KEEPS_ZEROS, _KEEPS_NULLS = 8 * Desk.KEEPS_ZEROS, 8 * Desk.KEEPS_NULLS
_NEXT_RECORD, _NEXT_ROW, _SCRATCH = 8 * Desk.NEXT_RECORD, 8 * Desk.NEXT_ROW, 8 * Desk.SCRATCH
_ROOT, _SKIP, _TEXTS, _TIMES, _BY = 8 * Plan.ROOT, 8 * Plan.SKIP, 8 * Plan.TEXTS, 8 * Plan.TIMES, 8 * Plan.BY
_LEVELS, _ARRAYS = 8 * Plan.LEVELS, 8 * Plan.ARRAYS

_LABEL, _ID, _TIME, _STREAM = 1, 2, 3, 4
_N, _T, _F = (ord(sign) for sign in "ntf")
_ONE = np.uint64(np.float64(1).view(np.uint64))
_ZERO = np.uint64(0)
_NO_SIGN = np.uint64(2**63 - 1)
_MOST_TIME = 9_000_000_000_000_000
"""Whole numbers up to it may be multiplied by a thousand."""


@kernel
def read_mapped(desk: NDArray[np.int64], plan: NDArray[np.int64], stop: int) -> int:
    """Read the records before `stop` as `read_rows` does; it may also say NO_TEXT or NO_LINES."""
    at, by = pointer_to(desk), pointer_to(plan)
    record, row = load_long(at + _NEXT_RECORD), load_long(at + _NEXT_ROW)
    indptr, records = load_long(at + _INDPTR), load_long(at + _RECORD)
    said = DONE
    while record < stop:
        said = _read_record(at, by, record, row, load_long(indptr + 8 * row))
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
def _read_record(desk: int, plan: int, record: int, row: int, first: int) -> int:
    """Its row, features from `first` on: where they end."""
    text, room, levels = load_long(desk + _TEXT), load_long(desk + _ROOM), load_long(plan + _LEVELS)
    at = text + load_long(load_long(desk + _START) + 8 * record)
    stop = at + load_long(load_long(desk + _SIZE) + 8 * record)
    number = begin_record(plan)
    above, skip, texts = load_long(plan + _ROOT), load_long(plan + _SKIP), load_long(plan + _TEXTS)
    place, has, there, may_clash, zeros = first, 0, False, False, 0
    depth, in_array, index = 0, 0, 0
    store_long(desk + _SCRATCH, 0)
    store_byte(load_long(desk + _Y) + row, 0)
    store_long(load_long(desk + _TS) + 8 * row, 0)
    store_int(load_long(desk + _ID_SIZE) + 4 * row, 0)
    store_int(load_long(desk + _STREAM_SIZE) + 4 * row, 0)
    at = skip_space(at)
    if load_byte(at) != OPEN:
        return ODD
    at = skip_space(at + 1)
    while True:
        if in_array != 0:
            size = write_place(desk, above, index)
            if size < 0:
                return size
            name = text + load_long(desk + _LETTERS) + load_int(above + FULL_SIZE) + 1
        else:
            name = at + 1
            if load_byte(at) != QUOTE:
                return ODD
            at = end_of_string(name, False)
            size = at - name
            if size <= 0:
                return ODD
            at = value_after(at)
            if at < 0:
                return ODD
        line = line_of_member(desk, plan, above, name, size, False)
        if line < 0:
            return line
        flags, sign = load_int(line + FLAGS), load_byte(at)
        if flags != 0:
            if load_long(line + IN_RECORD) == number:
                return ODD  # of two the last counts
            store_long(line + IN_RECORD, number)
        if flags & (INSIDE | LEADING) != 0 and (sign == OPEN or sign == OPEN_ARRAY):  # noqa: SIM109  # compiled faster
            is_root = flags & FEATURES != 0
            there = there or is_root
            if is_root and sign == OPEN_ARRAY:
                if load_long(plan + _ARRAYS) == 0:
                    return ODD
                place = read_features(desk, at, place)
                if place < 0:
                    return place
                at = load_long(desk + _SCRATCH)
            else:
                inner = skip_space(at + 1)
                if load_byte(inner) == (CLOSE if sign == OPEN else CLOSE_ARRAY):
                    at = inner + 1
                else:
                    if depth == MOST_LEVELS:
                        return ODD
                    level = levels + LEVEL * depth
                    store_long(level, above)
                    store_long(level + 8, index)
                    store_long(level + 16, in_array)
                    depth += 1
                    may_clash = may_clash or not is_root
                    above, index, in_array = line, 0, int(sign == OPEN_ARRAY)
                    at = inner
                    continue
        elif flags & ROLE != 0:
            role = flags & ROLE
            if has & (1 << role) != 0:
                return ODD
            has |= 1 << role
            at = _read_role(desk, plan, row, role, at)
        elif flags & FEATURES != 0:
            if first_bytes(load_word(at), 4) != NULL:
                return ODD
            at += 4
        elif flags & INCLUDED != 0:
            values = load_long(desk + _VALUES)
            if place == room:
                return NO_ROOM
            of = line
            is_one = True
            if sign == QUOTE:
                name = at + 1
                at = end_of_string(name, texts != ONE_HOT)
                if at < 0:
                    return ODD
                is_one = texts == ONE_HOT
                if texts == ONE_HOT:
                    size = at - name
                    if size == 0:
                        return ODD
                    of = line_of_member(desk, plan, line, name, size, True)
                    if of < 0:
                        return of
                    may_clash = True
                    store_word(values + 8 * place, _ONE)
                elif texts != IGNORE:
                    return ODD
                at += 1
            elif sign == _N or sign == _T:  # noqa: SIM109  # compiled faster
                word = first_bytes(load_word(at), 4)
                if word != NULL and word != TRUE:
                    return ODD
                is_one = word == TRUE or load_long(desk + _KEEPS_NULLS) != 0
                store_word(values + 8 * place, _ONE if word == TRUE else NAN)
                at += 4
            elif sign == _F:
                if first_bytes(load_word(at), 5) != FALSE:
                    return ODD
                store_word(values + 8 * place, _ZERO)
                zeros += 1
                at += 5
            else:
                at = read_number(at, values + 8 * place)
                if at < 0:
                    return ODD
                zeros += load_word(values + 8 * place) & _NO_SIGN == _ZERO
            if is_one:
                store_word(load_long(desk + _ADDRESS) + 8 * place, load_word(of + ADDRESS))
                store_long(load_long(desk + _KEY) + 8 * place, load_long(of + KEY))
                store_long(load_long(desk + _NAME_AT) + 8 * place, load_long(of + FULL_AT) + skip)
                store_int(load_long(desk + _NAME_SIZE) + 4 * place, load_int(of + FULL_SIZE) - skip)
                place += 1
        else:
            at = skip_value(at, desk + _SCRATCH)
        if at < 0:
            return ODD
        at = skip_space(at)
        sign = load_byte(at)
        while depth > 0 and sign == (CLOSE_ARRAY if in_array != 0 else CLOSE):
            depth -= 1
            level = levels + LEVEL * depth
            above, index, in_array = load_long(level), load_long(level + 8), load_long(level + 16)
            at = skip_space(at + 1)
            sign = load_byte(at)
        if sign == COMMA:
            at = skip_space(at + 1)
            index += 1
            continue
        if depth > 0 or sign != CLOSE:
            return ODD
        break
    if skip_space(at + 1) != stop:
        return ODD
    count = place - first
    if skip == 0:
        there = count > 0
    labelled = load_byte(load_long(desk + _Y) + row) != 0
    if not there and (load_int(load_long(desk + _ID_SIZE) + 4 * row) == 0 or not labelled):
        return ODD
    store_byte(load_long(desk + _LABEL_ONLY) + row, 0 if there else 1)
    if count > load_long(desk + _LIMIT):
        return ODD
    if may_clash and not all_differ(desk, load_long(desk + _ADDRESS) + 8 * first, count):
        return ODD
    if zeros != 0 and load_long(desk + _KEEPS_ZEROS) == 0:
        place = without_zeros(desk, first, place)
    return place


@kernel
def _read_role(desk: int, plan: int, row: int, role: int, at: int) -> int:
    """The label, the id, the time or the stream: where it ends, -1 if it is not as usual."""
    text = load_long(desk + _TEXT)
    if role == _LABEL:
        at = read_label(desk, at)
        store_byte(load_long(desk + _Y) + row, load_long(desk + _SCRATCH))
        return at
    if first_bytes(load_word(at), 4) == NULL:
        return at + 4
    is_text = load_byte(at) == QUOTE
    if role == _TIME:
        if is_text:
            time = read_iso_time(at + 1, desk + _SCRATCH)
            if time < 0:
                return -1
            store_long(load_long(desk + _TS) + 8 * row, time)
            end: int = load_long(desk + _SCRATCH) + 1
            return end
        end = end_of_digits(at)
        time = whole_number(at, end)
        if end < 0 or time > _MOST_TIME:
            return -1
        store_long(load_long(desk + _TS) + 8 * row, time * load_long(plan + _TIMES) // load_long(plan + _BY))
        return end
    begin = at + 1 if is_text else at
    end = end_of_string(begin, False) if is_text else end_of_digits(begin)
    if end <= begin:
        return -1
    size_at = _ID_SIZE if role == _ID else _STREAM_SIZE
    store_long(load_long(desk + (_ID_AT if role == _ID else _STREAM_AT)) + 8 * row, begin - text)
    store_int(load_long(desk + size_at) + 4 * row, end - begin)
    if is_text:
        end += 1
    return end
