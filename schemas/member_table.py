"""The members of records of another shape, in compiled code: what each one is, found out once a poll.

A table knows the members that the poll has had so far, each by the object that it lies in and its own name. Its line
says what the member is (a feature, the label, an object to go into, nothing), where its whole name stands, and of a
feature its address and key. So a name is joined, compared with patterns and hashed once a poll, not once a record.

A line also says in which record its member was seen last: so a member that a record has twice is noticed, whatever it
is. All places are pointers or distances in bytes, as in `read_rows`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.schemas.feature_key import key_of_name
from sluiceway.schemas.name_hash import address_of_name
from sluiceway.schemas.read_rows import Desk
from sluiceway.schemas.record_map import ROLES, RecordMap
from sluiceway.schemas.swar import (
    READABLE_BEYOND,
    load_byte,
    load_int,
    load_long,
    load_word,
    same,
    store_byte,
    store_int,
    store_long,
    store_word,
)


class Plan(IntEnum):
    """What stands where in the array that says how to read a record of another shape."""

    MEMBERS = 0
    """Pointer: the table, a power of two of lines."""
    LAST_LINE = 1
    """A number: how many lines there are, less one."""
    USED = 2
    """A number: of lines."""
    EPOCH = 3
    """A number: lines of another one are free."""
    RECORD = 4
    """A number: of the record under way."""
    ROOT = 5
    """Pointer: the line of the record itself."""
    PATHS = 6
    """Pointer: of each path, where its letters are and how many; the features' is the last."""
    PATTERNS = 7
    """Pointer: of each pattern, where its letters are, how many, and whether it excludes."""
    PATTERN_COUNT = 8
    SKIP = 9
    """A number: how much longer a whole name is than the feature's own."""
    TEXTS = 10
    TIMES = 11
    """Numbers: a time times the first and divided by the second is milliseconds."""
    BY = 12
    LEVELS = 13
    """Pointer: room for the objects on the way down."""
    ARRAYS = 14
    """1: an array may stand in place of the features, none of its places left out or called otherwise."""


(
    _MEMBERS, _LAST_LINE, _USED, _EPOCH, _RECORD, _ROOT, _PATHS, _PATTERNS, _PATTERN_COUNT, _SKIP,
) = (8 * place for place in list(Plan)[:10])  # fmt: skip

# a line
IN_EPOCH, FLAGS, IN_RECORD, PARENT, FULL_AT, FULL_SIZE, RAW_SIZE, ADDRESS, KEY = 0, 4, 8, 16, 24, 32, 36, 40, 48
LINE = 64
# its flags; the lowest three bits are the role's number, from 1 on
ROLE, LEADING, INSIDE, INCLUDED, FEATURES = 7, 8, 16, 32, 64
"""LEADING: something looked for may lie in it. INSIDE: what is in it may be features. INCLUDED: it is one, and so is
all in it. FEATURES: it is the object whose members the features are."""

LEVEL = 24
"""Bytes that an object on the way down needs: the line of the one above, the place in an array, and what it is."""
MOST_LEVELS = 60
REFUSE, ONE_HOT, IGNORE = range(3)
NO_TEXT, NO_LINES = -3, -4

_ODD = -1
_TEXT, _TEXT_ROOM, _LETTERS = 8 * Desk.TEXT, 8 * Desk.TEXT_ROOM, 8 * Desk.LETTERS
_SECRET_1, _SECRET_2 = 8 * Desk.SECRET_1, 8 * Desk.SECRET_2
_DOT, _EQUALS, _STAR = (ord(sign) for sign in ".=*")
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_FEWEST_LINES = 1 << 10
_MOST_EPOCHS = 1 << 30


