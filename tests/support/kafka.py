"""Plain Kafka clients for tests: they share no code with Sluiceway, so they can disagree with it."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

Bytes = bytes | str | None
ANYONE = "User:ANONYMOUS"  # who every client is on a plaintext listener
LEADER_SECONDS = 30.0
MARKERS_SECONDS = 30.0


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[Bytes, Bytes] | tuple[Bytes, Bytes, int]],
    settings: Mapping[str, str | int] | None = None,
    headers: Iterable[tuple[str, bytes]] = (),
) -> int:
    """Write (key, value) or (key, value, partition) records in order, all with these headers.

    Returns how many; raises any failure.
    """
    basic: dict[str, str | int | bool] = {"bootstrap.servers": bootstrap, "enable.idempotence": True}
    producer = Producer({**basic, "linger.ms": 5, "log_level": 0, **(settings or {})})
    producer.list_topics(topic, timeout=30)  # connects at once
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    told: list[tuple[str, str | bytes | None]] | None = [*headers] or None
    count = 0
    for key, value, *partition in records:
        while True:
            try:
                producer.produce(
                    topic, value, key, partition[0] if partition else -1, on_delivery=delivered, headers=told
                )
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        if count % 1000 == 0:
            producer.poll(0)
    left = producer.flush(60)
    if failures:
        raise KafkaException(failures[0])
    if left:
        raise TimeoutError(f"{left} of {count} records to {topic} were not acknowledged within 60 s")
    return count


def read_committed(
    bootstrap: str,
    topic: str,
    partitions: Iterable[int] | None = None,
    *,
    uncommitted: bool = False,
    timeout: float = 30.0,
) -> dict[int, list[Record]]:
    """All records from the beginning to the last stable offset, or with `uncommitted` to the very end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # the end of a partition is told by an empty answer: do not wait for it
            "isolation.level": "read_uncommitted" if uncommitted else "read_committed",
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    try:
        # asking also connects the client at once, which saves half a second
        metadata = consumer.list_topics(topic, timeout=timeout).topics[topic]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        chosen = metadata.partitions if partitions is None else partitions
        found: dict[int, list[Record]] = {partition: [] for partition in sorted(chosen)}
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in found])
        unfinished = set(found)
        deadline = time.monotonic() + timeout
        while unfinished:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no end of {topic} {sorted(unfinished)} within {timeout:.0f} s")
            for message in consumer.consume(1000, 0.1):
                partition = message.partition()
                error = message.error()
                if error is None and partition is not None:
                    if partition in unfinished:
                        found[partition].append(_record(message))
                elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                    unfinished -= {partition}
                elif error is not None and not error.retriable():
                    raise KafkaException(error)
        return found
    finally:
        consumer.close()


