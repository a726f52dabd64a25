"""Refusing a record: the reasons there are, in words that fit into a header, and what names a record's stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NoReturn

import orjson

from sluiceway.schemas.lane import DeadLetter

ErrorClass = Literal[
    "tombstone",
    "empty",
    "not-utf8",
    "not-json",
    "not-an-object",
    "bad-key",
    "bad-stream",
    "missing-x",
    "bad-x",
    "bad-feature",
    "too-many-features",
    "bad-label",
    "bad-id",
    "bad-ts",
    "bad-column",
    "bad-arrow",
    "bad-schema",
    "orphan-label",
    "late-label",
    "unlabelled",
]

ERROR_CLASSES: Mapping[ErrorClass, str] = {
    "tombstone": "the message has no value",
    "empty": "the value has no bytes",
    "not-utf8": "the value is not UTF-8",
    "not-json": "the value is not JSON, or nested too deeply",
    "not-an-object": "the value is JSON but not an object",
    "bad-key": "the message key, which names the stream, is not UTF-8",
    "bad-stream": "the member `stream`, which names the stream, is not a string or is empty",
    "missing-x": "there is no `x`, and it is no later label either: `id` or `y` is missing too",
    "bad-x": "`x` is neither an object nor an array, or an array longer than `feature_names`",
    "bad-feature": "a feature's value is not a finite number, or its name is empty",
    "too-many-features": "`x` has more features than `max_features_per_instance`",
    "bad-label": "`y` is none of the accepted labels",
    "bad-id": "`id` is neither an integer nor a string that is not empty",
    "bad-ts": "`ts` is not an integer of milliseconds from 0 to 2**63 - 1",
    "bad-column": "a target or a feature column is malformed, not finite, or does not fit to what came before",
    "bad-arrow": "the value is not an Arrow stream, though the message's `content-type` says so",
    "bad-schema": "the value is in a schema registry's format, and its schema is not there, or says something else",
    "orphan-label": "no unlabelled instance is waiting for this later label",
    "late-label": "the instance that this label is for was given up before the label came (`sluiceway join`)",
    "unlabelled": "no label came for this instance in time, and `join.unlabelled` sends such to dead letters",
}
"""Every reason for which a record is refused."""

STAGE = "decode"
MESSAGE_LENGTH = 300
MAX_TS = 2**63 - 1

NamedBy = Literal["key", "partition", "member"]


class Refused(Exception):
    """A record cannot be used; nothing of it has entered a batch."""

    def __init__(self, error_class: ErrorClass, message: str) -> None:
        self.error_class = error_class
        self.message = message

    def letter(
        self,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        stage: str = STAGE,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> DeadLetter:
        return DeadLetter(offset, key, value, self.error_class, cut(self.message, MESSAGE_LENGTH), stage, headers)


class StreamNaming:
    """What names a record's stream.

    The message "key", the record's "member" `stream` (as in directory topics), or the "partition" (streams
    `partition-0`, `partition-1`, ...). A record with no key or an empty one, or whose member is absent or null, belongs
    to `default` on a topic of one partition, else to `default-<partition>`.
    """

    def __init__(self, by: NamedBy, partitions: int) -> None:
        if partitions < 1:
            raise ValueError(f"a topic has at least one partition, not {partitions}")
        if by not in ("key", "partition", "member"):
            raise ValueError(f'stream must be "key", "partition" or "member", not {by!r}')
        self.by = by
        self._partitions = partitions

    def stream(self, key: bytes | None, member: object, partition: int) -> str:
        if self.by == "partition":
            return f"partition-{partition}"
        if self.by == "member":
            if type(member) is str and member:
                return member
            if member is not None:
                raise Refused("bad-stream", f"stream is {kind(member)}, not a string that is not empty")
        elif key:
            try:
                return key.decode()
            except UnicodeDecodeError:
                raise Refused("bad-key", f"the key {cut(repr(key), 80)} is not UTF-8") from None
        return "default" if self._partitions == 1 else f"default-{partition}"


def refuse_unreadable(value: bytes | None, error: orjson.JSONDecodeError) -> NoReturn:
    """Says what is wrong with a value that orjson does not read."""
    if value is None:
        raise Refused("tombstone", "the message has no value")
    if not value:
        raise Refused("empty", "the message is empty")
    if value[0] == 0:
        raise Refused("not-json", "the value begins with a byte of 0, as those of a schema registry do: see [registry]")
    try:
        value.decode()
    except UnicodeDecodeError as not_utf8:
        raise Refused("not-utf8", f"byte {not_utf8.start} of the record is not UTF-8") from None
    raise Refused("not-json", f"the record is not JSON: {error.msg} at character {error.pos}")


def lenient(value: bytes | None) -> Any:
    """A record whose numbers may exceed float64, where orjson gives up; None if something else is wrong."""
    try:
        return json.loads((value or b"").decode(), parse_int=float, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def refuse_ts(ts: object) -> NoReturn:
    takes = ": [input.map] takes texts of ISO 8601, and other units" if type(ts) in (str, float) else ""
    raise Refused("bad-ts", f"ts is {kind(ts)}, not an integer from 0 to {MAX_TS}{takes}")


def kind(value: object) -> str:
    """A JSON value in a few words."""
    if type(value) is dict:
        return "an object"
    if type(value) is list:
        return "an array"
    if type(value) is str:
        return f"the string {show(value)}"
    return show(value)


def show(value: object) -> str:
    """A string, number, boolean or null as in JSON, not too long, and fit for UTF-8."""
    return cut(json.dumps(value, ensure_ascii=False, default=repr), 80).encode(errors="replace").decode()


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
