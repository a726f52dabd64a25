"""What a topic holds, read without disturbing whoever uses it."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, TopicPartition

from sluiceway.errors import FlowError, SettingsError
from sluiceway.schemas.encode import ERROR_HEADER
from sluiceway.topics import kafka
from sluiceway.topics.directory import partition_count, partition_path
from sluiceway.topics.url import DirectoryTopic, Topic

READ_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class RecordReport:
    """One record of a topic."""

    offset: int
    key: str | None
    value: str | None
    ts: int | None = None
    """The message's own time, on Kafka."""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def is_dead_letter(self) -> bool:
        return ERROR_HEADER + "class" in self.headers or (self.value or "").startswith('{"error":{"class":')


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

    @property
    def has_dead_letters(self) -> bool:
        """By the first and the last records alone."""
        records = (record for each in self.partitions for record in (each.first, each.last))
        return any(record is not None and record.is_dead_letter for record in records)


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
            headers = {name: _text(value) or "" for name, value in dict(message.headers() or ()).items()}
            last = RecordReport(message.offset() or 0, _text(message.key()), _text(message.value()), ts, headers)
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