def are_hidden(bootstrap: str, topics: Iterable[str]) -> bool:
    """Whether a transaction that has not ended hides records in any partition."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "ends", "isolation.level": isolation, "log_level": 0}
        )
        places = [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ]
        ends.append([_ends(consumer, place) for place in places])
        consumer.close()
    return ends[0] != ends[1]


def _ends(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """Of a partition; whoever has just begun to lead it may not know so yet."""
    deadline = time.monotonic() + LEADER_SECONDS
    while True:
        try:
            return consumer.get_watermark_offsets(place, timeout=30)
        except KafkaException as problem:
            if not problem.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def settle(bootstrap: str, topics: Iterable[str]) -> None:
    """A broker answers that a transaction is committed before it has said so in each of its partitions."""
    names, deadline = list(topics), time.monotonic() + MARKERS_SECONDS
    while are_hidden(bootstrap, names) and time.monotonic() < deadline:
        time.sleep(0.1)


def _record(message: Message) -> Record:
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return Record(_raw(message.key()), _raw(message.value()), [(name, _raw(value)) for name, value in pairs])


def _raw(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


class Topics:
    """Makes topics, groups and rules with names of their own on one broker; `clear` removes them all.

    >>> topics("instances", partitions=4, config={"cleanup.policy": "compact"})      # doctest: +SKIP
    'instances-5f0c9a1e'
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.reconnect()
        self._topics: list[str] = []
        self._groups: list[str] = []
        self._ruled: set[tuple[ResourceType, str, ResourcePatternType]] = set()

    def __call__(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, replication: int = -1
    ) -> str:
        """Create a topic that keeps its records (`retention.ms=-1`) unless `config` says otherwise."""
        return self.make(f"{name}-{uuid.uuid4().hex[:8]}", partitions, config, replication)

    def make(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, replication: int = -1
    ) -> str:
        """A topic of this very name, with as many copies as brokers make by default: one alone, three in a cluster."""
        settings = {"retention.ms": "-1", **(config or {})}
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=settings)
        self.admin.create_topics([new])[name].result(30)
        self.also(name)
        self.wait_for(name, partitions)
        return name

    def reconnect(self) -> None:
        """By a new client: one that has seen a broker die may have lost it for good."""
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def also(self, *topics: str, groups: Iterable[str] = ()) -> None:
        """What somebody else makes is removed afterwards too."""
        self._topics += [topic for topic in topics if topic not in self._topics]
        self._groups += groups

    def wait_for(self, topic: str, partitions: int) -> None:
        """Until a topic is there with so many partitions."""
        deadline = time.monotonic() + 30
        while not self._led(topic, partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {topic} has no {partitions} leaders after 30 s")
            time.sleep(0.02)

    def grow(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        self.wait_for(topic, partitions)

    def count(self, topic: str) -> int:
        """Of its partitions."""
        return len(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)

    def end(self, topic: str, partition: int = 0) -> int:
        """The offset after the last of all its records, transactions' markers included."""
        place = TopicPartition(topic, partition)
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        found = self.admin.list_offsets({place: latest}, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        return int(found[place].result(30).offset)

    def everything(self, topic: str) -> bytes:
        """All bytes of a topic's committed records."""
        records = [record for lane in read_committed(self.bootstrap, topic).values() for record in lane]
        parts = [(record.key, record.value, *(value for _, value in record.headers)) for record in records]
        return b"\n".join(part or b"" for record in parts for part in record)

    def remove(self, topic: str) -> None:
        """And wait until nobody knows of it."""
        self.admin.delete_topics([topic])[topic].result(30)
        deadline = time.monotonic() + 30
        while topic in self.admin.list_topics(timeout=10).topics:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def group(self, name: str = "group") -> str:
        """A consumer group's name; what it committed is removed afterwards."""
        unique = f"{name}-{uuid.uuid4().hex[:8]}"
        self._groups.append(unique)
        return unique

    def allow_only(self, kind: ResourceType, name: str, *operations: AclOperation, prefix: bool = False) -> None:
        """From now on a topic, a group or a transactional id is closed but for these operations."""
        pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
        self._set(kind, name, pattern, [(operation, AclPermissionType.ALLOW) for operation in operations])

    def deny_write(self, topic: str) -> None:
        """From now on producing to it fails with TOPIC_AUTHORIZATION_FAILED; all else stays allowed."""
        rules = [(AclOperation.ALL, AclPermissionType.ALLOW), (AclOperation.WRITE, AclPermissionType.DENY)]
        self._set(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, rules)

    def allow_write(self, topic: str) -> None:
        """Take a denial back."""
        self._free(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)

    def allow_all(self) -> None:
        """Take every rule back."""
        for kind, name, pattern in list(self._ruled):
            self._free(kind, name, pattern)

    def _set(
        self,
        kind: ResourceType,
        name: str,
        pattern: ResourcePatternType,
        rules: Iterable[tuple[AclOperation, AclPermissionType]],
    ) -> None:
        bindings = [AclBinding(kind, name, pattern, ANYONE, "*", operation, allowed) for operation, allowed in rules]
        try:
            for done in self.admin.create_acls(bindings, request_timeout=30).values():
                done.result(30)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.SECURITY_DISABLED:
                pytest.skip("this broker has no authorizer")
            raise
        self._ruled.add((kind, name, pattern))

    def _free(self, kind: ResourceType, name: str, pattern: ResourcePatternType) -> None:
        rules = AclBindingFilter(kind, name, pattern, ANYONE, "*", AclOperation.ANY, AclPermissionType.ANY)
        for done in self.admin.delete_acls([rules], request_timeout=30).values():
            done.result(30)
        self._ruled.discard((kind, name, pattern))

    def clear(self) -> None:
        self.allow_all()
        pending = list(self.admin.delete_topics(self._topics).values()) if self._topics else []
        pending += list(self.admin.delete_consumer_groups(self._groups).values()) if self._groups else []
        for done in pending:
            with contextlib.suppress(KafkaException):  # gone already, or a group that never came to be
                done.result(30)
        self._topics.clear()
        self._groups.clear()

    def clear_but(self, *kept: str) -> None:
        """Remove what was made so far, but for these topics."""
        self._topics = [topic for topic in self._topics if topic not in kept]
        self.clear()
        self._topics += kept

    def _led(self, topic: str, partitions: int) -> bool:
        metadata = self.admin.list_topics(topic, timeout=10).topics[topic]
        leaders = [partition.leader for partition in metadata.partitions.values()]
        return metadata.error is None and len(leaders) == partitions and min(leaders) >= 0
