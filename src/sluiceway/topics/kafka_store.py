"""A flow's store on Kafka: a compacted topic, written by the transaction that writes the output.

Partition `i` holds lane `i`. A lane is opened in this order, and no other: fence the predecessor, commit an open
record, read the partition up to that very record. What is read before the fence may still be changed by the fenced one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from uuid import uuid4

from sluiceway.errors import FlowError, ReopenError, SettingsError
from sluiceway.schemas.asleep import Asleep
from sluiceway.schemas.lane import LaneOutput
from sluiceway.schemas.state import StoredChange
from sluiceway.topics.asleep_file import AsleepInFile
from sluiceway.topics.directory_writer import DirectoryWriter
from sluiceway.topics.kafka_writer import KafkaOutput, TransactionalWriter
from sluiceway.topics.lost_state import refuse_emptied, refuse_lost
from sluiceway.topics.offsets import Offsets
from sluiceway.topics.state_records import (
    COMMIT,
    FIRST_BYTES,
    OPEN,
    RUN,
    CommitRecord,
    Contents,
    OpenRecord,
    Place,
    RunRecord,
    chunks,
    whole_head,
)
from sluiceway.topics.state_topic import GatheredInMemory, StateReader, StateTopic, glance, holds_states, read
from sluiceway.topics.store import (
    BelongsTo,
    Glance,
    LaneStore,
    Restored,
    Wanted,
    refuse_changed,
)
from sluiceway.topics.url import DirectoryTopic

logger = logging.getLogger("sluiceway.store")

CHUNK_OVERHEAD = 1024
"""Left free in a message beside a chunk."""
BATCH = 1000
"""Records handed to the producer at a time."""
SMALLEST_BUFFER = 2 << 20
"""Bytes of states fetched ahead, at least."""
PATIENCE_SECONDS = 5.0
RESTORING_SECONDS = 5.0
"""A restore that takes longer says now and then how far it is."""


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
        cache: int | None = None,
    ) -> None:
        self.topic = topic
        self.output = output
        self.belongs_to = belongs_to
        self.reads = reads
        """What the flow reads, as commit records name it."""
        self.directories = directories
        """Outputs that do not go to Kafka, by what they carry: how much of them is written stands in each commit."""
        self.offsets = offsets
        self.cache = cache
        """With it the streams of an opened lane lie in a file, of which so many bytes are kept in memory."""

    def glance(self, lane: int) -> Glance:
        return glance(self.topic, lane)

    def read(self, lane: int) -> Contents:
        return read(self.topic, lane)

    def holds_streams(self, lane: int) -> bool:
        return holds_states(self.topic, lane)

    def lane(self, lane: int, alive: Callable[[], bool]) -> LaneStore:
        return KafkaLane(lane, self, alive)


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
        self._run = RunRecord.none()
        self._member = uuid4().hex
        self._writer = TransactionalWriter(lane, store.output)
        self._asleep: Asleep | None = None
        self._written = 0

    # -- opening: fence, then read -------------------------------------------------------------------------------

    def open(self, wanted: Wanted) -> Restored:
        with self._fenced() as reader:
            found = reader.contents
            refuse_emptied(self._store.topic, self._lane, reader.low())
            self._asleep, self._many = reader.streams()
            self._refuse_strange(found, holds_streams=self._asleep.next_birth > 0)
            run = self._agree(wanted, reader)
        self._run = run
        self._open_files(found.commit)
        return Restored(run, found.commit, self._asleep)

    @contextmanager
    def _fenced(self) -> Iterator[StateReader]:
        """Fence whoever had the lane; what it had committed has been read."""
        topic = self._store.topic
        self._refuse_unwanted()
        self._writer.fence()
        self._refuse_unwanted()
        opened = OpenRecord.of_this_process(topic.flow, self._member)
        mine = self._writer.announce(topic.info.name, OPEN, opened.dump())
        with closing(self._reader()) as reader:
            tell_at = time.monotonic() + RESTORING_SECONDS
            while reader.next <= mine:
                self._refuse_unwanted()
                reader.read()
                if time.monotonic() > tell_at:
                    logger.info("lane %d is being restored: at %d of %d", self._lane, reader.next, mine)
                    tell_at += RESTORING_SECONDS
            found = reader.contents
            if found.opened is not None and found.opened.member != self._member:
                raise ReopenError(f"lane {self._lane}: another process has opened this lane of {topic.flow!r}")
            yield reader

    def _reader(self) -> StateReader:
        topic, cache = self._store.topic, self._store.cache
        if cache is None:
            return StateReader(topic, self._lane, states=GatheredInMemory())
        return StateReader(topic, self._lane, states=AsleepInFile(cache), buffer=max(cache, SMALLEST_BUFFER))

    def _open_files(self, commit: CommitRecord | None) -> None:
        if self._store.directories:
            self._files = DirectoryWriter(self._lane, self._store.directories, commit)
            if self._files.is_new:  # from where on they are written must be known before anything is
                self.commit({} if commit is None else commit.positions, (), final=commit is not None and commit.final)

    def _refuse_unwanted(self) -> None:
        if not self._alive():
            raise ReopenError(f"lane {self._lane} has gone to another process")

    def _refuse_strange(self, found: Contents, *, holds_streams: bool) -> None:
        topic = self._store.topic
        if found.commit is None:
            refuse_lost(topic, self._lane, self._store.offsets, fenced=True)
            return
        belongs = found.commit.belongs_to
        refuse_changed(str(topic), topic.flow, belongs, self._store.belongs_to, lambda: holds_streams)

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
        record = CommitRecord.of(self._run, positions, self._store.belongs_to, sizes, final=final)
        self._writer.commit(self._put(changes, record))
        if self._store.offsets is not None and positions:
            self._store.offsets.tell(self._lane, positions)

    def _put(self, changes: Iterable[StoredChange], commit: CommitRecord) -> int:
        """States, then the commit record, within the transaction; how many bytes."""
        batch, whole = _Batch(self._writer, self._store.topic.info.name, self._lane), self._chunk - FIRST_BYTES
        for change in changes:
            if change.is_head_alone and len(change.head) <= whole and not self._many:  # nearly all are
                batch.add(*whole_head(change.stream, change.head, change.birth))
                continue
            for key, value in self._records(change):
                batch.add(key, value)
        batch.send()
        batch.add(COMMIT, commit.dump())
        batch.send()
        return batch.size

    # -- filling: a whole state from elsewhere -------------------------------------------------------------------

    def fill(self, contents: Contents) -> None:
        """Write a whole state into an empty lane, as one transaction that `seal` commits."""
        with self._fenced() as reader:
            asleep, _ = reader.streams()
            if reader.contents.commit is not None or asleep.next_birth:
                raise SettingsError(f"{self._store.topic} holds a state already; `sluiceway reset FLOW` removes it")
        if contents.run is not None:
            record = {"key": RUN, "value": contents.run.dump()}
            self._writer.put(self._store.topic.info.name, self._lane, [record])
        if contents.commit is not None:
            self._written = self._put(contents.changes(), contents.commit)

    def fence(self) -> None:
        """No more than that: whoever had the lane can commit no longer."""
        self._writer.fence()

    def seal(self) -> None:
        """What was filled in counts from now on."""
        self._writer.commit(self._written)

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
        if self._asleep is not None:
            self._asleep.close()
        self._writer.close()
