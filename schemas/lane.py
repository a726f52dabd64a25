"""What travels between the steps of a flow: one item is one poll of one lane.

A lane is an input partition with everything that follows from it: RawPoll -> LaneBatch -> LaneOutput. Each item says
from which position (`start`) to which (`stop`) of the partition it reaches, so every step can check that it misses
nothing. A position is the offset of the next record to read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # columns are compiled code's: the client does without
    from sluiceway.schemas.instance_columns import Columns


RawRecords = dict[int, tuple[bytes | None, bytes | None]]
"""Key and value by offset, as they came."""


def lane_key(lane: int) -> str:
    """The lane as a key of state and routing; keys sort as their numbers do."""
    return f"{lane:05d}"


@dataclass(slots=True)
class RawPoll:
    """Messages as they came: parallel lists."""

    lane: int
    start: int
    stop: int
    end: bool
    """The bounded input ends here: final snapshots are due."""
    keys: list[bytes | None]
    values: list[bytes | None]
    offsets: list[int]
    next_offsets: list[int]
    arrow: frozenset[int] = frozenset()
    """Rows that hold Arrow, which a message's `content-type` says; all others hold JSON."""


class DeadLetter(NamedTuple):
    """A record that could not be used, its bytes untouched, and why."""

    offset: int
    key: bytes | None
    value: bytes | None
    error_class: str
    message: str
    stage: str
    headers: tuple[tuple[str, bytes], ...] = ()
    """Those of its own without which it cannot be read."""


@dataclass(slots=True)
class LaneBatch:
    """A poll decoded."""

    lane: int
    start: int
    stop: int
    end: bool
    streams: list[tuple[str, Any]]
    """What the flow's operator learns from, stream by stream, where it is not instances."""
    dead_letters: list[DeadLetter]
    raw: RawRecords = field(default_factory=dict)
    """Records that the operator may still refuse: a later label that nothing waits for, a column that does not fit."""
    columns: Columns | None = None
    """Of a flow of instances: the rows of all streams. They hold until the decoder has its next poll."""


class OutRecord(NamedTuple):
    """A record for partition `lane` of an output topic, made from the input record at `offset`."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def size(self) -> int:
        """Bytes on the wire, roughly."""
        size = len(self.key or b"") + len(self.value or b"")
        return size + sum(len(name) + len(v) + 10 for name, v in self.headers) if self.headers else size


@dataclass(slots=True)
class LaneOutput:
    """What one poll gave, each list in the order of the input records it was made from."""

    lane: int
    start: int
    stop: int
    end: bool
    selections: list[OutRecord] = field(default_factory=list)
    predictions: list[OutRecord] = field(default_factory=list)
    verdicts: list[OutRecord] = field(default_factory=list)
    dead_letters: list[OutRecord] = field(default_factory=list)
    finals: list[OutRecord] = field(default_factory=list)
    """Final snapshots: for the selections topic, after everything else; they belong to position `stop`."""

    @property
    def lists(self) -> tuple[list[OutRecord], ...]:
        """All records, by what they are."""
        return self.selections, self.predictions, self.verdicts, self.dead_letters, self.finals
