"""A commit is decided, and the store knows it, before its markers make it visible: a start in between goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluiceway.errors import FlowError
from sluiceway.topics import kafka
from tests.crash.harness import positions
from tests.kafka.expected import assert_exact, instances
from tests.kafka.test_positions import committed
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow
from tests.support.markers import LateMarkers


@pytest.mark.parametrize("before", [0, 20], ids=["the first commit", "a later commit"])
def test_a_crash_before_the_markers(late_markers: LateMarkers, tmp_path: Path, before: int) -> None:
    flow = KafkaFlow(Topics(late_markers.bootstrap), tmp_path, input={"stop": None})
    sent = instances(before + 20)
    with flow.start() as killed:
        if before:
            produce(flow.bootstrap, flow.instances, sent[:before])
            killed.until(lambda: committed(flow) == before)
        late_markers.markers.hold()
        produce(flow.bootstrap, flow.instances, sent[before:])
        killed.until(late_markers.markers.held.is_set)
        killed.until(lambda: positions(flow.store, flow.name) == {0: before + 20})
        killed.kill()
    with flow.start() as again:
        patience = time.monotonic() + 2 * kafka.SETTLE_SECONDS + 2
        again.until(lambda: time.monotonic() > patience)
        late_markers.markers.release()
        again.until(lambda: len(flow.out("predictions")) == before + 20)
        assert again.stop().code == 0
    assert_exact(flow, sent, end=False)


def test_markers_that_do_not_come(
    late_markers: LateMarkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told that an offset was reset where nobody knows yet."""
    topics = Topics(late_markers.bootstrap)
    topic, group = topics("instances"), topics.group()
    producer = Producer({"bootstrap.servers": late_markers.bootstrap, "transactional.id": group, "log_level": 0})
    member = Consumer({"bootstrap.servers": late_markers.bootstrap, "group.id": group, "log_level": 0})
    producer.init_transactions(30)
    for offset in (10, 20):
        producer.begin_transaction()
        place = TopicPartition(topic, 0, offset)
        producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), 30)
        if offset == 20:
            late_markers.markers.hold()
        producer.commit_transaction(30)
    member.close()
    monkeypatch.setattr(kafka, "SETTLE_SECONDS", 0.5)
    monkeypatch.setattr(kafka, "FINISH_SECONDS", 0.5)
    assert kafka.group_offsets(late_markers.bootstrap, {}, group, topic, [10]) == [10]
    with pytest.raises(FlowError, match=f"not finished the last transactions of group '{group}' for 1 s"):
        kafka.group_offsets(late_markers.bootstrap, {}, group, topic, [20])
    late_markers.markers.release()
    monkeypatch.setattr(kafka, "FINISH_SECONDS", 30.0)
    assert kafka.group_offsets(late_markers.bootstrap, {}, group, topic, [20]) == [20]