class ReadingPlan:
    """The arrays behind a plan, for compiled code; and the table, which grows as records need it."""

    def __init__(self, record_map: RecordMap, times: tuple[int, int], *, arrays: bool) -> None:
        self.numbers = np.zeros(len(Plan), dtype=np.int64)
        numbers = self.numbers
        paths = [record_map.roles.get(role, "").encode() for role in ROLES] + [record_map.features.encode()]
        patterns = [pattern.encode() for pattern in (*record_map.include, *record_map.exclude)]
        self._letters = np.frombuffer(bytearray(b"".join((*paths, *patterns)) + READABLE_BEYOND), dtype=np.uint8)
        sizes = np.array([len(one) for one in (*paths, *patterns)], dtype=np.int64)
        places = self._letters.ctypes.data + np.cumsum(sizes) - sizes
        self._paths = np.column_stack((places, sizes))[: len(paths)].copy()
        excludes = np.arange(len(patterns)) >= len(record_map.include)
        self._patterns = np.column_stack((places[len(paths) :], sizes[len(paths) :], excludes)).astype(np.int64)
        self._root = np.zeros(LINE // 8, dtype=np.int64)
        all_included = 0 if record_map.include else INCLUDED
        flags = LEADING if record_map.features else INSIDE | all_included
        self._root[0] = flags << 32
        self._levels = np.zeros((MOST_LEVELS + 1) * LEVEL // 8, dtype=np.int64)
        numbers[[Plan.ROOT, Plan.PATHS, Plan.PATTERNS, Plan.LEVELS]] = [
            array.ctypes.data for array in (self._root, self._paths, self._patterns, self._levels)
        ]
        numbers[Plan.PATTERN_COUNT] = len(patterns)
        numbers[Plan.SKIP] = len(record_map.features.encode()) + 1 if record_map.features else 0
        numbers[Plan.TEXTS] = ("refuse", "one-hot", "ignore").index(record_map.texts)
        numbers[[Plan.TIMES, Plan.BY]] = times
        numbers[Plan.ARRAYS] = arrays and not patterns
        self._make(_FEWEST_LINES)

    def begin(self) -> None:
        """A new poll: its names stand elsewhere."""
        if self.numbers[Plan.EPOCH] > _MOST_EPOCHS:
            self._make(len(self._members))
        self.numbers[Plan.EPOCH] += 1
        self.numbers[Plan.USED] = 0

    def more_lines(self) -> None:
        """A record has more members than there is room for."""
        self._make(2 * len(self._members))

    def _make(self, lines: int) -> None:
        self._members: NDArray[np.int64] = np.zeros((lines, LINE // 8), dtype=np.int64)
        self.numbers[[Plan.MEMBERS, Plan.LAST_LINE]] = self._members.ctypes.data, lines - 1
        self.numbers[[Plan.EPOCH, Plan.USED]] = 1, 0


@kernel
def begin_record(plan: int) -> int:
    """Its number. A table that is half as full as it may be is emptied: no record has to fear for room."""
    if 4 * load_long(plan + _USED) > load_long(plan + _LAST_LINE):
        store_long(plan + _EPOCH, load_long(plan + _EPOCH) + 1)
        store_long(plan + _USED, 0)
    record: int = load_long(plan + _RECORD) + 1
    store_long(plan + _RECORD, record)
    return record


@kernel
def line_of_member(desk: int, plan: int, above: int, name: int, size: int, is_text: bool) -> int:
    """The line of a member of what has the line `above`; or of the text of such a member, with `is_text`.

    NO_TEXT or NO_LINES if there is no room for what is new.
    """
    text, epoch, last = load_long(desk + _TEXT), load_long(plan + _EPOCH), load_long(plan + _LAST_LINE)
    members, parent = load_long(plan + _MEMBERS), load_long(above + FULL_AT)
    if is_text:
        parent = -parent
    secret_1, secret_2 = load_word(desk + _SECRET_1), load_word(desk + _SECRET_2)
    hashed = address_of_name(name, size, secret_1, secret_2)
    slot = np.int64((hashed ^ (np.uint64(parent) * _SPREAD)) & np.uint64(last))
    line: int = members + LINE * slot
    while load_int(line + IN_EPOCH) == epoch:
        if load_long(line + PARENT) == parent and load_int(line + RAW_SIZE) == size:
            end = text + load_long(line + FULL_AT) + load_int(line + FULL_SIZE)
            if same(name, end - size, size):
                return line
        slot = (slot + 1) & last
        line = members + LINE * slot
    used = load_long(plan + _USED) + 1
    if 2 * used > last:
        return NO_LINES
    above_size = load_int(above + FULL_SIZE)
    at, whole = name - text, size
    if above_size > 0:
        at, whole = load_long(desk + _LETTERS), above_size + 1 + size
        if at + whole + 8 > load_long(desk + _TEXT_ROOM):
            return NO_TEXT
        _copy(text + load_long(above + FULL_AT), text + at, above_size)
        store_byte(text + at + above_size, _EQUALS if is_text else _DOT)
        _copy(name, text + at + above_size + 1, size)
        store_long(desk + _LETTERS, at + whole)
    flags = INSIDE | INCLUDED if is_text else _flags(plan, load_int(above + FLAGS), text + at, whole)
    store_int(line + IN_EPOCH, epoch)
    store_int(line + FLAGS, flags)
    store_long(line + IN_RECORD, 0)
    store_long(line + PARENT, parent)
    store_long(line + FULL_AT, at)
    store_int(line + FULL_SIZE, whole)
    store_int(line + RAW_SIZE, size)
    skip = load_long(plan + _SKIP)
    if flags & INCLUDED != 0 and whole > skip:
        own = text + at + skip
        is_whole_name = above_size == 0 and skip == 0
        address = hashed if is_whole_name else address_of_name(own, whole - skip, secret_1, secret_2)
        store_word(line + ADDRESS, address)
        store_long(line + KEY, key_of_name(own, whole - skip))
    store_long(plan + _USED, used)
    return line


@kernel
def _flags(plan: int, above: int, name: int, size: int) -> int:
    """What a member of that whole name is, in something of those flags."""
    skip = load_long(plan + _SKIP)
    path, leading, included = load_long(plan + _PATHS), 0, above & INCLUDED
    for place in range(5):
        letters, length = load_long(path), load_long(path + 8)
        if length == size and same(letters, name, size):
            if place < 4:
                return place + 1
            return INSIDE | FEATURES | _all_included(plan)
        if length > size and load_byte(letters + size) == _DOT and same(letters, name, size):
            leading = LEADING
        path += 16
    if above & INSIDE == 0:
        return leading
    line = load_long(plan + _PATTERNS)
    for _ in range(load_long(plan + _PATTERN_COUNT)):
        if _fits(load_long(line), load_long(line + 8), name + skip, size - skip):
            if load_long(line + 16) != 0:
                return leading
            included = INCLUDED
        line += 24
    return INSIDE | leading | included


@kernel
def _all_included(plan: int) -> int:
    """INCLUDED, unless a pattern includes."""
    line = load_long(plan + _PATTERNS)
    if load_long(plan + _PATTERN_COUNT) > 0 and load_long(line + 16) == 0:
        return 0
    return INCLUDED


@kernel
def _fits(pattern: int, pattern_size: int, name: int, size: int) -> bool:
    """Whether a name fits a pattern, in which a star stands for any letters."""
    p, n, star, tried = 0, 0, -1, 0
    while n < size:
        if p < pattern_size and load_byte(pattern + p) == _STAR:
            star, tried = p, n
            p += 1
        elif p < pattern_size and load_byte(pattern + p) == load_byte(name + n):
            p += 1
            n += 1
        elif star >= 0:
            tried += 1
            p, n = star + 1, tried
        else:
            return False
    while p < pattern_size and load_byte(pattern + p) == _STAR:
        p += 1
    return p == pattern_size


@kernel
def _copy(letters: int, to: int, size: int) -> None:
    stop = letters + size
    while letters + 8 <= stop:
        store_word(to, load_word(letters))
        letters += 8
        to += 8
    while letters < stop:
        store_byte(to, load_byte(letters))
        letters += 1
        to += 1


@kernel
def write_place(desk: int, above: int, place: int) -> int:
    """The decimal digits of an array's place, written where its whole name would have them: how many; or NO_TEXT."""
    at = load_long(desk + _LETTERS) + load_int(above + FULL_SIZE) + 1
    if at + 28 > load_long(desk + _TEXT_ROOM):
        return NO_TEXT
    digits, rest = 1, place
    while rest >= 10:
        rest //= 10
        digits += 1
    last = load_long(desk + _TEXT) + at + digits
    for _ in range(digits):
        last -= 1
        store_byte(last, 48 + place % 10)
        place //= 10
    return digits
