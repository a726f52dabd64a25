"""Where records come from: every partition of a topic, on a broker or in a directory, as one feed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple, Protocol, cast

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import ClusterMetadata

from sluiceway.errors import FlowError, SettingsError, SluicewayError
from sluiceway.topics import kafka
from sluiceway.topics.directory import partition_count, partition_path
from sluiceway.topics.directory_reader import DirectoryReader, directory_bounds
from sluiceway.topics.positions import Position, parse_position
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic, parse_topic

LOOK_FOR_PARTITIONS_SECONDS = 30.0
"""Partitions added to a topic are found within this time, and read from their beginning."""
READ_SECONDS = 60.0
"""How long a topic that is read to its end may give nothing."""
LOOK_SECONDS = 1.0
"""How long such a look may take: whoever polls waits for it, in an outage in vain."""


Headers = Sequence[tuple[str, bytes | None]]


class Entry(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    ts: int = 0
    """The message's own time; told only with headers, which instances and snapshots have not."""


class Feed(Protocol):
    """All partitions of a topic, each in its order, from a start on; committed records only."""

    @property
    def caught_up(self) -> bool:
        """It has come to where the topic ended when it was opened, or to its stop if that lies before."""

    @property
    def ended(self) -> bool:
        """It has come to its stop."""

    @property
    def reachable(self) -> bool:
        """Not while it knows that nobody answers."""

    def poll(self, seconds: float) -> Sequence[Entry]:
        """What has come, waiting at most so long for something."""

    def close(self) -> None: ...


def open_feed(url: str, start: str | int, stop: str | int | None, config: kafka.Config | None = None) -> Feed:
    """A feed from `start` to `stop` (None = for ever), both decided now."""
    topic, begin = parse_topic(url), parse_position(start)
    end = None if stop is None else parse_position(stop)
    if isinstance(topic, KafkaTopic):
        return KafkaFeed(topic, config or {}, begin, end)
    if topic.path.is_file():
        raise SettingsError(f"{topic} is a file; a topic is the directory that holds _topic.json")
    partitions = partition_count(topic)
    if partitions is None:
        raise SettingsError(f"there is no topic {topic}: {topic.path / '_topic.json'} does not exist")
    if begin.kind == "offset":
        for partition in range(partitions):
            _check_line_start(topic, partition, begin.value)
    return DirectoryFeed(topic, partitions, str(start), None if stop is None else str(stop))


def read_all(topic: Topic, config: kafka.Config) -> Iterator[Entry]:
    """Everything that a topic holds as of now; of each partition in order."""
    with closing(open_feed(str(topic), "beginning", "end", config)) as feed:
        heard = time.monotonic()
        while not feed.ended:
            entries = feed.poll(0.2)
            yield from entries
            if entries:
                heard = time.monotonic()
            elif time.monotonic() - heard > READ_SECONDS:
                raise FlowError(f"{topic} could not be read to its end: nothing came for {READ_SECONDS:.0f} s")


def _targets(starts: Sequence[int], ends: Sequence[int], stops: Sequence[int] | None) -> dict[int, int]:
    """How far each partition must be read to have caught up; those where nothing is to be read left out."""
    nearest = ends if stops is None else map(min, ends, stops)
    return {partition: at for partition, at in enumerate(nearest) if at > starts[partition]}


# -- directories -----------------------------------------------------------------------------------------------------


def _check_line_start(topic: DirectoryTopic, partition: int, offset: int) -> None:
    path = partition_path(topic, partition)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(offset - 1, 0))
            starts_a_line = offset == 0 or file.read(1) == b"\n"
    except OSError as problem:
        raise FlowError(f"{path} cannot be read: {problem.strerror}") from None
    if offset > size:
        raise SettingsError(f"start {offset} lies beyond the end of {path}, which has {size} bytes")
    if not starts_a_line:
        raise SettingsError(f"start {offset} is not where a line of {path} begins; offsets in a directory are bytes")


class DirectoryFeed:
    """Tails the partition files."""

    def __init__(self, topic: DirectoryTopic, partitions: int, start: str, stop: str | None) -> None:
        # the end is looked at once: what is appended meanwhile must not lie between two ideas of it
        to_end = directory_bounds(topic, partitions, start, "end")
        ends = [end or 0 for end in to_end.stops]
        stops = None
        if stop is not None:
            ours = to_end if stop == "end" else directory_bounds(topic, partitions, start, stop)
            stops = [at or 0 for at in ours.stops]
        self._behind = _targets(to_end.starts, ends, stops)
        self._readers: dict[int, DirectoryReader] = {}
        try:
            for partition, begin in enumerate(to_end.starts):
                until = None if stops is None else stops[partition]
                self._readers[partition] = DirectoryReader(topic, partition, begin, until)
        except BaseException:
            self.close()
            raise

    @property
    def caught_up(self) -> bool:
        return not self._behind

    @property
    def ended(self) -> bool:
        return not self._readers

    @property
    def reachable(self) -> bool:
        return True

    def poll(self, seconds: float) -> Sequence[Entry]:
        found: list[Entry] = []
        for partition, reader in list(self._readers.items()):
            poll = reader.poll()
            if poll is None:
                continue
            for offset, value in zip(poll.offsets, poll.values, strict=True):
                found.append(Entry(partition, offset, None, value))
            if poll.end or poll.stop >= self._behind.get(partition, poll.stop + 1):
                self._behind.pop(partition, None)
            if poll.end:
                self._readers.pop(partition).close()
        if not found and self._readers:
            time.sleep(seconds)
        return found

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers = {}


