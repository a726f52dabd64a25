"""A flow's lane without a broker, and records for it: the decoder and the processor are made as the flow makes them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import psutil  # type: ignore[import-untyped]  # it has no types

from benchmarks.measure import cpu_seconds
from sluiceway.flows.memory import memory_of
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.progress import Progress
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.operators import registry
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.schemas.asleep import Asleep, AsleepInMemory
from sluiceway.schemas.lane import LaneOutput, RawPoll
from sluiceway.schemas.state import StoredChange, StoredStream
from sluiceway.topics.asleep_file import AsleepInFile
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.state_records import RunRecord
from sluiceway.topics.store import Restored

FEATURES, PRESENT, KEPT = 200, 20, 10
RECORDS = 1000
"""A poll."""
POOL = 10_000
"""Different values, which come again in other streams."""
TURN_SECONDS = 0.2


def flow_settings(operator: Mapping[str, Any], **sections: dict[str, Any]) -> Settings:
    """Of a flow that nobody runs."""
    topics = {role: f"kafka://nowhere:9092/{role}" for role in ("instances", "selections", "dead_letters")}
    flow = {"name": "bench", **sections.pop("flow", {})}
    topics |= sections.pop("topics", {})
    return Settings.parse({**sections, "flow": flow, "topics": topics, "operator": dict(operator)})


class MemoryLane:
    """A flow's only lane. It begins with the streams of `states`, asleep.

    `sections` are settings of the flow; without any it selects, but makes no snapshot.
    """

    def __init__(
        self, operator: Mapping[str, Any], states: dict[str, StoredStream] | None = None, /, **sections: dict[str, Any]
    ) -> None:
        settings = flow_settings(operator, **(sections or {"emit": {"every": 0}}))
        around = Surroundings(1, "", {}, None)
        self._decode = SELECTING.decode(settings, around, Progress())
        memory = memory_of(settings.flow.memory, 1)
        asleep: Asleep = AsleepInMemory(states or {}) if memory is None else AsleepInFile(memory.cache)
        restored = Restored(RunRecord(1, Bounds((0,), (None,))), None, asleep)
        self._lane = SELECTING.processor(settings, around)(0, restored)
        self._at = 0

    def poll(self, keys: Sequence[bytes | None], values: Sequence[bytes], *, end: bool = False) -> RawPoll:
        """The next records of its partition."""
        start, self._at = self._at, self._at + len(values)
        offsets, following = list(range(start, self._at)), list(range(start + 1, self._at + 1))
        return RawPoll(0, start, self._at, end, list(keys), list(values), offsets, following)

    def process(self, poll: RawPoll) -> LaneOutput:
        output = self._lane.process(self._decode(poll))
        assert not output.dead_letters
        if self._lane.wants_commit:
            self._lane.changes()
        return output

    def changes(self) -> Sequence[StoredChange]:
        return self._lane.changes()


def stored(changes: Sequence[StoredChange]) -> dict[str, StoredStream]:
    """What a store would give back."""
    return {change.stream: StoredStream(change.birth, change.head, dict(change.added)) for change in changes}


def operator(name: str) -> dict[str, Any]:
    """With its defaults, and k = 10 where a k is needed."""
    return {"name": name, "k": KEPT} if registry.needs(name, "k") else {"name": name}


def learners() -> list[str]:
    return [name for name, entry in registry.OPERATORS.items() if entry.kind is LEARNER]


def numbered(features: int) -> list[str]:
    width = len(str(features - 1))
    return [f"feature-{number:0{width}d}" for number in range(features)]


def values(names: Sequence[str], present: int = PRESENT, count: int = POOL) -> list[bytes]:
    """Records as they usually are. Labels are random, so a model learns as often in its last record as in its first."""
    rng = np.random.default_rng(7)
    made = []
    for number in range(count):
        chosen = [names[at] for at in rng.choice(len(names), present, replace=False).tolist()]
        x = dict(zip(chosen, rng.normal(size=present).tolist(), strict=True))
        y = 1 if rng.random() < 0.5 else -1
        made.append(orjson.dumps({"id": f"e-{number}", "ts": 1763251200000 + number, "x": x, "y": y}))
    return made


class Cycle:
    """Values over and over."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._values = values
        self._at = 0

    def take(self, count: int) -> list[bytes]:
        taken = [self._values[at % len(self._values)] for at in range(self._at, self._at + count)]
        self._at = (self._at + count) % len(self._values)
        return taken


def key(stream: int) -> bytes:
    return b"stream-%d" % stream


def feed(lane: MemoryLane, streams: Sequence[int], of: Cycle) -> None:
    """A record for each of these streams, in polls."""
    for start in range(0, len(streams), RECORDS):
        keys = [key(stream) for stream in streams[start : start + RECORDS]]
        lane.process(lane.poll(keys, of.take(len(keys))))


def microseconds(lane: MemoryLane, polls: Iterator[RawPoll]) -> float:
    """CPU time a record of decoding and learning, over as many polls as a turn's time has room for, two at least."""
    spent, records, done = 0.0, 0, 0
    while spent < TURN_SECONDS or done < 2:
        poll = next(polls)
        start = cpu_seconds()
        lane.process(poll)
        spent += cpu_seconds() - start
        records += len(poll.values)
        done += 1
    return spent * 1e6 / records


def resident() -> int:
    """Bytes of memory that this process has in use."""
    return int(psutil.Process(os.getpid()).memory_info().rss)
