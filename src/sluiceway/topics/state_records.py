"""What a store of states holds, record by record: keys and values, the same on Kafka and in SQLite.

| key | record |
|---|---|
| `o` | who opened the lane last, and whether it is parked |
| `r` | the run under way: its number, from where to where each lane reads |
| `m` | the commit: how far the lane has come, with everything that the next owner must know |
| `s` chunk stream | a stream's head |
| `p` piece chunk stream | a piece of a stream |

`o`, `r` and `m` are JSON with a version. States larger than a message come in chunks: the first says how many there
are.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

import orjson

from sluiceway.errors import FlowError
from sluiceway.schemas.state import StoredChange, StoredStream
from sluiceway.topics.bounds import Bounds

RECORDS_VERSION = 1
OPEN, RUN, COMMIT = b"o", b"r", b"m"
_HEAD, _PIECE = b"s", b"p"
_HEAD_KEY = struct.Struct(">cI")
"""Kind, chunk; the stream's name follows."""
_PIECE_KEY = struct.Struct(">cQI")
"""Kind, piece, chunk; the stream's name follows."""
FIRST = struct.Struct(">IQ")
"""What stands before a first chunk: the number of chunks, and the stream's birth number."""
FIRST_BYTES = FIRST.size
_WHOLE_HEAD = _HEAD_KEY.pack(_HEAD, 0)


def _dump(record: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"v": RECORDS_VERSION, **record})


def _load(what: str, value: bytes | None) -> dict[str, Any]:
    try:
        content: dict[str, Any] = orjson.loads(value or b"")
        version = content.pop("v")
    except (orjson.JSONDecodeError, KeyError, AttributeError, TypeError):
        raise FlowError(f"its {what} is damaged, or not Sluiceway's") from None
    if version != RECORDS_VERSION:
        raise FlowError(f"its {what} has version {version}, this program knows {RECORDS_VERSION}")
    return content


@dataclass(frozen=True, slots=True)
class OpenRecord:
    """Who has opened a lane."""

    flow: str
    member: str
    """Unique to this opening."""
    host: str
    pid: int
    at: int
    """When, in milliseconds."""
    parked: str | None = None
    """Why the lane stands still, if it does."""

    @classmethod
    def of_this_process(cls, flow: str, member: str, parked: str | None = None) -> Self:
        return cls(flow, member, os.uname().nodename, os.getpid(), round(time.time() * 1000), parked)

    def dump(self) -> bytes:
        return _dump(asdict(self))

    @classmethod
    def load(cls, value: bytes | None) -> Self:
        return _made(cls, "open record", _load("open record", value))


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run belongs to the flow, not to a lane: all its lanes read what was decided at its start."""

    number: int
    bounds: Bounds

    @classmethod
    def none(cls) -> Self:
        """Of a state that comes from elsewhere: no run of the flow has begun."""
        return cls(0, Bounds((), ()))

    def dump(self) -> bytes:
        return _dump({"number": self.number, "bounds": self.bounds.to_json()})

    @classmethod
    def load(cls, value: bytes | None) -> Self:
        content = _load("run record", value)
        try:
            return cls(content["number"], Bounds.from_json(content["bounds"]))
        except (KeyError, TypeError):
            raise FlowError("its run record is damaged, or not Sluiceway's") from None


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """How far a lane has come. It is the last record of a commit that concerns the lane's state."""

    positions: Mapping[str, int]
    """The next offset to read, by what is read (a join reads two topics)."""
    final: bool
    """The lane has come to the end of its run: final snapshots are out."""
    run: int
    """The number of that run."""
    stop_setting: str | None
    """Its `input.stop`."""
    belongs_to: Mapping[str, Any]
    """What the models depend on: a change of any of it makes them another flow's."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """How much of each output directory is written."""
    at: int = 0
    """When, in milliseconds."""

    @classmethod
    def of(
        cls,
        run: RunRecord,
        positions: Mapping[str, int],
        belongs_to: Mapping[str, Any],
        sizes: Mapping[str, int],
        *,
        final: bool,
    ) -> Self:
        now = round(time.time() * 1000)
        return cls(positions, final, run.number, run.bounds.stop_setting, belongs_to, sizes, now)

    def dump(self) -> bytes:
        return _dump(asdict(self))

    @classmethod
    def load(cls, value: bytes | None) -> Self:
        return _made(cls, "commit record", _load("commit record", value))

    def ends(self, run: int) -> bool:
        """Whether the lane is done with a run."""
        return self.final and self.run >= run


_Record = TypeVar("_Record")


def _made(cls: type[_Record], what: str, content: Mapping[str, Any]) -> _Record:
    try:
        return cls(**content)
    except TypeError:
        raise FlowError(f"its {what} is damaged, or not Sluiceway's") from None


class Place(NamedTuple):
    """A part of a stream's state that is stored by itself."""

    stream: str
    piece: int | None
    """None: the head."""

    def key(self, chunk: int) -> bytes:
        if self.piece is None:
            return _HEAD_KEY.pack(_HEAD, chunk) + self.stream.encode()
        return _PIECE_KEY.pack(_PIECE, self.piece, chunk) + self.stream.encode()


