"""Reading selections: follow them as they come (`subscribe`), or take what holds now (`latest`). No engine in here.

>>> for snapshot in subscribe("kafka://localhost:9092/selections", flow="spam"):       # doctest: +SKIP
...     print(snapshot.stream, snapshot.version, [selected.feature for selected in snapshot.selected])

Both read a topic on a broker or a directory topic, only what is committed, and know what stands in such a topic:

- Records that come again, as they do after a crash of a flow that delivers at least once, are hidden.
- A tombstone ends a stream: `latest` does not have it any more; should it begin anew, its versions may too.
- One stream lives in one partition. The same flow and stream in a second one means that two flows share a name, or that
  partitions were added; merging the two would be a lie, so it is a `SplitStreamError`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import orjson
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition
from pydantic import ValidationError

from sluiceway import kafka as broker
from sluiceway.errors import FlowError, SettingsError, UnreachableError
from sluiceway.flows.topics.directory import DirectoryReader, directory_bounds, partition_count
from sluiceway.flows.topics.url import DirectoryTopic, KafkaTopic, parse_topic
from sluiceway.positions import Position, parse_position
from sluiceway.schemas.records import Snapshot

__all__ = ["SplitStreamError", "StreamName", "Subscription", "latest", "subscribe"]

WAIT_SECONDS = 0.2
"""How long one look waits for more: the time within which a cancelled subscription ends."""
LOOK_FOR_PARTITIONS_SECONDS = 30.0
"""Partitions added to a topic are found within this time, and read from their beginning."""
CURRENT = "current"


class StreamName(NamedTuple):
    """Whose selection: the stream, and the flow that selects."""

    flow: str
    stream: str

    def __str__(self) -> str:
        return f"{self.flow}/{self.stream}"


class SplitStreamError(FlowError):
    """Snapshots of one stream stand in two partitions: whose they are cannot be told."""

    def __init__(self, topic: object, name: StreamName, partitions: tuple[int, int]) -> None:
        self.name = name
        self.partitions = partitions
        super().__init__(
            f"{topic}: snapshots of {name} stand in the partitions {partitions[0]} and {partitions[1]}; do two flows"
            f" share the name {name.flow!r}, or were partitions added to its input?"
        )


def subscribe(
    url: str,
    flow: str | None = None,
    stream: str | None = None,
    start: str | int = "end",
    *,
    stop: str | int | None = None,
    after: Mapping[tuple[str, str], int] | None = None,
    timeout: float | None = None,
    cancel: threading.Event | None = None,
    kafka: broker.Config | None = None,
) -> Subscription:
    """Snapshots as they come: each (flow, stream, version) once, the versions of a stream rising.

    url
        `kafka://host:9092/selections` or `dir:path/to/selections`.
    flow, stream
        Only this flow's, only this stream's.
    start
        Where to begin: `end` (what comes from now on), `beginning`, `current` (first the newest snapshot of every
        stream, as `latest` has it, then what comes, with nothing missed in between), or a position: an offset N, -N
        for the last N records of each partition, s@MILLISECONDS or an ISO-8601 time.
    stop
        Where to end, a position as of now; usually `end`. None = never.
    after
        The newest version already handled, by (flow, stream): it and those before are left out. With `beginning` or
        `current` a service that writes down what it has handled goes on where it was.
    timeout
        End after so many seconds in which no snapshot came.
    cancel
        Set it from another thread to end.
    kafka
        Settings for the Kafka client, under librdkafka's names.

    The topic is looked up at once: an unreachable broker is an `UnreachableError` here, a missing topic a
    `SettingsError`. Later outages are waited out; nothing is missed, as long as the topic still holds it.

    >>> import pathlib, tempfile
    >>> from sluiceway.schemas import encode
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "_topic.json").write_text('{"partitions": 1}')
    >>> with (folder / "part-00000.jsonl").open("wb") as lines:
    ...     for version in (100, 200, 200, 300):        # 200 comes again, as after a crash
    ...         made = encode.snapshot(
    ...             offset=version, flow="spam", stream="mail", operator="ofs", version=version, seen=version,
    ...             generation=0, ts=0, reason="interval", n_selected=1, selected=[("free", 1.5, 100)], entered=[],
    ...             left=[], metrics={}, params={}, source={"instances": (0, version)},
    ...         )
    ...         _ = lines.write(made.value + b"\\n")
    >>> [snapshot.version for snapshot in subscribe(f"dir:{folder}", start="beginning", stop="end")]
    [100, 200, 300]
    >>> [snapshot.version for snapshot in subscribe(f"dir:{folder}", start="current", stop="end")]
    [300]
    >>> latest(f"dir:{folder}")["spam", "mail"].selected[0].feature
    'free'
    """
    feed = _open(url, start, stop, kafka)
    return Subscription(feed, _Streams(url, flow, stream, after or {}), timeout, cancel)


def latest(
    url: str,
    flow: str | None = None,
    stream: str | None = None,
    *,
    timeout: float = 60.0,
    kafka: broker.Config | None = None,
) -> dict[tuple[str, str], Snapshot]:
    """What is selected now, by flow and stream: the newest snapshot of each, those that were retired left out.

    Reads the whole topic up to its end as of now, which a compacted topic keeps short; a `FlowError` if the broker does
    not hand it over within `timeout` seconds. The names are tuples (`StreamName`): `latest(url)["spam", "mail"]`.
    """
    feed, streams = _open(url, CURRENT, "end", kafka), _Streams(url, flow, stream, {})
    deadline = time.monotonic() + timeout
    found: dict[tuple[str, str], Snapshot] = {}
    try:
        while not feed.caught_up:
            if time.monotonic() > deadline:
                raise FlowError(f"{url} could not be read to its end within {timeout:g} s")
            _keep_newest(found, feed.poll(WAIT_SECONDS), streams)
    finally:
        feed.close()
    return found


class Subscription(Iterator[Snapshot]):
    """What `subscribe` gives: an iterator; also a context manager that lets go of the broker at its end."""

    def __init__(
        self, feed: _Feed, streams: _Streams, timeout: float | None, cancel: threading.Event | None
    ) -> None:
        self._feed = feed
        self._streams = streams
        self._timeout = timeout
        self._cancel = cancel
        self._ready: deque[Snapshot] = deque()
        self._closed = False

    def __next__(self) -> Snapshot:
        patience = None if self._timeout is None else time.monotonic() + self._timeout
        current: dict[tuple[str, str], Snapshot] = {}
        try:
            while not self._ready:
                cancelled = self._cancel is not None and self._cancel.is_set()
                tired = patience is not None and time.monotonic() >= patience
                if self._closed or cancelled or tired or self._feed.ended:
                    raise StopIteration
                behind = not self._feed.caught_up
                entries = self._feed.poll(WAIT_SECONDS)
                if behind:
                    _keep_newest(current, entries, self._streams)
                    if self._feed.caught_up:
                        self._ready.extend(current.values())
                else:
                    self._ready.extend(filter(None, map(self._streams.take, entries)))
            return self._ready.popleft()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go. Iterating further gives nothing."""
        if not self._closed:
            self._closed = True
            self._ready.clear()
            self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# -- what the records mean -------------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """A record of a selections topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class _Streams:
    """What has been met of each stream: where it lives, and its newest version."""

    def __init__(
        self, topic: object, flow: str | None, stream: str | None, after: Mapping[tuple[str, str], int]
    ) -> None:
        self._topic = topic
        self._flow = flow
        self._stream = stream
        self._versions = {StreamName(*name): version for name, version in after.items()}
        self._homes: dict[StreamName, int] = {}

    def take(self, entry: _Entry) -> Snapshot | None:
        """The snapshot, if it is new and wanted."""
        name = self.name(entry)
        if self._flow not in (None, name.flow) or self._stream not in (None, name.stream):
            return None
        home = self._homes.setdefault(name, entry.partition)
        if home != entry.partition:
            raise SplitStreamError(self._topic, name, (home, entry.partition))
        if entry.value is None:
            self._homes.pop(name)
            self._versions.pop(name, None)
            return None
        try:
            snapshot = Snapshot.model_validate_json(entry.value)
        except ValidationError as problem:
            raise self._strange(entry, str(problem.errors()[0]["msg"])) from None
        if snapshot.version <= self._versions.get(name, -1):
            return None
        self._versions[name] = snapshot.version
        return snapshot

    def name(self, entry: _Entry) -> StreamName:
        if entry.key is not None:
            flow, slash, stream = entry.key.decode(errors="replace").partition("/")
            if slash:
                return StreamName(flow, stream)
        elif entry.value is not None:
            try:
                content = orjson.loads(entry.value)
                return StreamName(content["flow"], content["stream"])
            except (ValueError, KeyError, TypeError):
                pass
        raise self._strange(entry, "neither its key nor its content names a flow and a stream")

    def _strange(self, entry: _Entry, reason: str) -> FlowError:
        return FlowError(
            f"{self._topic}, partition {entry.partition}, offset {entry.offset}: this is no snapshot that this version"
            f" of Sluiceway knows ({reason}); is it a selections topic?"
        )


