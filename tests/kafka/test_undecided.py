"""What is not decided yet: a transaction left open by a death, a group whose coordinator is moving."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sluiceway.topics import kafka
from tests.kafka.expected import instances
from tests.kafka.state import position, records_of
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow


def test_a_transaction_left_open(topics: Topics, tmp_path: Path) -> None:
    """It may hold all of a commit: as long as that is not decided, nothing of it counts."""
    flow = KafkaFlow(topics, tmp_path)
    sent = instances(40)
    produce(flow.bootstrap, flow.instances, sent[:20])
    flow.ends()
    commit = records_of(flow)["m"]
    produce(flow.bootstrap, flow.instances, sent[20:])
    # what the flow's only lane would do next, and die
    producer = Producer({"bootstrap.servers": flow.bootstrap, "transactional.id": f"{flow.name}/0", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(flow.topic["selections"], b"never seen", partition=0)
    producer.produce(flow.state, json.dumps({**commit, "positions": {"instances": 40}}), b"m", partition=0)
    producer.flush(30)
    flow.ends("--again")
    assert b"never seen" not in [record.value for record in flow.out("selections")]
    predictions = flow.values("predictions")
    assert [one["seq"] for one in predictions] == list(range(40))
    assert position(flow) == 40


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
