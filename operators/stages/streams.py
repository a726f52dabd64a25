"""What a flow needs of a lane, and a lane of a stream, whatever the operator learns from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from sluiceway.schemas.asleep import Asleep
from sluiceway.schemas.lane import DeadLetter, LaneBatch, LaneOutput, OutRecord, RawRecords
from sluiceway.schemas.state import StoredChange, StreamChange, StreamState


@dataclass(slots=True)
class StreamOutput:
    """What one batch of one stream gave."""

    snapshots: list[OutRecord]
    verdicts: list[OutRecord] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)


class Finishing(Protocol):
    """One operator and its stages, as far as every lane has to know."""

    def final(self, position: int) -> OutRecord | None:
        """The snapshot at the end of bounded input, unless this version has one already; None changes nothing."""


class AnyStream(Finishing, Protocol):
    """One that goes through its instances by itself."""

    def process(self, batch: Any, raw: RawRecords) -> StreamOutput:
        """Learn from a batch; `raw` has the bytes of the records that may still be refused here."""

    def state(self) -> StreamState:
        """The whole state. It follows from the input alone: how often `changes` was asked for does not show."""

    def changes(self) -> StreamChange:
        """What has changed since the last `changes`, or since the stream was restored or made.

        Numbers of pieces go on from there: changes may not be applied to what `state` gave.
        """


Stream = TypeVar("Stream", bound=Finishing, covariant=True)


class StreamMaker(Protocol[Stream]):
    """Makes the streams of a flow, new ones and those of a checkpoint."""

    def new(self, name: str, lane: int) -> Stream: ...

    def restore(self, name: str, lane: int, state: StreamState) -> Stream:
        """`ValueError` (or whatever damaged content leads to) if the state cannot be used."""


class Memory(Protocol):
    """What a lane may use for its streams."""

    @property
    def size(self) -> int:
        """Bytes, as of now: other lanes come and go."""

    def close(self) -> None:
        """The lane needs none any longer."""


class AnyLane(Protocol):
    """All streams of one partition. `changes` is about those touched since, and of each about what has changed."""

    @property
    def position(self) -> int | None:
        """Where the input goes on; None if that is wherever the flow starts."""

    @property
    def wants_commit(self) -> bool:
        """Whether it cannot wait for the next commit's time."""

    @property
    def unfinished(self) -> bool:
        """At the end of the input: whether each further empty poll gives more final snapshots."""

    def restore(self, position: int | None, asleep: Asleep, memory: Memory | None = None) -> None:
        """Go on from what a store holds; of a lane that has done nothing yet. Without a `memory` there is no limit."""

    def process(self, batch: LaneBatch) -> LaneOutput: ...

    def changes(self) -> list[StoredChange]:
        """What a commit has to write: all that has changed since the last call, in order of birth."""

    def stream_state(self, name: str) -> StreamState | None:
        """One stream's whole state, as the store has it if nothing has touched it; None if there is no such stream."""

    def close(self) -> None:
        """Nothing will be asked of it any longer."""


class Streams(Protocol):
    """What all streams of a flow share."""

    def lane(self, topic: str, number: int) -> AnyLane:
        """A lane of the flow that has done nothing yet; `topic` is the input's name, for dead letters."""
