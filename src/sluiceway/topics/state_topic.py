"""A flow's state topic, read: by whoever opens a lane, and by those who only look.

Only committed records count, and states count when the commit record that follows them is met.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from sluiceway.errors import FlowError, ReopenError
from sluiceway.schemas.state import StoredStream
from sluiceway.topics import kafka
from sluiceway.topics.kafka_writer import CALL_SECONDS
from sluiceway.topics.state_records import (
    COMMIT,
    OPEN,
    RUN,
    CommitRecord,
    Contents,
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
RESTORING: kafka.Config = {"queued.max.messages.kbytes": 262_144, "fetch.message.max.bytes": 8_388_608}


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
        self, topic: StateTopic, lane: int, start: int = OFFSET_BEGINNING, *, with_states: bool = True
    ) -> None:
        self._with_states = with_states
        self._topic = topic
        self._lane = lane
        self._consumer = kafka.reader(topic.bootstrap, {**RESTORING, **topic.config})
        self._consumer.assign([TopicPartition(topic.info.name, lane, start)])
        self.next = 0
        """The offset of the next record, as far as is known."""
        self.at_end = False
        """Whether the end of the partition was the last thing that came."""
        self.contents = Contents()
        """As of the last commit met."""
        self._states: dict[bytes, bytes] = {}
        """State records by key, as of the last commit met."""
        self._uncommitted: list[tuple[bytes, bytes | None]] = []
        """Those since: they count when their commit record comes."""
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
                self._apply()
                self.contents.commit = None if value is None else CommitRecord.load(value)
            elif not is_state(key):
                raise FlowError(f"a record of it with key {key[:40]!r} is damaged, or not Sluiceway's")
            elif self._with_states:
                self._uncommitted.append((key, value))
        except FlowError as problem:
            raise FlowError(
                f"{self._topic}, partition {self._lane}, cannot be used: {problem} (offset {offset});"
                f" {choices(self._topic.flow)}"
            ) from None

    def _apply(self) -> None:
        states = self._states
        for key, value in self._uncommitted:
            if value is not None:
                states[key] = value
            else:
                states.pop(key, None)
        self._uncommitted.clear()

    def streams(self) -> tuple[dict[str, StoredStream], dict[Place, int]]:
        """The streams, and of states in more than one chunk in how many. Called once, at the end."""
        try:
            if self._uncommitted:
                raise FlowError("states stand in it that no commit record follows")
            return assemble(self._states)
        except FlowError as problem:
            raise FlowError(
                f"{self._topic}, partition {self._lane}, cannot be used: {problem}; {choices(self._topic.flow)}"
            ) from None
        finally:
            self._states.clear()

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
            self._readers[lane] = StateReader(topic, lane, start, with_states=False)

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
        with closing(StateReader(topic, lane, start, with_states=False)) as reader:
            while reader.next < high:
                reader.read()
            found = reader.contents
        if start == low or (found.commit is not None and found.opened is not None):
            return Glance(found.opened, found.commit, low), reader.next
        back *= 8


def read(topic: StateTopic, lane: int) -> Contents:
    """Everything up to a commit that is met at the end.

    Never up to a bound chosen before: by the time it is reached, compaction may have removed what it needs. The end of
    committed records is the end of a transaction, so nothing is read by halves.
    """
    with closing(StateReader(topic, lane)) as reader:
        while not reader.at_end:
            reader.read()
        streams, _ = reader.streams()
        return replace(reader.contents, streams=streams)
