"""The rules for a record of instances, in Python: what one says, or why it is refused.

Compiled code reads the records that are as records usually are (`sluiceway.schemas.read_rows`); here is what holds for
all of them. Typed models state the same rules in `sluiceway.schemas.records`; the tests hold the three to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from struct import error as StructError
from types import NoneType
from typing import Any, NamedTuple, NoReturn

import orjson

from sluiceway.schemas.array_names import ArrayNames
from sluiceway.schemas.batch import UNLABELLED, Label
from sluiceway.schemas.labels import PlainTargets, targets_of
from sluiceway.schemas.refusal import (
    MAX_TS,
    Refused,
    StreamNaming,
    kind,
    lenient,
    refuse_ts,
    refuse_unreadable,
    show,
)

_INFINITY, _NAN = float("inf"), float("nan")
_ROLES = frozenset({"id", "ts", "y", "x", "stream"})
_SHOWN = 12
_TAKEN_BY_MAP: Mapping[type, str] = {
    kind: f": [input.map] takes {what}"
    for kind, what in ((str, "texts"), (bool, "true and false"), (NoneType, "null"), (dict, "objects in objects"))
}


class Judged(NamedTuple):
    """A record that can be used."""

    stream: str
    x: dict[str, Any] | list[Any] | None
    """None: a later label."""
    values: bytes
    """Of `x`, as float64 one after the other."""
    y: int
    ts: int
    id: str | None


class Judge:
    """Knows a flow's rules."""

    def __init__(
        self, naming: StreamNaming, classes: Sequence[Label] | None, array: ArrayNames, *, keep_nulls: bool = False
    ) -> None:
        self.targets = targets_of(classes)
        self.plain = PlainTargets(self.targets)
        self._accepted = ", ".join(map(show, (True, False, 1, 0, -1) if classes is None else classes))
        self._accepted += "; input.classes names others" if classes is None else ""
        self._naming = naming
        self._array = array
        self._keep_nulls = keep_nulls

    def judge(self, key: bytes | None, value: bytes | None, lane: int) -> Judged:
        """What the record says, or `Refused`."""
        record = self._parse(value)
        if type(record) is not dict:
            raise Refused("not-an-object", f"the record is {kind(record)}, not an object")
        get = record.get
        y, id_, ts, x = get("y"), get("id"), get("ts"), get("x")
        target = UNLABELLED if y is None else self.target(y)
        text = None if id_ is None else text_of_id(id_)
        if ts is None:
            ts = 0
        elif type(ts) is not int or not 0 <= ts <= MAX_TS:
            refuse_ts(ts)
        stream = self._naming.stream(key, get("stream"), lane)
        if x is None and (id_ is None or y is None):
            see = ": see [input.map]" if record.keys() - _ROLES else ""
            label = "and for a later label id or y is missing"
            raise Refused("missing-x", f"there is no x, {label}; the record has {listed(record)}{see}")
        return Judged(stream, x, b"" if x is None else self._values(x), target, ts, text)

    def unseen(self, record: Any) -> str:
        """Of a record taken for a later label: what it has besides, which may well be features."""
        if type(record) is not dict or not record.keys() - _ROLES:
            return ""
        return f", and there is no x; the record has {listed(record)}: see [input.map]"

    def target(self, y: object) -> int:
        """What a label is in a batch."""
        try:
            return self.targets[type(y), y]
        except (KeyError, TypeError):
            takes = "" if self.plain.target(y) is None else ", and [input.map] takes what plainly means one"
            raise Refused("bad-label", f"the label y is {kind(y)}; accepted are {self._accepted}{takes}") from None

    def _parse(self, value: bytes | None) -> Any:
        try:
            return orjson.loads(value)  # type: ignore[arg-type]  # None is refused like any other non-JSON
        except orjson.JSONDecodeError as error:
            record = lenient(value)
            for name, number in self._array.named(record.get("x") if type(record) is dict else None):
                if number == _INFINITY or number == -_INFINITY:
                    raise Refused("bad-feature", f"feature {show(name)} is too large for a float64") from None
            refuse_unreadable(value, error)

    def _values(self, x: Any) -> bytes:
        if type(x) is not dict and type(x) is not list:
            raise Refused("bad-x", f"x is {kind(x)}, not an object or an array")
        values = x.values() if type(x) is dict else x
        if self._keep_nulls and None in values:
            values = [_NAN if value is None else value for value in values]
        try:
            packed = _pack_doubles[len(x)](*values)
        except StructError:
            self._refuse_value(x)
        if _LIKE_BOOLEANS in packed and bool in map(type, values):
            self._refuse_value(x)
        if type(x) is list:
            self._array.check(len(x))
        else:
            self._array.check_size(len(x))
            if "" in x:
                raise Refused("bad-feature", "a feature's name is empty")
        return packed

    def _refuse_value(self, x: object) -> NoReturn:
        fit = (int, float, NoneType) if self._keep_nulls else (int, float)
        name, value = next((name, value) for name, value in self._array.named(x) if type(value) not in fit)
        takes = _TAKEN_BY_MAP.get(type(value), "")
        raise Refused("bad-feature", f"feature {show(name)} is {kind(value)}, not a finite number{takes}")


def members_of(record: dict[str, Any]) -> list[str]:
    """The paths of a record's members, the first of them, for sentences."""
    paths: list[str] = []
    waiting: list[tuple[str, Any]] = [("", record)]
    while waiting and len(paths) <= _SHOWN:
        path, value = waiting.pop(0)
        for name, member in value.items():
            paths.append(f"{path}{name}")
            if type(member) is dict:
                waiting.append((f"{path}{name}.", member))
    return paths[:_SHOWN] + (["..."] if len(paths) > _SHOWN else [])


def listed(record: dict[str, Any]) -> str:
    return ", ".join(members_of(record)) or "no members"


def text_of_id(id_: object) -> str:
    if type(id_) is int:
        return str(id_)
    if type(id_) is str and id_:
        return id_
    raise Refused("bad-id", f"id is {kind(id_)}, neither an integer nor a string that is not empty")


class _Packers(dict[int, Callable[..., bytes]]):
    """By size: so many numbers -> the bytes of their array, in one call: the fastest way there is."""

    def __missing__(self, size: int) -> Callable[..., bytes]:
        pack = Struct(f"{size}d").pack
        if size <= 4096:
            self[size] = pack
        return pack


_pack_doubles = _Packers()
_LIKE_BOOLEANS = bytes(6)
"""Six zero bytes in a row: true packs as 1.0 and false as 0.0, and both have them."""
