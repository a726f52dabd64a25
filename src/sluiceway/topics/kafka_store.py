"""A flow's store on Kafka: a compacted topic, written by the transaction that writes the output.

Partition `i` holds lane `i`. A lane is opened in this order, and no other: fence the predecessor, commit an open
record, read the partition up to that very record. What is read before the fence may still be changed by the fenced one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from sluiceway.errors import FlowError, ReopenError
from sluiceway.schemas.lane import LaneOutput
from sluiceway.schemas.state import StoredChange, StoredStream
from sluiceway.topics import kafka
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory_writer import DirectoryWriter
from sluiceway.topics.kafka_writer import CALL_SECONDS, KafkaOutput, TransactionalWriter
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
    chunks,
    is_state,
)
from sluiceway.topics.store import (
    BelongsTo,
    Glance,
    LaneStore,
    Restored,
    Wanted,
    choices,
    first_difference,
    other_models,
)
from sluiceway.topics.url import DirectoryTopic

logger = logging.getLogger("sluiceway.store")

DAY_MS = 86_400_000
STATE_TOPIC: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "segment.bytes": str(64 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.3",
    "delete.retention.ms": str(DAY_MS),  # a tombstone must outlast any restore that has met what it removes
}
CHUNK_OVERHEAD = 1024
"""Left free in a message beside a chunk."""
BATCH = 1000
"""Records handed to the producer at a time."""
PATIENCE_SECONDS = 5.0
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


class KafkaStore:
    """The store of a flow whose output goes to Kafka."""

    def __init__(
        self,
        topic: StateTopic,
        output: KafkaOutput,
        belongs_to: BelongsTo,
        *,
        reads: str,
        directories: Mapping[str, DirectoryTopic],
        offsets: Offsets | None = None,
    ) -> None:
        self.topic = topic
        self.output = output
        self.belongs_to = belongs_to
        self.reads = reads
        """What the flow reads, as commit records name it."""
        self.directories = directories
        """Outputs that do not go to Kafka, by what they carry: how much of them is written stands in each commit."""
        self.offsets = offsets

    def glance(self, lane: int) -> Glance:
        return glance(self.topic, lane)

    def read(self, lane: int) -> Contents:
        return read(self.topic, lane)

    def lane(self, lane: int, alive: Callable[[], bool]) -> LaneStore:
        return KafkaLane(lane, self, alive)


class Offsets:
    """The flow's consumer group, for lag tools alone: told after each commit, so it may be behind and never ahead."""

    def __init__(self, flow: str, bootstrap: str, config: kafka.Config, topic: str) -> None:
        self._topic = topic
        self._lock = threading.Lock()
        self._consumer = kafka.new_consumer(
            kafka.client_config(bootstrap, config, group_id=flow, enable_auto_commit=False)
        )

    def told(self, lane: int) -> int | None:
        """What was told last, by whomever."""
        try:
            [found] = kafka.committed(self._consumer, [TopicPartition(self._topic, lane)], CALL_SECONDS)
        except KafkaException as problem:
            raise ReopenError(f"the broker does not tell the group's offsets: {kafka.sentence(problem)}") from problem
        return found.offset if found.offset >= 0 else None

    def tell(self, lane: int, position: int) -> None:
        """Nothing depends on it: whatever goes wrong is passed over."""
        with self._lock:
            try:
                self._consumer.commit(offsets=[TopicPartition(self._topic, lane, position)], asynchronous=True)
                self._consumer.poll(0)
            except KafkaException as problem:
                logger.debug("the group is not told of lane %d: %s", lane, kafka.sentence(problem))

    def close(self) -> None:
        self._consumer.close()


