"""The source of a flow: one part a worker, which gives one item a poll of each of its lanes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event

from bytewax.inputs import DynamicSource, StatelessSourcePartition

from sluiceway.flows.lane_run import Item
from sluiceway.flows.worker import IDLE_SECONDS, Worker

AT_ONCE = datetime.fromtimestamp(0, UTC)
"""However the clock is set: asked to come back at a later moment, the engine waits longer if the clock is set back."""


class WorkerPart(StatelessSourcePartition[Item]):
    """A worker's lanes. What it gives never leaves the worker: no step of a flow exchanges items."""

    def __init__(self, worker: Worker, at_end: Callable[[], None]) -> None:
        self._worker = worker
        self._at_end = at_end
        self._pause = Event()  # never set

    def next_batch(self) -> list[Item]:
        if self._worker.ended:
            if self._worker.is_last:
                self._at_end()
            raise StopIteration
        items = self._worker.step()
        if not items:
            self._pause.wait(IDLE_SECONDS)
        return items

    def next_awake(self) -> datetime:
        return AT_ONCE


class LaneSource(DynamicSource[Item]):
    """`make(index, count)` gives each worker its lanes; `at_end`, called when all have ended, may raise a problem."""

    def __init__(self, make: Callable[[int, int], Worker], at_end: Callable[[], None]) -> None:
        self._make = make
        self._at_end = at_end

    def build(self, step_id: str, worker_index: int, worker_count: int) -> WorkerPart:
        return WorkerPart(self._make(worker_index, worker_count), self._at_end)
