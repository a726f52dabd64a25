"""Reading one partition of a Kafka topic."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from sluiceway.errors import FlowError, ReopenError
from sluiceway.schemas.arrow import arrow_rows
from sluiceway.schemas.encode import REDRIVEN
from sluiceway.schemas.lane import RawPoll
from sluiceway.topics import kafka
from sluiceway.topics.bounds import RECORDS_A_POLL, Bounds, refuse_future_stop
from sluiceway.topics.positions import parse_position
from sluiceway.topics.url import KafkaTopic

# a consumed message has all of these as bytes and numbers; called through map() they cost a third of a lambda
_offset = cast("Callable[[Message], int]", Message.offset)
_key = cast("Callable[[Message], bytes | None]", Message.key)
_value = cast("Callable[[Message], bytes | None]", Message.value)
_headers = cast("Callable[[Message], list[tuple[str, bytes | None]] | None]", Message.headers)


SETTLE_SECONDS = 3.0
FETCHING: kafka.Config = {
    "queued.max.messages.kbytes": 8_192,
    "fetch.queue.backoff.ms": 20,
    "fetch.message.max.bytes": 4_194_304,
}
"""What one lane may hold that it has not polled yet; how soon it fetches again once that has been polled (the client's
own second leaves a lane of large records idle most of the time); and how much at once, so that such records do not come
one by one."""


def kafka_bounds(topic: KafkaTopic, user: kafka.Config, partitions: int, start: str, stop: str | None) -> Bounds:
    """Resolve `start` and `stop` against what the partitions hold now."""
    refuse_future_stop(stop)
    consumer = kafka.reader(topic.bootstrap, user)
    try:
        starts = kafka.resolve(consumer, topic.name, partitions, parse_position(start))
        stops = None if stop is None else kafka.resolve(consumer, topic.name, partitions, parse_position(stop))
    finally:
        consumer.close()
    return Bounds(tuple(starts), (None,) * partitions if stops is None else tuple(stops), stop)


def first_offset(topic: KafkaTopic, user: kafka.Config, partition: int) -> int:
    """Of what the partition still holds."""
    consumer = kafka.reader(topic.bootstrap, user)
    try:
        return kafka.watermarks(consumer, topic.name, partition)[0]
    finally:
        consumer.close()


class KafkaReader:
    """One consumer assigned to one partition; a poll takes what the client has already fetched."""

    def __init__(self, topic: KafkaTopic, user: kafka.Config, partition: int, start: int, stop: int | None) -> None:
        self.position = start
        self._topic = topic
        self._partition = partition
        self.stop = stop
        self._lost = kafka.Lost()
        self._consumer = kafka.reader(topic.bootstrap, {**FETCHING, **user}, self._lost)
        try:
            self._check_start()
        except FlowError:
            self._consumer.close()
            raise
        self._consumer.assign([TopicPartition(topic.name, partition, start)])

    def _check_start(self) -> None:
        """A new leader may not know for a moment how far its partition is committed."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            low, high = kafka.watermarks(self._consumer, self._topic.name, self._partition)
            if low <= self.position <= high:
                return
            if self.position < low or time.monotonic() > deadline:
                raise kafka.out_of_range(self._topic.name, self._partition, self.position, low, high)
            time.sleep(0.2)

    def poll(self) -> RawPoll | None:
        if self.stop is not None and self.position >= self.stop:
            return self._item([], self.position, end=True)
        messages = self._consumer.consume(RECORDS_A_POLL, 0)
        if not messages and self._lost.for_good():
            raise ReopenError(f"topic {self._topic.name!r}: this client has lost every broker; another one is tried")
        reached = self.position
        if any(map(Message.error, messages)):
            messages, reached = self._set_events_apart(messages)
        if messages:
            self._lost.heard()
            reached = max(reached, _offset(messages[-1]) + 1)
        end = self.stop is not None and reached >= self.stop
        if end and self.stop is not None:
            messages = messages[: bisect_left(messages, self.stop, key=_offset)]
            reached = self.stop
        if messages or end or reached > self.position:
            return self._item(messages, reached, end=end)
        return None

    def end(self) -> int:
        return kafka.watermarks(self._consumer, self._topic.name, self._partition)[1]

    def _item(self, messages: list[Message], reached: int, *, end: bool) -> RawPoll:
        offsets = _offsets(messages)
        headers = list(map(_headers, messages))
        poll = RawPoll(
            lane=self._partition,
            start=self.position,
            stop=reached,
            end=end,
            keys=list(map(_key, messages)),
            values=list(map(_value, messages)),
            offsets=offsets,
            next_offsets=range(offsets.start + 1, offsets.stop + 1)
            if isinstance(offsets, range)
            else [offset + 1 for offset in offsets],
            arrow=arrow_rows(headers) if any(headers) else frozenset(),
            redriven=_redriven(offsets, headers) if any(headers) else {},
        )
        self.position = reached
        return poll

    def _set_events_apart(self, polled: list[Message]) -> tuple[list[Message], int]:
        """Records alone, and how far end-of-partition events say that reading has come (past transaction markers)."""
        records, reached = [], self.position
        for message in polled:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._lost.heard()
                reached = max(reached, _offset(message))
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise ReopenError(f"topic {self._topic.name!r}: the broker does not have offset {self.position}")
            elif error.code() not in kafka.PASSED_OVER:
                raise kafka.failed(f"topic {self._topic.name!r} cannot be read", KafkaException(error))
        return records, reached

    def close(self) -> None:
        self._consumer.close()


def _redriven(
    offsets: list[int] | range, headers: list[list[tuple[str, bytes | None]] | None]
) -> dict[int, bytes]:
    told = zip(offsets, headers, strict=True)
    return {offset: value or b"" for offset, given in told for name, value in given or () if name == REDRIVEN}


def _offsets(messages: list[Message]) -> list[int] | range:
    """Most often each is one more than the one before: then two of them tell all."""
    if messages:
        first, last = _offset(messages[0]), _offset(messages[-1])
        if last - first == len(messages) - 1:
            return range(first, last + 1)
    return list(map(_offset, messages))