@dataclass(slots=True)
class _Batch:
    """State records on their way to the producer."""

    writer: TransactionalWriter
    topic: str
    lane: int
    waiting: list[dict[str, object]] = field(default_factory=list)
    size: int = 0

    def add(self, key: bytes, value: bytes | None) -> None:
        self.waiting.append({"key": key, "value": value})
        self.size += len(key) + len(value or b"")
        if len(self.waiting) >= BATCH:
            self.send()

    def send(self) -> None:
        waiting, self.waiting = self.waiting, []
        if waiting:
            self.writer.put(self.topic, self.lane, waiting)


class KafkaLane:
    """One lane of it, to be written."""

    def __init__(self, lane: int, store: KafkaStore, alive: Callable[[], bool]) -> None:
        self._lane = lane
        self._store = store
        self._alive = alive
        self._files: DirectoryWriter | None = None
        self._chunk = store.topic.info.max_message_bytes - CHUNK_OVERHEAD
        self._many: dict[Place, int] = {}
        """States of more than one chunk, and in how many they are stored."""
        self._run = RunRecord(0, Bounds((), ()))
        self._member = uuid4().hex
        self._writer = TransactionalWriter(lane, store.output)
        self._written = 0

    # -- opening: fence, then read -------------------------------------------------------------------------------

    def open(self, wanted: Wanted) -> Restored:
        topic = self._store.topic
        self._refuse_unwanted()
        self._writer.fence()
        self._refuse_unwanted()
        opened = OpenRecord.of_this_process(topic.flow, self._member)
        mine = self._writer.announce(topic.info.name, OPEN, opened.dump())
        with closing(StateReader(topic, self._lane)) as reader:
            while reader.next <= mine:
                self._refuse_unwanted()
                reader.read()
            found = reader.contents
            if found.opened is not None and found.opened.member != self._member:
                raise ReopenError(f"lane {self._lane}: another process has opened this lane of {topic.flow!r}")
            self._refuse_strange(found)
            streams, self._many = reader.streams()
            run = self._agree(wanted, reader)
        self._run = run
        self._open_files(found.commit)
        return Restored(run, found.commit, streams)

    def _open_files(self, commit: CommitRecord | None) -> None:
        if self._store.directories:
            self._files = DirectoryWriter(self._lane, self._store.directories, commit)
            if self._files.is_new:  # from where on they are written must be known before anything is
                self.commit({} if commit is None else commit.positions, (), final=commit is not None and commit.final)

    def _refuse_unwanted(self) -> None:
        if not self._alive():
            raise ReopenError(f"lane {self._lane} has gone to another process")

    def _refuse_strange(self, found: Contents) -> None:
        topic = self._store.topic
        refuse_emptied(topic, self._lane)
        if found.commit is None:
            refuse_lost(topic, self._lane, self._store.offsets, fenced=True)
            return
        difference = first_difference(found.commit.belongs_to, self._store.belongs_to)
        if difference is not None:
            raise other_models(str(topic), topic.flow, *difference)

    def _agree(self, wanted: Wanted, reader: StateReader) -> RunRecord:
        """The run that all lanes are about: whoever opens lane 0 begins it, the others wait for it."""
        before = reader.contents.run
        if self._lane == 0 and not wanted.accepts(before):
            run = wanted.begin(before)
            for lane in range(wanted.lanes):
                self._writer.put(self._store.topic.info.name, lane, [{"key": RUN, "value": run.dump()}])
            self._writer.commit()
            return run
        patience = time.monotonic() + PATIENCE_SECONDS
        while not wanted.accepts(reader.contents.run):
            self._refuse_unwanted()
            reader.read(0.2)
            reader.heard()
            if time.monotonic() > patience:
                logger.warning("lane %d waits for the owner of lane 0 to begin the run", self._lane)
                patience += 60.0
        run_found = reader.contents.run
        assert run_found is not None
        return run_found

    # -- writing -------------------------------------------------------------------------------------------------

    def write(self, output: LaneOutput) -> None:
        if self._files is not None:
            self._files.write(output)
        self._writer.write(output)

    def commit(self, positions: Mapping[str, int], changes: Sequence[StoredChange], *, final: bool) -> None:
        sizes = {} if self._files is None else self._files.sync()
        batch = _Batch(self._writer, self._store.topic.info.name, self._lane)
        for change in changes:
            for key, value in self._records(change):
                batch.add(key, value)
        batch.send()
        record = CommitRecord.of(self._run, positions, self._store.belongs_to, sizes, final=final)
        batch.add(COMMIT, record.dump())
        batch.send()
        self._writer.commit(batch.size)
        if self._store.offsets is not None and positions:
            self._store.offsets.tell(self._lane, positions[self._store.reads])

    def _records(self, change: StoredChange) -> Iterator[tuple[bytes, bytes | None]]:
        stream, birth = change.stream, change.birth
        for piece, data in change.added.items():
            yield from self._chunked(Place(stream, piece), data, birth)
        for piece in change.dropped:
            place = Place(stream, piece)
            for chunk in range(self._many.pop(place, 1)):
                yield place.key(chunk), None
        yield from self._chunked(Place(stream, None), change.head, birth)

    def _chunked(self, place: Place, data: bytes, birth: int) -> Iterator[tuple[bytes, bytes | None]]:
        count = 0
        for part in chunks(data, birth, self._chunk):
            yield place.key(count), part
            count += 1
        if self._many:
            for chunk in range(count, self._many.pop(place, 1)):
                yield place.key(chunk), None
        if count > 1:
            self._many[place] = count

    def park(self, reason: str) -> None:
        topic = self._store.topic
        try:
            self._writer.abort()
            parked = replace(OpenRecord.of_this_process(topic.flow, self._member), parked=reason)
            self._writer.announce(topic.info.name, OPEN, parked.dump())
        except FlowError as problem:
            logger.debug("lane %d is parked, but its store does not know: %s", self._lane, problem)

    def close(self) -> None:
        if self._files is not None:
            self._files.close()
        self._writer.close()