def whole_head(stream: str, head: bytes, birth: int) -> tuple[bytes, bytes]:
    """Key and value of a head that is one chunk."""
    return _WHOLE_HEAD + stream.encode(), FIRST.pack(1, birth) + head


def is_state(key: bytes) -> bool:
    return key[:1] == _HEAD or key[:1] == _PIECE


def chunks(data: bytes, birth: int, limit: int) -> Iterator[bytes]:
    """Cut a state so that no part is larger than `limit`; the first part says how many there are."""
    first = limit - FIRST.size
    count = 1 + max(-(-(len(data) - first) // limit), 0)
    yield FIRST.pack(count, birth) + data[:first]
    for number in range(1, count):
        start = first + (number - 1) * limit
        yield data[start : start + limit]


def part_of(key: bytes) -> tuple[Place, int]:
    """Which chunk of what a state record is."""
    if key[:1] == _HEAD:
        return Place(key[_HEAD_KEY.size :].decode(), None), _HEAD_KEY.unpack_from(key)[1]
    _, piece, chunk = _PIECE_KEY.unpack_from(key)
    return Place(key[_PIECE_KEY.size :].decode(), piece), chunk


def assemble(states: Mapping[bytes, bytes]) -> tuple[dict[str, StoredStream], dict[Place, int]]:
    """Streams from state records by key, and in how many chunks those states are that have more than one."""
    streams: dict[str, StoredStream] = {}
    many: dict[Place, int] = {}
    pieces: list[tuple[Place, bytes]] = []
    try:
        for key in states:
            place, chunk = part_of(key)
            if chunk > 0:
                if place.key(0) not in states:  # it would be a stream that nobody has met
                    raise damaged()
                continue
            birth, data, count = whole(place, states.get)
            if count > 1:
                many[place] = count
            if place.piece is None:
                streams[place.stream] = StoredStream(birth, data)
            else:
                pieces.append((place, data))
        for place, data in pieces:
            assert place.piece is not None
            streams[place.stream].pieces[place.piece] = data
    except (struct.error, KeyError, UnicodeDecodeError):
        raise damaged() from None
    return streams, many


def whole(place: Place, record: Callable[[bytes], bytes | None]) -> tuple[int, bytes, int]:
    """Birth number and data, from all chunks, and how many those are; `record`: by key."""
    chunk = record(place.key(0)) or b""
    try:
        count, birth = FIRST.unpack_from(chunk)
    except struct.error:
        raise damaged() from None
    parts = [chunk[FIRST.size :]]
    for number in range(1, count):
        further = record(place.key(number))
        if further is None:
            raise damaged()
        parts.append(further)
    return birth, b"".join(parts), count


class DamagedError(FlowError):
    """States that cannot be put together."""


def damaged() -> DamagedError:
    return DamagedError("a state in it is damaged: parts of it are missing")


@dataclass(slots=True)
class Contents:
    """What a lane's store holds, read up to some commit."""

    opened: OpenRecord | None = None
    run: RunRecord | None = None
    commit: CommitRecord | None = None
    streams: dict[str, StoredStream] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(stream.size for stream in self.streams.values())

    def changes(self) -> Iterator[StoredChange]:
        """All of it, as what an empty store lacks."""
        for name, stream in sorted(self.streams.items(), key=lambda item: item[1].birth):
            yield StoredChange(name, stream.birth, stream.head, stream.pieces, [])
