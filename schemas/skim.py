"""Where in a record its features stand, and their numbers: `x` of a whole poll in one go of compiled code.

Only `x` is read here, if it is what it nearly always is: an object of numbers under names without escapes, or an array
of numbers. The rest of the record, with `x` cut out, is left to a JSON parser, which so judges everything else; and a
record that is not understood here is left to it as a whole. So nothing is accepted or refused here that the parser
would not: what stands before and after `x` is walked over as a parser would walk over JSON, and if it is not JSON, the
parser says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import inlined, kernel
from sluiceway.schemas.decimals import read_number
from sluiceway.schemas.words import READABLE_BEYOND, below, equal, load_word, trailing_zeros

_QUOTE, _ESCAPE, _COLON, _COMMA, _X = (ord(sign) for sign in '"\\:,x')
_OPEN, _CLOSE, _OPEN_ARRAY, _CLOSE_ARRAY = (ord(sign) for sign in "{}[]")
_QUOTE_BYTE, _ESCAPE_BYTE, _FIRST_PRINTED = np.uint64(_QUOTE), np.uint64(_ESCAPE), np.uint64(32)
_NOT_HERE, _NO_ROOM = -1, -2


class Skimmed(NamedTuple):
    """What was found in the records of a poll."""

    text: NDArray[np.uint8]
    """The records, one after the other."""
    # by record
    stop: NDArray[np.int64]
    """Where it ends in the text; the next begins there."""
    begin: NDArray[np.int64]
    """Where its `x` begins in the text; -1: not understood."""
    end: NDArray[np.int64]
    first: NDArray[np.int64]
    """Where its features begin below; they end where the next record's begin."""
    is_array: NDArray[np.bool_]
    # by feature
    name_at: NDArray[np.int64]
    name_size: NDArray[np.int64]
    values: NDArray[np.float64]

    def within(self) -> tuple[list[int], list[int], list[int]]:
        """Where `x` begins and ends in each record itself, and its size; 0 where it is not understood."""
        starts = np.concatenate(([0], self.stop[:-1]))
        understood = self.begin >= 0
        begin, end = (self.begin - starts) * understood, (self.end - starts) * understood
        return begin.tolist(), end.tolist(), np.diff(self.first[: len(begin) + 1]).tolist()