# -- looking without opening ------------------------------------------------------------------------------------------


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
            return Glance(found.opened, found.commit), reader.next
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


def refuse_emptied(topic: StateTopic, lane: int) -> None:
    """Compaction removes records, but only deleting them moves a partition's beginning: then states are missing."""
    with closing(kafka.reader(topic.bootstrap, topic.config)) as consumer:
        low, _ = kafka.watermarks(consumer, topic.info.name, lane)
    if low > 0:
        raise FlowError(
            f"{topic} has lost records of partition {lane} (it begins at offset {low}): was it emptied? Restore it"
            f" (`sluiceway restore`); or {choices(topic.flow)}"
        )


def refuse_lost(topic: StateTopic, lane: int, offsets: Offsets | None, *, fenced: bool = False) -> None:
    """A lane without a commit is new, or its state was lost; the flow's group may know.

    The group is asked before the topic is looked at once more: another process may make its first commit just now.
    Unless the lane is `fenced`, its owner's last commit may be decided and not visible yet, though the group was told.
    """
    told = None if offsets is None else offsets.told(lane)
    if told is None or (not fenced and _is_undecided(topic, lane)):
        return
    if glance(topic, lane).commit is None:
        raise FlowError(
            f"{topic} holds no commit of partition {lane}, but the consumer group {topic.flow!r} says that the flow has"
            f" come to offset {told}: was the topic deleted, or is it the store of an earlier release? Restore it"
            f" (`sluiceway restore`); or {choices(topic.flow)}"
        )


def _is_undecided(topic: StateTopic, lane: int) -> bool:
    """Whether the partition holds records of a transaction that readers do not know the end of."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        config = kafka.client_config(
            topic.bootstrap, {"group.id": "sluiceway-reader", **topic.config}, isolation_level=isolation
        )
        with closing(kafka.new_consumer(config)) as consumer:
            ends.append(kafka.watermarks(consumer, topic.info.name, lane)[1])
    return ends[0] < ends[1]
