"""What a recovery store or a topic holds, read without disturbing whoever uses it."""

from __future__ import annotations

import fcntl
import pickle
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.recovery import MANIFEST, read_checkpoint, read_json
from sluiceway.operators import registry
from sluiceway.operators.stages.column_stream import selector_state
from sluiceway.schemas.state import StoredStream, unpack_stream
from sluiceway.topics import kafka
from sluiceway.topics.directory import partition_count, partition_path
from sluiceway.topics.url import DirectoryTopic, Topic

SOURCE_STEP, LANES_STEP = ".source", ".lanes"
READ_SECONDS = 15.0


# -- stores ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamReport:
    """A stream's model as of the last whole checkpoint; None where this program cannot read it."""

    lane: int
    stream: str
    version: int | None
    """Labelled instances (or columns) learnt; of a windowed flow up to its newest window's end."""
    selected: int | None
    seen: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class StoreReport:
    """A recovery store."""

    directory: str
    manifest: dict[str, Any]
    """What the store belongs to: flow, operator, parameters, input."""
    clean: bool
    """The last run ended by itself or was stopped."""
    running: bool
    bounds: dict[str, Any] | None
    """Of the run under way or interrupted."""
    epoch: int
    """The next to begin."""
    positions: dict[int, int]
    """Where reading goes on, by partition."""
    streams: list[StreamReport]


def is_store(directory: Path) -> bool:
    return (directory / MANIFEST).is_file()


def read_store(directory: Path) -> StoreReport:
    """Everything up to the last whole checkpoint, also of a store in use."""
    manifest = read_json(directory / MANIFEST)
    run = directory / "run.json"
    epoch, states = read_checkpoint(directory)
    positions = {int(key): pickle.loads(state) for (step, key), state in states.items() if step.endswith(SOURCE_STEP)}
    lanes = {int(key): pickle.loads(state) for (step, key), state in states.items() if step.endswith(LANES_STEP)}
    return StoreReport(
        directory=str(directory),
        manifest=manifest,
        clean=not run.exists(),
        running=any(_is_held(path) for path in directory.glob("process-*.lock")),
        bounds=read_json(run) if run.exists() else None,
        epoch=epoch,
        positions=dict(sorted(positions.items())),
        streams=[
            _stream(lane, name, StoredStream(*stored), str(manifest.get("operator")))
            for lane, content in sorted(lanes.items())
            for name, stored in content["streams"].items()
        ],
    )


def _stream(lane: int, name: str, stored: StoredStream, operator: str) -> StreamReport:
    version = selected = seen = None
    try:
        state = unpack_stream(stored)
        head = state.head
        seen = head.get("seen")
        if "since" in head:  # a windowed flow's: its selectors live for one window, what they selected lives on
            return StreamReport(lane, name, head["snapshots"]["version"], len(head["since"]), seen, stored.size)
        model = registry.get(operator).cls.from_state(head["model"] if "model" in head else selector_state(state))
        version, selected = model.version, len(model.selected)
    except (SettingsError, ValueError, KeyError):  # an operator or a state of another version of this program
        pass
    return StreamReport(lane, name, version, selected, seen, stored.size)


def _is_held(path: Path) -> bool:
    with path.open("r") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


# -- topics ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordReport:
    """One record of a topic."""

    offset: int
    key: str | None
    value: str | None
    ts: int | None = None
    """The message's own time, on Kafka."""


@dataclass(frozen=True, slots=True)
class PartitionReport:
    partition: int
    start: int
    end: int
    """Offsets; bytes, in a directory."""
    records: int
    """On Kafka at most so many: markers of transactions and compacted records have offsets too."""
    first: RecordReport | None = None
    last: RecordReport | None = None


@dataclass(frozen=True, slots=True)
class TopicReport:
    topic: str
    kind: str
    """"kafka" or "directory"."""
    partitions: list[PartitionReport] = field(default_factory=list)


def read_topic(topic: Topic, settings: kafka.Config) -> TopicReport:
    """How much there is, and the first and the last record of each partition."""
    if isinstance(topic, DirectoryTopic):
        number = partition_count(topic)
        if number is None:
            raise SettingsError(f"there is no topic {topic}: {topic.path / '_topic.json'} does not exist")
        return TopicReport(str(topic), "directory", [_file(topic, partition) for partition in range(number)])
    info = kafka.describe_topics(topic.bootstrap, settings, [topic.name])[topic.name]
    if info is None:
        raise SettingsError(f"topic {topic.name!r} does not exist on {topic.bootstrap}")
    with closing(kafka.reader(topic.bootstrap, settings)) as consumer:
        partitions = [_partition(consumer, topic.name, partition) for partition in range(info.partitions)]
    return TopicReport(str(topic), "kafka", partitions)


def _file(topic: DirectoryTopic, partition: int) -> PartitionReport:
    path = partition_path(topic, partition)
    first = last = None
    records = end = at = 0
    try:
        with path.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    at, end = end, end + len(line)
                    first = first or (at, line)
                    last = (at, line)
                    records += 1
    except OSError as problem:
        raise FlowError(f"{path} cannot be read: {problem.strerror}") from None
    return PartitionReport(partition, 0, end, records, _line(first), _line(last))


def _line(found: tuple[int, bytes] | None) -> RecordReport | None:
    return None if found is None else RecordReport(found[0], None, _text(found[1].rstrip(b"\n")))


def _partition(consumer: Consumer, topic: str, partition: int) -> PartitionReport:
    low, high = kafka.watermarks(consumer, topic, partition)
    first = last = None
    if high > low:
        first, _ = _read(consumer, topic, partition, low, stop_at_first=True)
        back = 1
        while last is None and first is not None:  # past markers of transactions, which have offsets but no content
            _, last = _read(consumer, topic, partition, max(low, high - back), stop_at_first=False)
            back *= 8
    return PartitionReport(partition, low, high, high - low, first, last)


def _read(
    consumer: Consumer, topic: str, partition: int, start: int, *, stop_at_first: bool
) -> tuple[RecordReport | None, RecordReport | None]:
    """The first and the last record from an offset on, up to the end as of now; or only the first."""
    first = last = None
    consumer.assign([TopicPartition(topic, partition, start)])
    while True:
        for message in kafka.told(_some_messages(consumer, topic), topic):
            if message.error() is not None:
                return first, last
            _, ts = message.timestamp()
            last = RecordReport(message.offset() or 0, _text(message.key()), _text(message.value()), ts)
            first = first or last
            if stop_at_first:
                return first, last


def _some_messages(consumer: Consumer, topic: str) -> list[Message]:
    """What has come, at least one message or the end of a partition."""
    deadline = time.monotonic() + READ_SECONDS
    while time.monotonic() < deadline:
        if messages := consumer.consume(1000, 0.05):  # it waits that long for the thousandth, whatever has come
            return messages
    raise FlowError(f"topic {topic!r}: the broker handed over nothing within {READ_SECONDS:.0f} s")


def _text(data: bytes | str | None) -> str | None:
    return data.decode(errors="replace") if isinstance(data, bytes) else data