class Skimmer:
    """Skims poll after poll, always in the same room: memory that is new each time costs more than the skimming."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._text = bytearray()
        self._room = _little_room(np.zeros(1, dtype=np.uint8))

    def skim(self, values: Sequence[bytes | None]) -> Skimmed:
        """The features of these records, until the next call; one with more than the limit is not understood."""
        found = self._begin(values)
        record = skim_records(found, 0, self._limit)
        while record < len(values):
            more = (0, len(found.values) + 1024)
            larger = {name: np.pad(getattr(found, name), more) for name in ("name_at", "name_size", "values")}
            found, self._room = found._replace(**larger), self._room._replace(**larger)
            record = skim_records(found, record, self._limit)
        return found

    def _begin(self, values: Sequence[bytes | None]) -> Skimmed:
        given = [value or b"" for value in values]
        stops = [*accumulate(map(len, given))]
        size = (stops[-1] if stops else 0) + len(READABLE_BEYOND)
        if not size <= len(self._text) <= max(4 * size, _KEPT_BYTES):
            self._text = bytearray(size + size // 4)
            self._room = _little_room(np.frombuffer(self._text, dtype=np.uint8))
        start = 0
        for value, stop in zip(given, stops, strict=True):
            self._text[start:stop] = value
            start = stop
        records = len(given)
        if records >= len(self._room.first):
            by_record = ("stop", "begin", "end", "first", "is_array")
            room = {name: np.zeros(records + 1, dtype=getattr(self._room, name).dtype) for name in by_record}
            self._room = self._room._replace(**room)
        found = self._room._replace(
            stop=self._room.stop[:records],
            begin=self._room.begin[:records],
            end=self._room.end[:records],
            is_array=self._room.is_array[:records],
        )
        found.stop[:] = stops
        return found


def _little_room(text: NDArray[np.uint8]) -> Skimmed:
    stop, begin, end, first, name_at, name_size = np.zeros((6, 1), dtype=np.int64)
    return Skimmed(text, stop, begin, end, first, np.zeros(1, dtype=np.bool_), name_at, name_size, np.zeros(1))


NOTHING_SKIMMED = _little_room(np.zeros(1, dtype=np.uint8))

_KEPT_BYTES = 16 * 2**20
"""How much text there may be room for that polls no longer need."""


@kernel
def skim_records(found: Skimmed, start: int, limit: int) -> int:
    """Read records from `start` on; the next to read when the room is used up."""
    text, bits = found.text, found.values.view(np.uint64)
    for record in range(start, len(found.stop)):
        at = 0 if record == 0 else found.stop[record - 1]
        place = found.first[record]
        found.begin[record] = -1
        last = _walk(text, at, found.stop[record], record, limit, found, bits)
        if last == _NO_ROOM:
            return record
        if last == _NOT_HERE:
            found.begin[record] = -1
            found.first[record + 1] = place
    return len(found.stop)


@kernel
def _walk(
    text: NDArray[np.uint8], at: int, end: int, record: int, limit: int, found: Skimmed, bits: NDArray[np.uint64]
) -> int:
    """Over the members of the record, reading `x`; where it ends."""
    at = _skip_space(text, at, end)
    if at >= end or text[at] != _OPEN:
        return _NOT_HERE
    while True:
        at = _skip_space(text, at + 1, end)
        if at >= end or text[at] != _QUOTE:
            return _NOT_HERE
        name = at + 1
        at = _end_of_name(text, name, end)
        if at < 0:
            return _NOT_HERE
        is_x = at == name + 1 and text[name] == _X
        at = _skip_space(text, at + 1, end)
        if at >= end or text[at] != _COLON:
            return _NOT_HERE
        at = _skip_space(text, at + 1, end)
        if not is_x:
            at = _skip_value(text, at, end)
        elif found.begin[record] >= 0:
            return _NOT_HERE  # of two the last counts: rare enough for the parser
        else:
            found.begin[record] = at
            at = _read_x(text, at, end, record, limit, found, bits)
            found.end[record] = at
        if at < 0:
            return at
        at = _skip_space(text, at, end)
        if at >= end:
            return _NOT_HERE
        if text[at] == _CLOSE:
            return at if found.begin[record] >= 0 else _NOT_HERE
        if text[at] != _COMMA:
            return _NOT_HERE


@kernel
def _read_x(
    text: NDArray[np.uint8], at: int, end: int, record: int, limit: int, found: Skimmed, bits: NDArray[np.uint64]
) -> int:
    """The features of the object or array at `at`; where it ends."""
    if at >= end or (text[at] != _OPEN and text[at] != _OPEN_ARRAY):
        return _NOT_HERE
    is_array = text[at] == _OPEN_ARRAY
    close = _CLOSE_ARRAY if is_array else _CLOSE
    first = place = found.first[record]
    found.is_array[record] = is_array
    at = _skip_space(text, at + 1, end)
    if at < end and text[at] == close:
        found.first[record + 1] = place
        return at + 1
    room = len(found.values)
    while True:
        if place == room:
            return _NO_ROOM
        if not is_array:
            if at >= end or text[at] != _QUOTE:
                return _NOT_HERE
            name = at + 1
            at = _end_of_name(text, name, end)
            if at <= name:
                return _NOT_HERE
            found.name_at[place] = name
            found.name_size[place] = at - name
            at = _skip_space(text, at + 1, end)
            if at >= end or text[at] != _COLON:
                return _NOT_HERE
            at = _skip_space(text, at + 1, end)
        at = read_number(text, at, end, bits, place)
        if at < 0:
            return _NOT_HERE
        place += 1
        at = _skip_space(text, at, end)
        if at >= end:
            return _NOT_HERE
        if text[at] == close:
            break
        if text[at] != _COMMA:
            return _NOT_HERE
        at = _skip_space(text, at + 1, end)
    if place - first > limit:
        return _NOT_HERE
    found.first[record + 1] = place
    return at + 1


@inlined
def _skip_space(text: NDArray[np.uint8], at: int, end: int) -> int:
    while at < end and (text[at] == 32 or 9 <= text[at] <= 10 or text[at] == 13):
        at += 1
    return at


@inlined
def _end_of_name(text: NDArray[np.uint8], at: int, end: int) -> int:
    """Where the closing quote stands; -1 if there is none, or an escape or a control character before it."""
    while at < end:
        word = load_word(text, at)
        telling = equal(word, _QUOTE_BYTE) | equal(word, _ESCAPE_BYTE) | below(word, _FIRST_PRINTED)
        if telling != 0:
            at += trailing_zeros(telling) >> 3
            return at if at < end and text[at] == _QUOTE else _NOT_HERE
        at += 8
    return _NOT_HERE


@kernel
def _skip_string(text: NDArray[np.uint8], at: int, end: int) -> int:
    """From after the opening quote to after the closing one."""
    while at < end and text[at] != _QUOTE:
        at += 2 if text[at] == _ESCAPE else 1
    return at + 1 if at < end else _NOT_HERE


@kernel
def _skip_value(text: NDArray[np.uint8], at: int, end: int) -> int:
    depth = 0
    while at < end:
        sign = text[at]
        if sign == _QUOTE:
            at = _skip_string(text, at + 1, end)
            if at < 0 or depth == 0:
                return at
            continue
        if sign in (_OPEN, _OPEN_ARRAY):
            depth += 1
        elif sign in (_CLOSE, _CLOSE_ARRAY):
            if depth == 0:
                return at  # the value before ended at the record's own brace
            depth -= 1
            if depth == 0:
                return at + 1
        elif sign == _COMMA and depth == 0:
            return at
        at += 1
    return _NOT_HERE
