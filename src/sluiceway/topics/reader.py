"""Reading one partition of a topic, whichever its kind."""

from __future__ import annotations

from typing import Protocol

from sluiceway.schemas.lane import RawPoll
from sluiceway.topics import kafka
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory_reader import DirectoryReader, directory_bounds
from sluiceway.topics.kafka_reader import KafkaReader, kafka_bounds
from sluiceway.topics.url import KafkaTopic, Topic


class Reader(Protocol):
    """Reads one partition from a position on."""

    position: int
    stop: int | None
    """The bounded partition ends before here."""

    def poll(self) -> RawPoll | None:
        """What has come since; None for nothing. `end` is set on the last poll of a bounded partition."""

    def close(self) -> None: ...


class PartitionReader(Reader, Protocol):
    """Reads a partition of a topic itself, not something made of it."""

    def end(self) -> int:
        """Where the partition ends now: once `position` is there, all that stands in it has been read."""


def open_reader(topic: Topic, config: kafka.Config, partition: int, start: int, stop: int | None) -> PartitionReader:
    if isinstance(topic, KafkaTopic):
        return KafkaReader(topic, config, partition, start, stop)
    return DirectoryReader(topic, partition, start, stop)


def resolve_bounds(topic: Topic, config: kafka.Config, partitions: int, start: str, stop: str | None) -> Bounds:
    """From where to where each partition is read, as of now."""
    if isinstance(topic, KafkaTopic):
        return kafka_bounds(topic, config, partitions, start, stop)
    return directory_bounds(topic, partitions, start, stop)
