"""A flow's consumer group, by which lag tools see how far it has come. The flow itself never goes by it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import partial

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sluiceway.errors import FlowError, ReopenError
from sluiceway.topics import groups, kafka
from sluiceway.topics.kafka_writer import CALL_SECONDS

logger = logging.getLogger("sluiceway.store")


WHAT_FOR = "by which lag tools see how far the flow has come"


class Offsets:
    """The flow's consumer group, for lag tools alone: told after each commit, so it may be behind and never ahead."""

    def __init__(self, flow: str, bootstrap: str, config: kafka.Config, topics: Mapping[str, str]) -> None:
        """`topics`: those that the flow reads, by what they hold; the first one's are asked for."""
        self._topics = topics
        self._first = next(iter(topics))
        self._ask = partial(groups.refuse_unreadable, bootstrap, config, flow, WHAT_FOR)
        self._lock = threading.RLock()
        self._made: Consumer | None = None
        self._config = kafka.client_config(bootstrap, config, group_id=flow, enable_auto_commit=False)

    @property
    def _consumer(self) -> Consumer:
        """Not made before it is known that the group may be used: without, even its end takes long."""
        with self._lock:
            self._made = self._made or kafka.new_consumer(self._config)
            return self._made

    def begin(self) -> None:
        """Make the client, so that it has found the group's coordinator by the first commit. Whether the group may be
        used is asked of the broker before: the client itself would wait for an answer in vain."""
        self._ask()
        _ = self._consumer

    def told(self, lane: int) -> int | None:
        """What was told last, by whomever."""
        try:
            [found] = kafka.committed(self._consumer, [TopicPartition(self._topics[self._first], lane)], CALL_SECONDS)
        except KafkaException as problem:
            raise ReopenError(f"the broker does not tell the group's offsets: {kafka.sentence(problem)}") from problem
        return found.offset if found.offset >= 0 else None

    def tell(self, lane: int, positions: Mapping[str, int]) -> None:
        """By what is read. Nothing depends on it: whatever goes wrong is passed over."""
        places = [TopicPartition(topic, lane, positions[name]) for name, topic in self._topics.items()]
        with self._lock:
            try:
                self._consumer.commit(offsets=places, asynchronous=True)
                self._consumer.poll(0)
            except KafkaException as problem:
                logger.debug("the group is not told of lane %d: %s", lane, kafka.sentence(problem))

    def tell_all(self, positions: Mapping[int, Mapping[str, int]]) -> None:
        """By lane and what is read; and wait until the broker has it."""
        places = [
            TopicPartition(topic, lane, at[name])
            for lane, at in positions.items()
            for name, topic in self._topics.items()
            if name in at
        ]
        try:
            if places:
                self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as problem:
            raise FlowError(f"the broker does not take the group's offsets: {kafka.sentence(problem)}") from problem

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
