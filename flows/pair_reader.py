"""A lane's instances and labels read as one input, in whatever order they come.

The topic of which fewer records wait for the other is read first, so that neither runs far ahead. A record is given up
only after the other topic has been read to where it ended when the record's time was over: as long as its other half
may stand there already, it waits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from sluiceway.operators.stages.pairs import INSTANCES, LABELS, SIDES, Pairs, Side
from sluiceway.schemas.lane import RawPoll
from sluiceway.topics.reader import PartitionReader

LOOK_SECONDS = 0.2
"""Between two looks at where a topic ends."""


@dataclass(slots=True)
class PairPoll(RawPoll):
    """Records of one side. `start` and `stop` are positions of the instances, whichever side it is."""

    side: Side = INSTANCES
    labels_stop: int = 0
    settled: Mapping[Side, int] = field(default_factory=dict)
    """Of a side, up to which record it is to be given up what still waits."""


class Look(NamedTuple):
    """Records of `side` are to be given up once the other topic has been read up to `mark`."""

    side: Side
    up_to: int
    mark: int


class Joining(Protocol):
    """The lane's processor, as far as its reader needs to know it."""

    pairs: Pairs

    @property
    def ready(self) -> bool:
        """Whether it has something to write that needs no input."""


class PairReader:
    """Both topics' partitions of one lane."""

    def __init__(self, lane: int, instances: PartitionReader, labels: PartitionReader, joining: Joining) -> None:
        self.position, self.stop = instances.position, instances.stop
        self._lane = lane
        self._readers = instances, labels
        self._joining = joining
        self._ended = [False, False]
        self._look: Look | None = None
        self._next_look = 0.0

    def poll(self) -> PairPoll | None:
        self._look = self._look or self._looked()
        if self._look is not None and self._reached(self._look):
            settled, self._look = {self._look.side: self._look.up_to}, None
            return self._poll(self._nothing(), INSTANCES, settled)
        for side in self._order():
            if self._ended[side]:
                continue
            poll = self._readers[side].poll()
            if poll is not None:
                self._ended[side] = poll.end
                start, self.position = self.position, self._readers[INSTANCES].position
                poll.start, poll.stop, poll.end = start, self.position, all(self._ended)
                return self._poll(poll, side, {})
        return self._poll(self._nothing(), INSTANCES, {}) if self._joining.ready else None

    def _order(self) -> tuple[Side, Side]:
        if self._look is not None:
            first: Side = LABELS if self._look.side == INSTANCES else INSTANCES
        else:
            waiting = self._joining.pairs.waiting
            first = LABELS if waiting(LABELS) <= waiting(INSTANCES) else INSTANCES
        return (first, INSTANCES if first == LABELS else LABELS)

    def _looked(self) -> Look | None:
        """Where the other topic ends, if records of one are to be given up."""
        pairs = self._joining.pairs
        for side in SIDES:
            up_to = pairs.due(side)
            if up_to is not None:
                if time.monotonic() < self._next_look:
                    return None
                self._next_look = time.monotonic() + LOOK_SECONDS
                return Look(side, up_to, self._readers[1 - side].end())
        return None

    def _reached(self, look: Look) -> bool:
        other = 1 - look.side
        return self._ended[other] or self._readers[other].position >= look.mark

    def _nothing(self) -> RawPoll:
        return RawPoll(self._lane, self.position, self.position, False, [], [], [], [])

    def _poll(self, poll: RawPoll, side: Side, settled: Mapping[Side, int]) -> PairPoll:
        at = self._readers[LABELS].position
        return PairPoll(
            self._lane, poll.start, poll.stop, poll.end, poll.keys, poll.values, poll.offsets, poll.next_offsets,
            poll.arrow, poll.redriven, side, at, settled,
        )  # fmt: skip

    def close(self) -> None:
        for reader in self._readers:
            reader.close()