def _keep_newest(found: dict[tuple[str, str], Snapshot], entries: Iterable[_Entry], streams: _Streams) -> None:
    for entry in entries:
        if (snapshot := streams.take(entry)) is not None:
            found[StreamName(snapshot.flow, snapshot.stream)] = snapshot
        elif entry.value is None:
            found.pop(streams.name(entry), None)


# -- where the records come from -------------------------------------------------------------------------------------


class _Feed(Protocol):
    """All partitions of a topic, from a start on."""

    @property
    def ended(self) -> bool:
        """A bounded feed has come to its stop."""

    @property
    def caught_up(self) -> bool:
        """A feed started at `current` has come to where the topic ended when it was opened."""

    def poll(self, seconds: float) -> Iterable[_Entry]:
        """What has come, waiting at most so long for something."""

    def close(self) -> None: ...


def _open(url: str, start: str | int, stop: str | int | None, config: broker.Config | None) -> _Feed:
    topic = parse_topic(url)
    current = start == CURRENT
    begin = parse_position("beginning" if current else start)
    end = None if stop is None else parse_position(stop)
    if isinstance(topic, KafkaTopic):
        return _KafkaFeed(topic, config or {}, begin, end, current=current)
    return _DirectoryFeed(topic, "beginning" if current else str(start), None if stop is None else str(stop), current)


