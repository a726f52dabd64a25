"""What a commit of one lane costs on a real broker, and what a restore does: they follow what was touched.

Run with `python -m benchmarks checkpoint`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson

from benchmarks.measure import Result, cpu_seconds, median
from sluiceway.flows.preflight import look_around
from sluiceway.flows.process import belongs_to, open_store
from sluiceway.flows.progress import Progress
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.operators.stages.bank_lane import BankLane
from sluiceway.schemas.lane import LaneOutput, RawPoll
from sluiceway.schemas.state import StoredChange
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.store import LaneStore, Restored, Wanted
from tests.support.broker import any_broker
from tests.support.kafka import Topics

FEATURES, PRESENT = 200, 20
TOUCHED = 100
ROUNDS = 20


class OneLane:
    """A flow's only lane, driven by hand: its streams, and its store on the broker."""

    def __init__(self, bootstrap: str, topics: Topics, operator: dict[str, Any]) -> None:
        url = f"kafka://{bootstrap}/"
        self._settings = Settings.parse(
            {
                "flow": {"name": f"bench-{uuid.uuid4().hex[:8]}"},
                "topics": {
                    "instances": url + topics("instances"),
                    "selections": url + topics("selections"),
                    "dead_letters": url + topics("dead"),
                },
                "operator": operator,
                "emit": {"every": 0},
            }
        )
        self._around = look_around(self._settings, create=True)
        self._decode = SELECTING.decode(self._settings, self._around, Progress())
        self._rng = np.random.default_rng(5)
        self._names = [f"feature-{number:03d}" for number in range(FEATURES)]
        self._at = 0
        self.open()

    def open(self) -> Restored:
        belongs = belongs_to(self._settings, self._around, SELECTING)
        self._store: LaneStore = open_store(self._settings, self._around, belongs).lane(0, lambda: True)
        restored = self._store.open(Wanted(1, 1, None, lambda before: Bounds((0,), (None,))))
        lane = SELECTING.processor(self._settings, self._around)(0, restored)
        assert isinstance(lane, BankLane)
        self.lane = lane
        return restored

    def touch(self, streams: range) -> None:
        """An instance for each of these streams."""
        for start in range(streams.start, streams.stop, 1000):
            numbers = range(start, min(start + 1000, streams.stop))
            self._feed([f"stream-{number}".encode() for number in numbers], [self._instance() for _ in numbers])

    def _feed(self, keys: list[bytes | None], values: list[bytes | None]) -> None:
        offsets = list(range(self._at, self._at + len(values)))
        following = [offset + 1 for offset in offsets]
        poll = RawPoll(0, self._at, self._at + len(values), False, keys, values, offsets, following)
        self.lane.process(self._decode(poll))
        self._at += len(values)

    def _instance(self) -> bytes:
        present = self._rng.choice(FEATURES, PRESENT, replace=False).tolist()
        x = {self._names[at]: value for at, value in zip(present, self._rng.normal(size=PRESENT).tolist(), strict=True)}
        return orjson.dumps({"x": x, "y": 1 if self._rng.random() < 0.5 else -1})

    def grow(self, features: int) -> None:
        """One stream whose model holds so many features."""
        for start in range(0, features, 50_000):
            names = (f"feature-{number:08d}" for number in range(start, min(start + 50_000, features)))
            self._feed([b"large"], [orjson.dumps({"x": dict.fromkeys(names, 1.0), "y": 1})])

    def commit(self) -> list[StoredChange]:
        changes = self.lane.changes()
        output = LaneOutput(0, self._at, self._at, end=False)
        self._store.write(output)
        self._store.commit({"instances": self._at}, changes, final=False)
        return changes


def main() -> list[Result]:
    with _broker() as (bootstrap, topics):
        return [_touched(bootstrap, topics), _restored(bootstrap, topics), _large(bootstrap, topics)]


@contextmanager
def _broker() -> Iterator[tuple[str, Topics]]:
    with any_broker() as bootstrap:
        topics = Topics(bootstrap)
        try:
            yield bootstrap, topics
        finally:
            topics.clear()


def _touched(bootstrap: str, topics: Topics) -> Result:
    """The sizes take turns, so that a noisy moment hits all of them alike."""
    result = Result(f"A commit of one lane, {TOUCHED} streams touched")
    lanes = {size: OneLane(bootstrap, topics, {"name": "ofs", "k": 10}) for size in (1_000, 25_000)}
    for size, lane in lanes.items():
        lane.touch(range(size))
        lane.commit()
    cpu: dict[int, list[float]] = {size: [] for size in lanes}
    wait: dict[int, list[float]] = {size: [] for size in lanes}
    bytes_: dict[int, list[float]] = {size: [] for size in lanes}
    for round_ in range(ROUNDS):
        for size, lane in lanes.items():
            first = round_ * TOUCHED % (size - TOUCHED)
            lane.touch(range(first, first + TOUCHED))
            used, began = cpu_seconds(), time.monotonic()
            changes = lane.commit()
            cpu[size].append(cpu_seconds() - used)
            wait[size].append(time.monotonic() - began)
            bytes_[size].append(sum(change.size for change in changes))
    for size in lanes:
        result.rows.append(
            {
                "streams in the lane": float(size),
                "CPU ms": median(cpu[size]) * 1000,
                "ms": median(wait[size]) * 1000,
                "KB of states": median(bytes_[size]) / 1000,
                "CPU against 1,000 streams": median(cpu[size]) / median(cpu[1_000]),
            }
        )
    return result


def _restored(bootstrap: str, topics: Topics) -> Result:
    result = Result("Opening a lane of many streams: fence, restore")
    for size in (1_000, 100_000):
        lane = OneLane(bootstrap, topics, {"name": "ofs", "k": 10})
        lane.touch(range(size))
        used, began = cpu_seconds(), time.monotonic()
        lane.commit()
        first = cpu_seconds() - used, time.monotonic() - began
        used, began = cpu_seconds(), time.monotonic()
        restored = lane.open()
        assert restored.asleep.next_birth == size
        result.rows.append(
            {
                "streams": float(size),
                "s": time.monotonic() - began,
                "CPU s": cpu_seconds() - used,
                "MB of states": _size(restored) / 1e6,
                "s to commit all of them": first[1],
                "CPU s to commit all of them": first[0],
            }
        )
    return result


def _size(restored: Restored) -> int:
    return sum(stream.size for stream in restored.asleep.born(0, restored.asleep.next_birth).values())


def _large(bootstrap: str, topics: Topics) -> Result:
    """A learner that holds a weight for every name it has met."""
    result = Result("A large model: commit and restore of one stream")
    for features in (700_000, 3_500_000):
        lane = OneLane(bootstrap, topics, {"name": "pa", "max_features": 2**23})
        lane.grow(features)
        changes, commit = _timed(lane.commit)
        size = sum(change.size for change in changes)
        restored, restore = _timed(lane.open)
        assert _size(restored) == size
        result.rows.append(
            {"features": float(features), "MB": size / 1e6, "s to commit": commit, "s to restore": restore}
        )
    return result


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    began = time.monotonic()
    given = run()
    return given, time.monotonic() - began


