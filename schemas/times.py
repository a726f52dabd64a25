"""Times in records of other shapes -> milliseconds since 1970: numbers in a unit that is told, texts of ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sluiceway.compiling import kernel
from sluiceway.schemas.record_map import TimeUnit
from sluiceway.schemas.refusal import MAX_TS, Refused, kind
from sluiceway.schemas.swar import load_byte, store_long

UNITS: dict[TimeUnit, tuple[int, int]] = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""Milliseconds are a number times the first and divided by the second."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ZERO, _DASH, _PLUS, _COLON, _POINT, _T, _Z, _SPACE, _QUOTE = (ord(sign) for sign in '0-+:.TZ "')


def milliseconds(time: object, unit: TimeUnit, name: str) -> int:
    """What a record's time says, or `Refused`. A text without an offset is of UTC."""
    found = None
    if type(time) is int:
        times, by = UNITS[unit]
        found = time * times // by
    elif type(time) is float:
        times, by = UNITS[unit]
        found = round(time * times / by)
    elif type(time) is str:
        found = _of_text(time)
    if found is None or not 0 <= found <= MAX_TS:
        raise Refused(
            "bad-ts", f"the time {name} is {kind(time)}, neither a number of {unit} from 1970 on nor ISO 8601"
        )
    return found


def _of_text(text: str) -> int | None:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    if read.tzinfo is None:
        read = read.replace(tzinfo=UTC)
    return (read - _EPOCH) // _MILLISECOND


@kernel
def read_iso_time(at: int, scratch: int) -> int:
    """From after the quote of `2025-11-16T10:00:00.123+01:00`, with Z, an offset or neither: milliseconds, -1 if it is
    none; the closing quote's place into the scratch."""
    year, month, day = _digits(at, 4), _digits(at + 5, 2), _digits(at + 8, 2)
    hour, minute, second = _digits(at + 11, 2), _digits(at + 14, 2), _digits(at + 17, 2)
    between = load_byte(at + 10)
    if load_byte(at + 4) != _DASH or load_byte(at + 7) != _DASH or (between != _T and between != _SPACE):
        return -1
    if load_byte(at + 13) != _COLON or load_byte(at + 16) != _COLON:
        return -1
    if year < 1970 or month < 1 or month > 12 or day < 1 or day > _days_of_month(year, month):
        return -1
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return -1
    at += 19
    fraction = 0
    if load_byte(at) == _POINT:
        at += 1
        count = 0
        while 0 <= load_byte(at) - _ZERO <= 9:
            if count < 3:
                fraction = fraction * 10 + load_byte(at) - _ZERO
            count += 1
            at += 1
        if count == 0:
            return -1
        while count < 3:
            fraction *= 10
            count += 1
    ahead = 0
    sign = load_byte(at)
    if sign == _Z:
        at += 1
    elif sign == _PLUS or sign == _DASH:  # noqa: SIM109  # compiled faster
        hours, minutes = _digits(at + 1, 2), _digits(at + 4, 2)
        if load_byte(at + 3) != _COLON or hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
            return -1
        ahead = (hours * 60 + minutes) * (60_000 if sign == _PLUS else -60_000)
        at += 6
    if load_byte(at) != _QUOTE:
        return -1
    store_long(scratch, at)
    seconds = ((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
    return seconds * 1000 + fraction - ahead


@kernel
def _digits(at: int, count: int) -> int:
    """The number that so many digits spell; -1 if they are none."""
    value = 0
    for i in range(count):
        digit = load_byte(at + i) - _ZERO
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@kernel
def _days_of_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 31 - ((month - 1) % 7) % 2


@kernel
def _days(year: int, month: int, day: int) -> int:
    """Since 1970; years begin in March, so that a leap day is a year's last."""
    if month <= 2:
        year -= 1
        month += 12
    leap_days = year // 4 - year // 100 + year // 400
    return 365 * year + leap_days + (153 * (month - 3) + 2) // 5 + day - 1 - 719468
