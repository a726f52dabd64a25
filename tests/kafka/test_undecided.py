"""A process killed between sending its offsets and committing them leaves the group undecided; a start goes on."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

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
