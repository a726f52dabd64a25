"""What travels between the steps of a flow: one item is one poll of one lane.

A lane is an input partition with everything that follows from it: RawPoll -> LaneBatch -> LaneOutput. Each item says
from which position (`start`) to which (`stop`) of the partition it reaches, so every step can check that it misses
nothing. A position is the offset of the next record to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, overload

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
    offsets: list[int] | range
    next_offsets: list[int] | range
    arrow: frozenset[int] = frozenset()
    """Rows that hold Arrow, which a message's `content-type` says; all others hold JSON."""
    redriven: Mapping[int, bytes] = field(default_factory=dict)
    """By offset, what a record that was a dead letter before says of that."""


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
    unseen: Callable[[bytes | None], str] = field(default=lambda _: "", compare=False)
    """What to add of a later label that nothing waits for: it may be an instance whose features the flow does not
    see."""


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


@dataclass(slots=True, eq=False)
class OutRecords(Sequence[OutRecord]):
    """Many records as parallel lists, as a whole poll makes them: an object each would cost more than its bytes."""

    offsets: list[int]
    keys: list[bytes]
    values: list[bytes]

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> OutRecord: ...
    @overload
    def __getitem__(self, at: slice) -> OutRecords: ...
    def __getitem__(self, at: int | slice) -> OutRecord | OutRecords:
        if isinstance(at, slice):
            return OutRecords(self.offsets[at], self.keys[at], self.values[at])
        return OutRecord(self.offsets[at], self.keys[at], self.values[at])

    def __iter__(self) -> Iterator[OutRecord]:
        return map(OutRecord, self.offsets, self.keys, self.values)

    @property
    def largest(self) -> int:
        """Bytes of the largest; there is one at least."""
        largest: int = max(map(add, map(len, self.keys), map(len, self.values)))
        return largest


@dataclass(slots=True)
class LaneOutput:
    """What one poll gave, each list in the order of the input records it was made from."""

    lane: int
    start: int
    stop: int
    end: bool
    selections: list[OutRecord] = field(default_factory=list)
    predictions: Sequence[OutRecord] = field(default_factory=list)
    verdicts: list[OutRecord] = field(default_factory=list)
    requests: list[OutRecord] = field(default_factory=list)
    dead_letters: list[OutRecord] = field(default_factory=list)
    finals: list[OutRecord] = field(default_factory=list)
    """Final snapshots: for the selections topic, after everything else; they belong to position `stop`."""
    # for those who watch the flow
    records: int = 0
    """Messages read."""
    instances: int = 0
    """Instances, or columns, that could be used."""
    learnt: int = 0
    """Labelled instances that were predicted and then learnt from."""
    mistakes: int = 0
    """Of these, how many were predicted wrongly."""

    def positions(self, reads: str) -> dict[str, int]:
        """The next offset to read, by what is read."""
        return {reads: self.stop}

    @property
    def lists(self) -> tuple[Sequence[OutRecord], ...]:
        """All records, by what they are."""
        return self.selections, self.predictions, self.verdicts, self.requests, self.dead_letters, self.finals