class _DirectoryFeed:
    def __init__(self, topic: DirectoryTopic, start: str, stop: str | None, current: bool) -> None:
        partitions = partition_count(topic)
        if partitions is None:
            raise SettingsError(f"there is no topic {topic}: {topic.path / '_topic.json'} does not exist")
        bounds = directory_bounds(topic, partitions, start, stop)
        self._behind = dict(enumerate(directory_bounds(topic, partitions, "end", None).starts)) if current else {}
        self._behind = {partition: mark for partition, mark in self._behind.items() if mark}
        self._readers = {
            partition: DirectoryReader(topic, partition, bounds.starts[partition], bounds.stops[partition])
            for partition in range(partitions)
        }

    @property
    def ended(self) -> bool:
        return not self._readers

    @property
    def caught_up(self) -> bool:
        return not self._behind

    def poll(self, seconds: float) -> Iterable[_Entry]:
        found: list[_Entry] = []
        for partition, reader in list(self._readers.items()):
            poll = reader.poll()
            if poll is None:
                continue
            if poll.stop >= self._behind.get(partition, poll.stop + 1):
                del self._behind[partition]
            for offset, value in zip(poll.offsets, poll.values, strict=True):
                found.append(_Entry(partition, offset, None, value))
            if poll.end:
                self._readers.pop(partition).close()
        if not found and self._readers:
            time.sleep(seconds)
        return found

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers = {}


