"""A flow's consumer group, by which lag tools see how far it has come. The flow itself never goes by it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from confluent_kafka import KafkaException, TopicPartition

from sluiceway.errors import FlowError, ReopenError
from sluiceway.topics import kafka
from sluiceway.topics.kafka_writer import CALL_SECONDS

logger = logging.getLogger("sluiceway.store")


class Offsets:
    """The flow's consumer group, for lag tools alone: told after each commit, so it may be behind and never ahead."""

    def __init__(self, flow: str, bootstrap: str, config: kafka.Config, topic: str) -> None:
        self._topic = topic
        self._lock = threading.Lock()
        self._consumer = kafka.new_consumer(
            kafka.client_config(bootstrap, config, group_id=flow, enable_auto_commit=False)
        )

    def told(self, lane: int) -> int | None:
        """What was told last, by whomever."""
        try:
            [found] = kafka.committed(self._consumer, [TopicPartition(self._topic, lane)], CALL_SECONDS)
        except KafkaException as problem:
            raise ReopenError(f"the broker does not tell the group's offsets: {kafka.sentence(problem)}") from problem
        return found.offset if found.offset >= 0 else None

    def tell(self, lane: int, position: int) -> None:
        """Nothing depends on it: whatever goes wrong is passed over."""
        with self._lock:
            try:
                self._consumer.commit(offsets=[TopicPartition(self._topic, lane, position)], asynchronous=True)
                self._consumer.poll(0)
            except KafkaException as problem:
                logger.debug("the group is not told of lane %d: %s", lane, kafka.sentence(problem))

    def tell_all(self, positions: Mapping[int, int]) -> None:
        """And wait until the broker has it."""
        places = [TopicPartition(self._topic, lane, position) for lane, position in positions.items()]
        try:
            if places:
                self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as problem:
            raise FlowError(f"the broker does not take the group's offsets: {kafka.sentence(problem)}") from problem

    def close(self) -> None:
        self._consumer.close()
