"""What a lane needs of a stream, whatever its operator learns from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from sluiceway.schemas.lane import DeadLetter, OutRecord, RawRecords
from sluiceway.schemas.state import StreamChange, StreamState


@dataclass(slots=True)
class StreamOutput:
    """What one batch of one stream gave."""

    snapshots: list[OutRecord]
    predictions: list[OutRecord] = field(default_factory=list)
    verdicts: list[OutRecord] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)


class AnyStream(Protocol):
    """One operator and its stages."""

    def process(self, batch: Any, raw: RawRecords) -> StreamOutput:
        """Learn from a batch; `raw` has the bytes of the records that may still be refused here."""

    def final(self, position: int) -> OutRecord | None:
        """The snapshot at the end of bounded input, unless this version has one already; None changes nothing."""

    def state(self) -> StreamState:
        """The whole state. It follows from the input alone: how often `changes` was asked for does not show."""

    def changes(self) -> StreamChange:
        """What has changed since the last `changes`, or since the stream was restored or made.

        Numbers of pieces go on from there: changes may not be applied to what `state` gave.
        """


class StreamKind(Protocol):
    """Makes the streams of a flow, new ones and those of a checkpoint."""

    def new(self, name: str, lane: int) -> AnyStream: ...

    def restore(self, name: str, lane: int, state: StreamState) -> AnyStream:
        """`ValueError` (or whatever damaged content leads to) if the state cannot be used."""
