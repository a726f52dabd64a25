"""The source of a flow: one part a partition of the input topic, one item a poll."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

from sluiceway.errors import FlowError
from sluiceway.flows.progress import LaneProgress, Progress
from sluiceway.operators.adapters.failure import noted
from sluiceway.schemas.lane import RawPoll, lane_key
from sluiceway.topics.bounds import RECORDS_A_POLL

PAUSE = timedelta(milliseconds=20)
"""After a poll that took nearly all there was, the next waits: a small item costs as much as a big one."""


class Reader(Protocol):
    """Reads one partition from a position on."""

    position: int
    stop: int | None
    """The bounded partition ends before here."""

    def poll(self) -> RawPoll | None:
        """What has come since; None for nothing. `end` is set on the last poll of a bounded partition."""

    def close(self) -> None: ...


class LaneSource(StatefulSourcePartition[RawPoll, int]):
    """One lane's input."""

    def __init__(self, reader: Reader, stopping: Callable[[], bool], progress: LaneProgress) -> None:
        self._reader = reader
        self._stopping = stopping
        self._progress = progress
        self._ended = False
        self._awake: datetime | None = None

    @noted
    def next_batch(self) -> list[RawPoll]:
        if self._ended or self._stopping():
            raise StopIteration
        poll = self._reader.poll()
        if poll is None:
            self._awake = datetime.now(UTC) + PAUSE
            return []
        self._ended = poll.end
        self._progress.reached(poll.stop, len(poll.values))
        self._awake = datetime.now(UTC) + PAUSE if len(poll.values) < RECORDS_A_POLL // 2 and not poll.end else None
        return [poll]

    def next_awake(self) -> datetime | None:
        return self._awake

    def snapshot(self) -> int:
        return self._reader.position

    def close(self) -> None:
        self._reader.close()


class TopicSource(FixedPartitionedSource[RawPoll, int]):
    """The input topic, whichever its kind: `open_reader(partition, position)` knows."""

    def __init__(
        self,
        partitions: int,
        open_reader: Callable[[int, int | None], Reader],
        stopping: Callable[[], bool],
        progress: Progress | None = None,
    ) -> None:
        self._partitions = partitions
        self._open_reader = open_reader
        self._stopping = stopping
        self._progress = progress or Progress()

    def list_parts(self) -> list[str]:
        self._stopping()  # every worker comes by here, also one that will read nothing: the flow has begun
        return [lane_key(partition) for partition in range(self._partitions)]

    @noted
    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> LaneSource:
        partition = int(for_part)
        if partition >= self._partitions:
            raise FlowError(f"the checkpoint knows partition {partition}, but the topic has {self._partitions}")
        reader = self._open_reader(partition, resume_state)
        return LaneSource(reader, self._stopping, self._progress.open(partition, reader.position, reader.stop))
