"""The sink of a flow: one part a lane, writing to partition `lane` of every output topic.

An epoch ends with `snapshot()` of each lane that wrote in it. Nothing of the next epoch is written before all of them
are done, so the first call may send off the commits of every lane at once; each then waits for its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition

from sluiceway.operators.adapters.failure import noted
from sluiceway.schemas.lane import LaneOutput, lane_key

WriterState = dict[str, Any]


class Writer(Protocol):
    """Writes one lane's output to topics of one kind."""

    def write(self, output: LaneOutput) -> None: ...

    def commit(self) -> WriterState:
        """Make durable what was written since the last commit; runs in a thread of its own, one call at a time."""

    def close(self) -> None:
        """Let go. Also runs while a crash unwinds: nothing may be flushed or committed here."""


class LaneSink(StatefulSinkPartition[LaneOutput, list[WriterState]]):
    """One lane's output, to one writer a kind of topic."""

    def __init__(self, writers: Sequence[Writer], epoch: _Epoch) -> None:
        self._writers = writers
        self._epoch = epoch

    @noted
    def write_batch(self, items: list[LaneOutput]) -> None:
        self._epoch.touch(self)
        for item in items:
            for writer in self._writers:
                writer.write(item)

    def commit(self) -> list[WriterState]:
        return [writer.commit() for writer in self._writers]

    @noted
    def snapshot(self) -> list[WriterState]:
        return self._epoch.committed(self)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class _Epoch:
    """The lanes of one worker that wrote in the current epoch, and their commits under way."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._touched: list[LaneSink] = []
        self._commits: dict[LaneSink, Future[list[WriterState]]] = {}

    def touch(self, lane: LaneSink) -> None:
        if lane not in self._touched:
            self._touched.append(lane)

    def committed(self, lane: LaneSink) -> list[WriterState]:
        if self._touched:
            self._commits = {touched: self._pool.submit(touched.commit) for touched in self._touched}
            self._touched = []
        return self._commits.pop(lane).result()


class TopicSink(FixedPartitionedSink[LaneOutput, list[WriterState]]):
    """All output topics together: `open_writers(lane, states)` makes a lane's writers, anew or where they stood."""

    def __init__(self, lanes: int, open_writers: Callable[[int, list[WriterState] | None], Sequence[Writer]]) -> None:
        self._lanes = lanes
        self._open_writers = open_writers
        self._pool = ThreadPoolExecutor(max_workers=max(lanes, 1), thread_name_prefix="lane-commit")
        self._epochs: dict[int, _Epoch] = {}
        """By worker thread; not thread-local, which the engine's own threads lose each time they let go of Python."""

    def list_parts(self) -> list[str]:
        return [lane_key(lane) for lane in range(self._lanes)]

    def part_fn(self, item_key: str) -> int:
        return int(item_key)  # lane keys sort as their numbers do, so this is the index among the sorted parts

    @noted
    def build_part(self, step_id: str, for_part: str, resume_state: list[WriterState] | None) -> LaneSink:
        epoch = self._epochs.setdefault(threading.get_ident(), _Epoch(self._pool))
        return LaneSink(self._open_writers(int(for_part), resume_state), epoch)
