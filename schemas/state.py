"""How a stream's state is stored: an envelope that says its version and kind, around builtins and bytes.

Nothing that is read from a topic or a disk may run code, so states are MessagePack, never pickles. A stream's state is
one *head*, rewritten by each commit that touched the stream, and *pieces*, each written once and dropped once: what a
stream appends (instances that wait for a label, rows of a window, kept columns).

    envelope = b"S" + version (1 byte) + kind (1 byte: b"h" head, b"p" piece) + MessagePack
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

FORMAT_VERSION = 1
MAGIC = b"S"
HEAD, PIECE = b"h", b"p"


class UnreadableStateError(ValueError):
    """Stored bytes that this program cannot take for a state."""


class StreamState(NamedTuple):
    """A stream's whole state in builtins and bytes."""

    head: dict[str, Any]
    pieces: dict[int, Any]
    """By number, in rising order; numbers are never used again within a stream."""


class StreamChange(NamedTuple):
    """What has changed of a stream since it was last asked or restored."""

    head: dict[str, Any]
    added: dict[int, Any]
    dropped: list[int]
    """Pieces that had been told of before."""


@dataclass(slots=True)
class StoredStream:
    """A stream's state as it lies in a store: enveloped bytes."""

    birth: int
    """Streams of a lane are numbered as they first appear: what is done for all of them is done in this order."""
    head: bytes
    pieces: dict[int, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.head) + sum(map(len, self.pieces.values()))


_NONE: Mapping[int, bytes] = MappingProxyType({})


class StoredChange(NamedTuple):
    """A stream's change as a store takes it."""

    stream: str
    birth: int
    head: bytes
    added: Mapping[int, bytes] = _NONE
    dropped: Sequence[int] = ()

    @property
    def is_head_alone(self) -> bool:
        return not (self.added or self.dropped)

    @property
    def size(self) -> int:
        return len(self.head) + sum(map(len, self.added.values())) if self.added else len(self.head)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def pack(content: Any, kind: bytes = HEAD) -> bytes:
    """Builtins and bytes in an envelope."""
    return MAGIC + bytes((FORMAT_VERSION,)) + kind + _encoder.encode(content)


def unpack(data: bytes, kind: bytes = HEAD) -> Any:
    """What `pack` was given, tuples as lists; anything else is an `UnreadableStateError`."""
    if data[:1] != MAGIC or len(data) < 3:
        raise UnreadableStateError("it is damaged, or not Sluiceway's")
    if data[1] != FORMAT_VERSION:
        raise UnreadableStateError(f"its format has version {data[1]}, this program knows {FORMAT_VERSION}")
    if data[2:3] != kind:
        raise UnreadableStateError(f"it is of kind {data[2:3]!r}, not {kind!r}")
    try:
        return _decoder.decode(memoryview(data)[3:])
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise UnreadableStateError(f"it is damaged: {problem}") from None


def unpack_stream(stored: StoredStream) -> StreamState:
    return StreamState(
        unpack(stored.head), {number: unpack(piece, PIECE) for number, piece in sorted(stored.pieces.items())}
    )
