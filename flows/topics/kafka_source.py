"""Reading one partition of a Kafka topic."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from typing import cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from sluiceway import kafka
from sluiceway.errors import FlowError
from sluiceway.flows.topics.bounds import RECORDS_A_POLL, Bounds, refuse_future_stop
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


RENEW_SECONDS = 10.0
"""So long a client that has lost all brokers may be silent before another one takes its place."""


def _consumer(topic: KafkaTopic, user: kafka.Config, on_error: Callable[[KafkaError], None] | None = None) -> Consumer:
    # assign() needs a group id and uses it for nothing: our offsets are committed by the sink's transactions
    config = kafka.client_config(
        topic.bootstrap,
        {"queued.max.messages.kbytes": 16_384, "fetch.wait.max.ms": 50, **user},
        group_id="sluiceway-reader",
        auto_offset_reset="error",
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        isolation_level="read_committed",
    )
    return Consumer(config if on_error is None else {**config, "error_cb": on_error}, logger=kafka.logger)


def kafka_bounds(topic: KafkaTopic, user: kafka.Config, partitions: int, start: str, stop: str | None) -> Bounds:
    """Resolve `start` and `stop` against what the partitions hold now."""
    refuse_future_stop(stop)
    consumer = _consumer(topic, user)
    try:
        starts = kafka.resolve(consumer, topic.name, partitions, parse_position(start))
        stops = None if stop is None else kafka.resolve(consumer, topic.name, partitions, parse_position(stop))
    finally:
        consumer.close()
    return Bounds(tuple(starts), (None,) * partitions if stops is None else tuple(stops), stop)


class KafkaReader:
    """One consumer assigned to one partition; a poll takes what the client has already fetched."""

    def __init__(self, topic: KafkaTopic, user: kafka.Config, partition: int, start: int, stop: int | None) -> None:
        self.position = start
        self._topic = topic
        self._user = user
        self._partition = partition
        self.stop = stop
        self._last_item = time.monotonic()
        self._lost_since: float | None = None
        self._consumer = _consumer(topic, user, self._note)
        low, high = kafka.watermarks(self._consumer, topic.name, partition)
        if not low <= start <= high:
            self._consumer.close()
            raise kafka.out_of_range(topic.name, partition, start, low, high)
        self._assign()

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(self._topic.name, self._partition, self.position)])

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._lost_since is None:
            self._lost_since = time.monotonic()

    def _renew(self) -> None:
        """A client that was told of no broker at all, while all were fenced, may never look for one again (librdkafka
        issue 5301); whether this one will cannot be known, and another is cheap."""
        self._consumer.close()
        self._consumer = _consumer(self._topic, self._user, self._note)
        self._assign()
        self._lost_since = None

    def poll(self) -> RawPoll | None:
        if self.stop is not None and self.position >= self.stop:
            return self._item([], self.position, end=True)
        messages = self._consumer.consume(RECORDS_A_POLL, 0)
        if messages:
            self._lost_since = None
        elif self._lost_since is not None and time.monotonic() - self._lost_since > RENEW_SECONDS:
            self._renew()
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
                low, high = kafka.watermarks(self._consumer, self._topic.name, self._partition)
                raise kafka.out_of_range(self._topic.name, self._partition, self.position, low, high)
            elif error.code() not in kafka.PASSING:
                raise FlowError(f"topic {self._topic.name!r} cannot be read: {kafka.sentence(error)}")
        return records, reached

    def close(self) -> None:
        self._consumer.close()


