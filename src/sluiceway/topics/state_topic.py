"""A flow's state topic, read: by whoever opens a lane, and by those who only look.

Only committed records count, and states count when the commit record that follows them is met.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from sluiceway.errors import FlowError, ReopenError
from sluiceway.schemas.asleep import Asleep, AsleepInMemory
from sluiceway.schemas.state import StoredStream
from sluiceway.topics import kafka
from sluiceway.topics.kafka_writer import CALL_SECONDS
from sluiceway.topics.state_records import (
    COMMIT,
    OPEN,
    RUN,
    CommitRecord,
    Contents,
    DamagedError,
    OpenRecord,
    Place,
    RunRecord,
    assemble,
    is_state,
)
from sluiceway.topics.store import Glance, choices

DAY_MS = 86_400_000
STATE_TOPIC: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "segment.bytes": str(64 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.3",
    "delete.retention.ms": str(DAY_MS),  # a tombstone must outlast any restore that has met what it removes
}
BUFFER = 256 << 20
"""Bytes of states that are fetched ahead where memory is no matter."""


def _restoring(buffer: int) -> kafka.Config:
    return {"queued.max.messages.kbytes": buffer >> 10, "fetch.message.max.bytes": min(8 << 20, buffer)}


class Gathering(Protocol):
    """What becomes of the state records of a lane that is opened."""

    def take(self, records: Mapping[bytes, bytes | None]) -> None:
        """Newer ones, by key; None: it is gone."""

    def finish(self) -> tuple[Asleep, dict[Place, int]]:
        """The streams, and of states in more than one chunk in how many; a `DamagedError` if something is missing."""


class GatheredInMemory:
    """All of them by key."""

    def __init__(self) -> None:
        self._records: dict[bytes, bytes] = {}
        self.streams: dict[str, StoredStream] = {}

    def take(self, records: Mapping[bytes, bytes | None]) -> None:
        for key, value in records.items():
            if value is not None:
                self._records[key] = value
            else:
                self._records.pop(key, None)

    def finish(self) -> tuple[Asleep, dict[Place, int]]:
        records, self._records = self._records, {}
        self.streams, many = assemble(records)
        return AsleepInMemory(self.streams), many


@dataclass(frozen=True, slots=True)
class StateTopic:
    """The topic and how to reach it."""

    flow: str
    bootstrap: str
    config: kafka.Config
    info: kafka.TopicInfo

    def __str__(self) -> str:
        return f"the state topic {self.info.name!r}"


class StateReader:
    """Reads one partition of a state topic from some offset on, committed records only."""

    def __init__(
        self,
        topic: StateTopic,
        lane: int,
        start: int = OFFSET_BEGINNING,
        *,
        states: Gathering | None = None,
        buffer: int = BUFFER,
    ) -> None:
        """`states` takes the streams' states; without it they are passed over. `buffer`: bytes fetched ahead."""
        self._states = states
        self._topic = topic
        self._lane = lane
        self._consumer = kafka.reader(topic.bootstrap, {**_restoring(buffer), **topic.config})
        self._consumer.assign([TopicPartition(topic.info.name, lane, start)])
        self.next = 0
        """The offset of the next record, as far as is known."""
        self.at_end = False
        """Whether the end of the partition was the last thing that came."""
        self.contents = Contents()
        """As of the last commit met."""
        self._gathered: dict[bytes, bytes | None] = {}
        """State records that have just come, the newest of each key."""
        self._unfollowed = False
        """Whether states have come since the last commit record."""
        self._last = time.monotonic()

    def read(self, seconds: float = 0.03) -> bool:
        """Take in what has come; whether anything came, the end of the partition included."""
        messages = self._consumer.consume(5_000, seconds)
        for message in kafka.told(messages, self._topic.info.name):
            offset = message.offset()
            assert offset is not None
            self.at_end = message.error() is not None
            if self.at_end:
                self.next = max(self.next, offset)
                continue
            self.next = offset + 1
            key, value = message.key(), message.value()
            self._take(offset, key if isinstance(key, bytes) else b"", value if isinstance(value, bytes) else None)
        self._hand_on()
        if messages:
            self._last = time.monotonic()
        elif time.monotonic() - self._last > CALL_SECONDS:
            raise ReopenError(f"{self._topic}: the broker has handed over nothing for {CALL_SECONDS:.0f} s")
        return bool(messages)

    def low(self) -> int:
        """Where the partition begins."""
        return kafka.watermarks(self._consumer, self._topic.info.name, self._lane)[0]

    def heard(self) -> None:
        """Waiting is no silence of the broker."""
        self._last = time.monotonic()

    def _take(self, offset: int, key: bytes, value: bytes | None) -> None:
        try:
            if key == OPEN:
                self.contents.opened = None if value is None else OpenRecord.load(value)
            elif key == RUN:
                self.contents.run = None if value is None else RunRecord.load(value)
            elif key == COMMIT:
                self._unfollowed = False
                self.contents.commit = None if value is None else CommitRecord.load(value)
            elif not is_state(key):
                raise FlowError(f"a record of it with key {key[:40]!r} is damaged, or not Sluiceway's")
            elif self._states is not None:
                self._unfollowed = True
                self._gathered[key] = value
        except FlowError as problem:
            raise self._unusable(f"{problem} (offset {offset})") from None

    def _hand_on(self) -> None:
        """Only committed records come, and each commit ends with its commit record: `streams` looks whether it did."""
        if self._gathered:
            assert self._states is not None
            gathered, self._gathered = self._gathered, {}
            try:
                self._states.take(gathered)
            except DamagedError as problem:
                raise self._unusable(str(problem)) from None

    def streams(self) -> tuple[Asleep, dict[Place, int]]:
        """The streams, and of states in more than one chunk in how many. Called once, at the end."""
        assert self._states is not None
        try:
            if self._unfollowed:
                raise DamagedError("states stand in it that no commit record follows")
            return self._states.finish()
        except DamagedError as problem:
            raise self._unusable(str(problem)) from None

    def _unusable(self, problem: str) -> FlowError:
        return FlowError(
            f"{self._topic}, partition {self._lane}, cannot be used: {problem}; {choices(self._topic.flow)}"
        )

    def close(self) -> None:
        self._consumer.close()