# -- brokers ---------------------------------------------------------------------------------------------------------


class KafkaFeed:
    """One consumer, assigned to every partition; those added later are found."""

    def __init__(self, topic: KafkaTopic, config: kafka.Config, start: Position, stop: Position | None) -> None:
        self._topic = topic
        log = logging.Logger(kafka.logger.name)
        log.parent = kafka.logger
        log.disabled = True  # until the broker answers: our own sentence says that it does not
        self._config = config
        self._log = log
        self._lost = kafka.Lost()
        self._open()
        try:
            self._partitions = self._count(first=True)
            log.disabled = False
            # the end is looked at once: what comes meanwhile must not lie between two ideas of it
            ends = self._resolve(Position("end"))
            starts = self._resolve(start)
            if start.kind == "offset":
                self._check_held(start.value)
            stops = ends if stop == Position("end") else None if stop is None else self._resolve(stop)
        except BaseException:
            self._consumer.close()
            raise
        self._behind = _targets(starts, ends, stops)
        self._stops = None if stops is None else {p: at for p, at in enumerate(stops) if at > starts[p]}
        wanted = range(self._partitions) if self._stops is None else self._stops
        self._positions = {partition: starts[partition] for partition in wanted}
        self._assign()
        self._next_look = time.monotonic() + LOOK_FOR_PARTITIONS_SECONDS

    def _open(self) -> None:
        self._consumer = kafka.reader(self._topic.bootstrap, self._config, self._lost, self._log)

    def _assign(self) -> None:
        places = [TopicPartition(self._topic.name, partition, at) for partition, at in self._positions.items()]
        self._consumer.assign(places)

    def _count(self, *, first: bool = False) -> int:
        def ask(seconds: float) -> ClusterMetadata:
            told: ClusterMetadata = self._consumer.list_topics(self._topic.name, timeout=seconds)
            return told

        if first:
            found = kafka.first_answer(self._topic.bootstrap, self._lost, ask, self._consumer.poll)
        else:
            try:
                found = ask(LOOK_SECONDS)
            except KafkaException as problem:
                raise kafka.failed(f"topic {self._topic.name!r} cannot be looked up", problem) from problem
        told = found.topics[self._topic.name]
        if told.error is not None:
            if told.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise SettingsError(f"topic {self._topic.name!r} does not exist on {self._topic.bootstrap}")
            raise FlowError(f"topic {self._topic.name!r} cannot be read: {kafka.sentence(told.error)}")
        return len(told.partitions)

    def _resolve(self, position: Position) -> list[int]:
        return kafka.resolve(self._consumer, self._topic.name, self._partitions, position)

    def _check_held(self, offset: int) -> None:
        for partition in range(self._partitions):
            low, high = kafka.watermarks(self._consumer, self._topic.name, partition)
            if not low <= offset <= high:
                raise SettingsError(
                    f"start {offset} lies outside of what partition {partition} of topic {self._topic.name!r} holds,"
                    f" {low} to {high}"
                )

    @property
    def caught_up(self) -> bool:
        return not self._behind

    @property
    def ended(self) -> bool:
        return self._stops is not None and not self._stops

    @property
    def reachable(self) -> bool:
        return not self._lost.silent

    def poll(self, seconds: float) -> Sequence[Entry]:
        self._look_for_partitions()
        first = self._consumer.poll(seconds)
        messages = [] if first is None else [first, *self._consumer.consume(1000, 0)]
        if not messages and self._lost.for_good():
            self._consumer.close()
            self._open()
            self._assign()
        return [entry for message in kafka.told(messages, self._topic.name) if (entry := self._entry(message))]

    def _entry(self, message: Message) -> Entry | None:
        partition, offset = message.partition(), message.offset()
        self._lost.heard()
        assert partition is not None
        assert offset is not None
        at_end = message.error() is not None
        beyond = self._stops is not None and offset >= self._stops.get(partition, 0)
        # the end of a partition is told past transaction markers, which no record follows
        reached = offset if at_end else offset + 1
        self._positions[partition] = reached
        _forget_reached(self._behind, partition, reached)
        if self._stops is not None:
            _forget_reached(self._stops, partition, reached)
        if at_end or beyond:
            return None
        key, value = message.key(), message.value()
        assert not isinstance(key, str)
        assert not isinstance(value, str)
        headers = message.headers()
        if not headers:
            return Entry(partition, offset, key, value)
        return Entry(partition, offset, key, value, cast("Headers", headers), message.timestamp()[1])

    def _look_for_partitions(self) -> None:
        if self._stops is not None or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_FOR_PARTITIONS_SECONDS
        try:
            count = self._count()
        except SluicewayError:
            return  # an outage, or a broker that does not know its topics yet: the next look will tell
        if count > self._partitions:
            added = range(self._partitions, count)
            self._consumer.incremental_assign([TopicPartition(self._topic.name, at, OFFSET_BEGINNING) for at in added])
            self._positions |= dict.fromkeys(added, OFFSET_BEGINNING)
            self._partitions = count

    def close(self) -> None:
        self._consumer.close()


def _forget_reached(marks: dict[int, int], partition: int, reached: int) -> None:
    if reached >= marks.get(partition, reached + 1):
        del marks[partition]
