"""The dead letters of a topic, on a broker or in a directory, read back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import NamedTuple

import orjson

from sluiceway.schemas.encode import ERROR_HEADER
from sluiceway.topics.feeds import Entry

PARTS = frozenset({"class", "message", "stage", "topic", "partition", "offset"})
"""What each of them tells of itself."""


class Letter(NamedTuple):
    """A dead letter: the record as it came, and why it could not be used."""

    partition: int
    offset: int
    """Where the letter lies, not the record."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """The record's own."""
    reason: Mapping[str, str]
    ts: int = 0

    @property
    def error_class(self) -> str:
        return self.reason["class"]

    @property
    def source(self) -> tuple[str, int, int]:
        """Topic, partition and offset of the record."""
        return self.reason["topic"], int(self.reason["partition"]), int(self.reason["offset"])


def letter_of(entry: Entry) -> Letter | None:
    """None for a record that is no dead letter."""
    if entry.headers:
        reason = {
            name.removeprefix(ERROR_HEADER): (value or b"").decode(errors="replace")
            for name, value in entry.headers
            if name.startswith(ERROR_HEADER)
        }
        own = tuple(header for header in entry.headers if not header[0].startswith(ERROR_HEADER))
        if not _whole(reason):
            return None
        return Letter(entry.partition, entry.offset, entry.key, entry.value, own, reason, entry.ts)
    return _letter_of_line(entry)


def _letter_of_line(entry: Entry) -> Letter | None:
    if not (entry.value or b"").startswith(b'{"error":'):
        return None
    try:
        line = orjson.loads(entry.value or b"")
        reason = {name: str(value) for name, value in line["error"].items()}
        key, value = (_bytes(line[name]) for name in ("key_base64", "value_base64"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Letter(entry.partition, entry.offset, key, value, (), reason) if _whole(reason) else None


def _whole(reason: Mapping[str, str]) -> bool:
    return reason.keys() >= PARTS and reason["partition"].isdecimal() and reason["offset"].isdecimal()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
