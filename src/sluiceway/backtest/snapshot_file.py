"""A file with one snapshot, as `sluiceway watch --json` prints it or a topic holds it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from sluiceway.errors import SettingsError
from sluiceway.schemas.records import Snapshot


class SnapshotFile(NamedTuple):
    name: str
    text: bytes
    """As it stands there, without white space around it."""
    content: Mapping[str, Any]


def read_snapshot(path: Path) -> SnapshotFile:
    """`-` is standard input."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        text = (sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()).strip()
        content = orjson.loads(text)
    except OSError as problem:
        raise SettingsError(f"{name} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    except orjson.JSONDecodeError:
        more = text.count(b"\n") > 0 and text.startswith(b"{")
        hint = ": a file with one snapshot is wanted, this one has several lines" if more else " in JSON"
        raise SettingsError(f"{name} is no snapshot{hint}") from None
    try:
        Snapshot.model_validate_json(text)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{name} is no snapshot: {where}{': ' if where else ''}{first['msg'].lower()}") from None
    return SnapshotFile(name, text, content)


class Unlike(NamedTuple):
    """A place in which two contents differ; what is not there is None."""

    place: str
    one: Any
    other: Any

    def __str__(self) -> str:
        return f"{self.place} is {_shown(self.one)} there, {_shown(self.other)} here"


def unlike(one: Any, other: Any, place: str = "") -> Iterator[Unlike]:
    """All places in which two contents differ, in their order.

    >>> [str(found) for found in unlike({"a": [1, 2], "b": 1}, {"a": [1, 3], "b": 1})]
    ['a[1] is 2 there, 3 here']
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in dict.fromkeys([*one, *other]):
            yield from unlike(one.get(name), other.get(name), f"{place}.{name}" if place else str(name))
    elif isinstance(one, list) and isinstance(other, list):
        for at in range(max(len(one), len(other))):
            pair = (one[at] if at < len(one) else None), (other[at] if at < len(other) else None)
            yield from unlike(*pair, f"{place}[{at}]")
    elif one != other or type(one) is not type(other):
        yield Unlike(place, one, other)


def _shown(value: Any) -> str:
    return "missing" if value is None else orjson.dumps(value).decode()
