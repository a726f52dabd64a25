"""Reading one partition of a Kafka topic."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from typing import cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from sluiceway import kafka
from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.topics.bounds import RECORDS_A_POLL, Bounds
from sluiceway.flows.topics.url import KafkaTopic
from sluiceway.positions import parse_position
from sluiceway.schemas.arrow import arrow_rows
from sluiceway.schemas.lane import RawPoll

DAY = 86_400.0

# a consumed message has all of these as bytes and numbers; called through map() they cost a third of a lambda
_offset = cast("Callable[[Message], int]", Message.offset)
_key = cast("Callable[[Message], bytes | None]", Message.key)
_value = cast("Callable[[Message], bytes | None]", Message.value)
_headers = cast("Callable[[Message], list[tuple[str, bytes | None]] | None]", Message.headers)


def _consumer(topic: KafkaTopic, user: kafka.Config) -> Consumer:
    # assign() needs a group id and uses it for nothing: our offsets are committed by the sink's transactions
    return kafka.new_consumer(
        kafka.client_config(
            topic.bootstrap,
            {"queued.max.messages.kbytes": 16_384, "fetch.wait.max.ms": 50, **user},
            group_id="sluiceway-reader",
            auto_offset_reset="error",
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            enable_partition_eof=True,
            isolation_level="read_committed",
        )
    )


def kafka_bounds(topic: KafkaTopic, user: kafka.Config, partitions: int, start: str, stop: str | None) -> Bounds:
    """Resolve `start` and `stop` against what the partitions hold now."""
    if stop is not None and parse_position(stop).kind == "time" and parse_position(stop).value > time.time() * 1000:
        raise SettingsError(f"input.stop = {stop!r} lies in the future; leave it out to run until stopped")
    consumer = _consumer(topic, user)
    try:
        starts = kafka.resolve(consumer, topic.name, partitions, parse_position(start))
        stops = None if stop is None else kafka.resolve(consumer, topic.name, partitions, parse_position(stop))
    finally:
        consumer.close()
    return Bounds(tuple(starts), (None,) * partitions if stops is None else tuple(stops), stop)


def first_offset(topic: KafkaTopic, user: kafka.Config, partition: int) -> int:
    """Of what the partition still holds."""
    consumer = _consumer(topic, user)
    try:
        return kafka.watermarks(consumer, topic.name, partition)[0]
    finally:
        consumer.close()


class KafkaReader:
    """One consumer assigned to one partition; a poll takes what the client has already fetched."""

    def __init__(self, topic: KafkaTopic, user: kafka.Config, partition: int, start: int, stop: int | None) -> None:
        self.position = start
        self._topic = topic.name
        self._partition = partition
        self.stop = stop
        self._consumer = _consumer(topic, user)
        self._last_item = time.monotonic()
        low, high = kafka.watermarks(self._consumer, topic.name, partition)
        if not low <= start <= high:
            self._consumer.close()
            raise kafka.out_of_range(topic.name, partition, start, low, high)
        self._consumer.assign([TopicPartition(topic.name, partition, start)])

    def poll(self) -> RawPoll | None:
        if self.stop is not None and self.position >= self.stop:
            return self._item([], self.position, end=True)
        messages = self._consumer.consume(RECORDS_A_POLL, 0)
        reached = self.position
        if any(map(Message.error, messages)):
            messages, reached = self._set_events_apart(messages)
        if messages:
            reached = max(reached, _offset(messages[-1]) + 1)
        end = self.stop is not None and reached >= self.stop
        if end and self.stop is not None:
            messages = messages[: bisect_left(messages, self.stop, key=_offset)]
            reached = self.stop
        if messages or end or reached > self.position or time.monotonic() - self._last_item > DAY:
            # once a day an idle lane sends an empty item, so that its group offset is committed again and never expires
            return self._item(messages, reached, end=end)
        return None

    def _item(self, messages: list[Message], reached: int, *, end: bool) -> RawPoll:
        offsets = list(map(_offset, messages))
        headers = list(map(_headers, messages))
        poll = RawPoll(
            lane=self._partition,
            start=self.position,
            stop=reached,
            end=end,
            keys=list(map(_key, messages)),
            values=list(map(_value, messages)),
            offsets=offsets,
            next_offsets=[offset + 1 for offset in offsets],
            arrow=arrow_rows(headers) if any(headers) else frozenset(),
        )
        self.position = reached
        self._last_item = time.monotonic()
        return poll

    def _set_events_apart(self, polled: list[Message]) -> tuple[list[Message], int]:
        """Records alone, and how far end-of-partition events say that reading has come (past transaction markers)."""
        records, reached = [], self.position
        for message in polled:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = max(reached, _offset(message))
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                low, high = kafka.watermarks(self._consumer, self._topic, self._partition)
                raise kafka.out_of_range(self._topic, self._partition, self.position, low, high)
            elif error.code() not in kafka.PASSING:
                raise FlowError(f"topic {self._topic!r} cannot be read: {kafka.sentence(error)}")
        return records, reached

    def close(self) -> None:
        self._consumer.close()