class _KafkaFeed:
    def __init__(
        self, topic: KafkaTopic, config: broker.Config, start: Position, stop: Position | None, *, current: bool
    ) -> None:
        self._topic = topic
        self._consumer = broker.new_consumer(
            broker.client_config(
                topic.bootstrap,
                {"group.id": "sluiceway-client", "fetch.wait.max.ms": 100, **config},
                auto_offset_reset="error",
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                enable_partition_eof=True,
                isolation_level="read_committed",
            )
        )
        try:
            self._partitions = self._count()
            starts = self._resolve(start)
            stops = None if stop is None else self._resolve(stop)
            ends = self._resolve(Position("end")) if current else []
        except BaseException:
            self._consumer.close()
            raise
        self._bounded = stops is not None
        self._stops = {partition: at for partition, at in enumerate(stops or ()) if at > starts[partition]}
        self._behind = {partition: at for partition, at in enumerate(ends) if at > starts[partition]}
        wanted = self._stops if self._bounded else range(self._partitions)
        self._consumer.assign([TopicPartition(topic.name, partition, starts[partition]) for partition in wanted])
        self._next_look = time.monotonic() + LOOK_FOR_PARTITIONS_SECONDS

    def _count(self) -> int:
        try:
            found = self._consumer.list_topics(self._topic.name, timeout=broker.ANSWER_SECONDS)
        except KafkaException as problem:
            raise UnreachableError(
                f"no Kafka broker answers at {self._topic.bootstrap} within {broker.ANSWER_SECONDS:.0f} s:"
                f" {broker.sentence(problem)}"
            ) from problem
        told = found.topics[self._topic.name]
        if told.error is not None:
            if told.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise SettingsError(f"topic {self._topic.name!r} does not exist on {self._topic.bootstrap}")
            raise FlowError(f"topic {self._topic.name!r} cannot be read: {broker.sentence(told.error)}")
        return len(told.partitions)

    def _resolve(self, position: Position) -> list[int]:
        return broker.resolve(self._consumer, self._topic.name, self._partitions, position)

    @property
    def ended(self) -> bool:
        return self._bounded and not self._stops

    @property
    def caught_up(self) -> bool:
        return not self._behind

    def poll(self, seconds: float) -> Iterable[_Entry]:
        self._look_for_partitions()
        first = self._consumer.poll(seconds)
        messages = [] if first is None else [first, *self._consumer.consume(1000, 0)]
        return [entry for message in messages if (entry := self._entry(message)) is not None]

    def _entry(self, message: Message) -> _Entry | None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None and error.code() in broker.PASSING:
            return None
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise FlowError(f"topic {self._topic.name!r} cannot be read: {broker.sentence(error)}")
        assert partition is not None
        assert offset is not None
        beyond = self._bounded and offset >= self._stops.get(partition, 0)
        # the end of a partition is told past transaction markers, which no record follows
        reached = offset if error is not None else offset + 1
        for marks in (self._stops, self._behind):
            if reached >= marks.get(partition, reached + 1):
                del marks[partition]
        if error is not None or beyond:
            return None
        key, value = message.key(), message.value()
        assert not isinstance(key, str)
        assert not isinstance(value, str)
        return _Entry(partition, offset, key, value)

    def _look_for_partitions(self) -> None:
        if self._bounded or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_FOR_PARTITIONS_SECONDS
        try:
            count = self._count()
        except FlowError:
            return  # an outage: the next look will tell
        if count > self._partitions:
            added = range(self._partitions, count)
            self._consumer.incremental_assign([TopicPartition(self._topic.name, at, OFFSET_BEGINNING) for at in added])
            self._partitions = count

    def close(self) -> None:
        self._consumer.close()