class Follower:
    """The newest commits of some lanes, as they come."""

    def __init__(self, topic: StateTopic, lanes: Sequence[int]) -> None:
        self._readers: dict[int, StateReader] = {}
        self.commits: dict[int, CommitRecord | None] = {}
        for lane in lanes:
            found, start = _newest(topic, lane)
            self.commits[lane] = found.commit
            self._readers[lane] = StateReader(topic, lane, start)

    def poll(self) -> None:
        for lane, reader in self._readers.items():
            if not reader.read(0):
                reader.heard()
            self.commits[lane] = reader.contents.commit or self.commits[lane]

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()


def glance(topic: StateTopic, lane: int) -> Glance:
    """The newest open and commit records, found near the end: only opening a lane comes after its last commit."""
    found, _ = _newest(topic, lane)
    return found


def _newest(topic: StateTopic, lane: int) -> tuple[Glance, int]:
    """And where reading on would go on."""
    with closing(kafka.reader(topic.bootstrap, topic.config)) as consumer:
        low, high = kafka.watermarks(consumer, topic.info.name, lane)
    back = 8
    while True:
        start = max(low, high - back)
        with closing(StateReader(topic, lane, start)) as reader:
            while reader.next < high:
                reader.read()
            found = reader.contents
        if start == low or (found.commit is not None and found.opened is not None):
            return Glance(found.opened, found.commit, low), reader.next
        back *= 8


class _Noticed:
    """Whether there are any."""

    def __init__(self) -> None:
        self.any = False

    def take(self, records: Mapping[bytes, bytes | None]) -> None:
        self.any = self.any or any(value is not None for value in records.values())

    def finish(self) -> tuple[Asleep, dict[Place, int]]:
        raise AssertionError("they were not kept")


def holds_states(topic: StateTopic, lane: int) -> bool:
    """Looks no further than to the first of them."""
    states = _Noticed()
    with closing(StateReader(topic, lane, states=states)) as reader:
        while not (reader.at_end or states.any):
            reader.read()
    return states.any


def read(topic: StateTopic, lane: int) -> Contents:
    """Everything up to a commit that is met at the end.

    Never up to a bound chosen before: by the time it is reached, compaction may have removed what it needs. The end of
    committed records is the end of a transaction, so nothing is read by halves.
    """
    states = GatheredInMemory()
    with closing(StateReader(topic, lane, states=states)) as reader:
        while not reader.at_end:
            reader.read()
        reader.streams()
        return replace(reader.contents, streams=states.streams)
