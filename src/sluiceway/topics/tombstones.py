"""Snapshots that are over: which keys of a selections topic still count, and the tombstones that end them."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, Message

from sluiceway.errors import FlowError
from sluiceway.topics import kafka
from sluiceway.topics.feeds import read_all
from sluiceway.topics.url import KafkaTopic


def living(topic: KafkaTopic, settings: kafka.Config) -> dict[str, list[int]]:
    """The keys whose newest record is a snapshot, and in which partitions."""
    alive: dict[str, set[int]] = {}
    for entry in read_all(topic, settings):
        homes = alive.setdefault((entry.key or b"").decode(errors="replace"), set())
        homes.discard(entry.partition) if entry.value is None else homes.add(entry.partition)
    return {key: sorted(homes) for key, homes in alive.items() if homes}


def bury(topic: KafkaTopic, settings: kafka.Config, graves: Iterable[tuple[str, int]]) -> None:
    """Write the tombstones of keys, each in its partition."""
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    config = kafka.client_config(topic.bootstrap, settings, enable_idempotence=True, acks="all")
    producer = kafka.new_producer(config)
    for key, partition in graves:
        while True:
            try:
                producer.produce(topic.name, None, key, partition, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(kafka.SEND_SECONDS)
    if failures:
        raise FlowError(f"{topic}: the tombstone was not taken: {kafka.sentence(failures[0])}")
    if left:
        raise FlowError(f"{topic}: the broker did not take the tombstone within {kafka.SEND_SECONDS:.0f} s")
