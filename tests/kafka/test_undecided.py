"""A group that does not answer at once: its offsets are undecided after a death, or its coordinator is moving."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sluiceway.topics import kafka
from tests.kafka.expected import instances
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow


def test_offsets_of_a_transaction_left_open(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path)
    sent = instances(40)
    produce(flow.bootstrap, flow.instances, sent[:20])
    flow.ends()
    produce(flow.bootstrap, flow.instances, sent[20:])
    # what the flow's only lane would do next, and die
    producer = Producer({"bootstrap.servers": flow.bootstrap, "transactional.id": f"{flow.name}/0", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(flow.topic["selections"], b"never seen", partition=0)
    group = Consumer({"bootstrap.servers": flow.bootstrap, "group.id": flow.name, "log_level": 0})
    place = TopicPartition(flow.instances, 0, 40)
    producer.send_offsets_to_transaction([place], group.consumer_group_metadata(), 30)
    producer.flush(30)
    group.close()
    flow.ends()
    predictions = flow.values("predictions")
    assert [one["seq"] for one in predictions] == list(range(40))
    assert b"never seen" not in [record.value for record in flow.out("selections")]


class Moving:
    """A group's consumer while its coordinator is first nowhere and then elsewhere."""

    def __init__(self, *errors: int) -> None:
        self._errors = list(errors)

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        if self._errors:
            raise KafkaException(KafkaError(self._errors.pop(0)))
        return places


def test_a_coordinator_that_moves_is_asked_again() -> None:
    places = [TopicPartition("instances", 0, 7)]
    moving = Moving(*kafka.MOVING)
    assert kafka.committed(cast("Consumer", moving), places, 5.0) == places
    for seconds, error in ((0.0, KafkaError.NOT_COORDINATOR), (5.0, KafkaError.GROUP_AUTHORIZATION_FAILED)):
        with pytest.raises(KafkaException):
            kafka.committed(cast("Consumer", Moving(error, error)), places, seconds)
