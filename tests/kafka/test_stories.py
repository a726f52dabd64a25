"""The store, the consumer group and the topics must tell the same story; where they do not, a sentence says so."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import ConfigResource, NewPartitions, NewTopic, ResourceType

from tests.kafka.expected import assert_exact, instances
from tests.kafka.test_positions import committed
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow


def test_input_that_is_no_longer_what_the_checkpoint_was_made_from(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path)
    topic = flow.instances
    produce(flow.bootstrap, topic, instances(20))
    flow.ends()
    assert committed(flow) == 20
    before = flow.out("predictions")

    produce(flow.bootstrap, topic, instances(20, first=20))
    for done in topics.admin.delete_records([TopicPartition(topic, 0, 30)]).values():
        done.result(30)
    truncated = flow.run()
    assert truncated.code == 1
    assert truncated.sentence == (
        f"topic {topic!r}, partition 0: the flow wants to go on at offset 20, but the broker holds 30 to 40; restore"
        f" the missing records, or start anew with another flow name and another recovery directory"
    )
    assert "Traceback" not in truncated.stderr

    for grown in topics.admin.create_partitions([NewPartitions(topic, 2)]).values():
        grown.result(30)
    _wait_for_partitions(topics, topic, 2)
    for role in ("selections", "predictions", "dead_letters"):
        topics.admin.create_partitions([NewPartitions(flow.topic[role], 2)])[flow.topic[role]].result(30)
        _wait_for_partitions(topics, flow.topic[role], 2)
    more = flow.run()
    assert more.code == 2
    assert "was made with input partitions = 1, the flow now has 2" in more.sentence
    assert "another name and another recovery directory, or undo the change" in more.sentence

    topics.admin.delete_topics([topic])[topic].result(30)
    while topic in topics.admin.list_topics(timeout=10).topics:
        time.sleep(0.05)
    missing = flow.run()
    assert missing.code == 2
    assert missing.sentence == f"the input topic {topic!r} does not exist on {flow.bootstrap}; create it first"

    topics.admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(30)
    _wait_for_partitions(topics, topic, 1)
    produce(flow.bootstrap, topic, instances(40))
    recreated = flow.run()
    assert recreated.code == 2
    assert "was made with input id = " in recreated.sentence
    assert flow.out("predictions") == before


def _wait_for_partitions(topics: Topics, topic: str, count: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        partitions = topics.admin.list_topics(topic, timeout=10).topics[topic].partitions
        if len(partitions) == count and all(one.leader >= 0 for one in partitions.values()):
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_missing_topics_are_named_or_made(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, partitions=2)
    made = {role: f"{flow.topic[role]}-new" for role in ("selections", "predictions", "dead_letters")}
    flow.topic |= made
    flow.write()
    missing = flow.run()
    assert missing.code == 2
    assert missing.sentence == (
        f"there are no topics {', '.join(f'{name!r} ({role})' for role, name in made.items())} on {flow.bootstrap};"
        f" create them with as many partitions as the input (2), or let `sluiceway run --create-topics` do it"
    )
    assert not flow.store.exists()

    produce(flow.bootstrap, flow.instances, [(key, value, 1) for key, value in instances(10)])
    try:
        flow.ends("--create-topics")
        assert len(flow.out("predictions", partition=1)) == 10
        settings = {role: _settings(topics, name) for role, name in made.items()}
        assert settings["selections"]["cleanup.policy"] == "compact"
        assert settings["selections"]["min.compaction.lag.ms"] == str(7 * 86_400_000)
        assert settings["predictions"]["cleanup.policy"] == "delete"
        limit = int(_settings(topics, flow.instances)["max.message.bytes"])
        assert int(settings["dead_letters"]["max.message.bytes"]) >= limit + 1000
        listed = topics.admin.list_topics(timeout=10).topics
        assert {len(listed[name].partitions) for name in made.values()} == {2}
    finally:
        for gone in topics.admin.delete_topics(list(made.values())).values():
            gone.result(30)


def _settings(topics: Topics, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = topics.admin.describe_configs([resource])[resource].result(30)
    return {name: entry.value for name, entry in found.items()}


def test_a_lost_store_is_noticed_and_adopted_exactly(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, emit={"every": 5, "final": False})
    sent = instances(90)
    produce(flow.bootstrap, flow.instances, sent[:33])
    flow.ends()
    produce(flow.bootstrap, flow.instances, sent[33:])

    lost = tmp_path / "another-store"
    refused = flow.run(store=lost)
    assert refused.code == 1
    assert "has already sent its output up to offset 33 of partition 0" in refused.sentence
    assert "`sluiceway run --adopt` replays the input from input.start" in refused.sentence
    again = flow.run(store=lost)  # the refusal left nothing behind that would let it pass now
    assert (again.code, again.sentence) == (1, refused.sentence)

    flow.ends("--adopt", store=lost)
    assert_exact(flow, sent, end=False)
    assert committed(flow) == 90

    behind = flow.run()  # the old store stands at 33: the output is ahead of it, which a crash explains too
    assert behind.code == 0, behind.stderr
    assert_exact(flow, sent, end=False)


def test_finals_that_were_not_wanted_come_when_they_are(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, emit={"every": 5, "final": False})
    sent = instances(13)
    produce(flow.bootstrap, flow.instances, sent)
    flow.ends()
    assert [one["reason"] for one in flow.values("selections")] == ["interval", "interval"]
    flow.write(emit={"final": True})
    flow.ends()
    flow.ends()
    assert_exact(flow, sent)


def test_a_refused_start_does_not_make_a_new_store_an_old_one(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path)
    produce(flow.bootstrap, flow.instances, instances(10))
    flow.ends()
    fresh = tmp_path / "fresh"
    flow.write(input={"stop": "2099-01-01"})
    assert "lies in the future" in flow.run(store=fresh).sentence
    flow.write(input={"stop": "end"})
    assert "has already sent its output" in flow.run(store=fresh).sentence


def test_lost_group_offsets(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, emit={"every": 5, "final": False})
    sent = instances(90)
    produce(flow.bootstrap, flow.instances, sent[:30])
    flow.ends()
    _delete_group(topics, flow)
    produce(flow.bootstrap, flow.instances, sent[30:60])
    flow.write(input={"stop": None})
    with flow.start() as running:  # beside a clean store that is fine
        running.until(lambda: len(flow.out("predictions")) == 60)
        running.kill()
    _delete_group(topics, flow)
    produce(flow.bootstrap, flow.instances, sent[60:])
    refused = flow.run()
    assert refused.code == 1
    assert "after a crash, but the consumer group" in refused.sentence
    assert "`sluiceway run --adopt` goes on from the store" in refused.sentence
    with flow.start("--adopt") as running:
        running.until(lambda: len(flow.out("predictions")) >= 90)
        assert running.stop().code == 0
    # the crash came after the checkpoint or before it: the last epoch's output is there, perhaps twice
    numbers = [one["seq"] for one in flow.values("predictions")]
    assert sorted(set(numbers)) == list(range(90))
    assert committed(flow) == 90


def test_offsets_that_expired_while_the_flow_was_stopped(topics: Topics, tmp_path: Path) -> None:
    """A start beside a clean store names them anew, also for a lane that then stays idle: a crash is no riddle."""
    flow = KafkaFlow(topics, tmp_path, emit={"every": 5, "final": False})
    sent = instances(60)
    produce(flow.bootstrap, flow.instances, sent[:30])
    flow.ends()
    _delete_group(topics, flow)
    flow.write(input={"stop": None})
    with flow.start() as idle:
        idle.until(lambda: committed(flow) == 30)
        idle.kill()
    produce(flow.bootstrap, flow.instances, sent[30:])
    flow.write(input={"stop": "end"})
    flow.ends()
    assert_exact(flow, sent, end=False)


def test_lost_group_offsets_of_a_flow_that_started_at_the_end(topics: Topics, tmp_path: Path) -> None:
    """Where a run would have started by itself says nothing about what was out before it."""
    flow = KafkaFlow(topics, tmp_path, emit={"every": 5, "final": False}, input={"start": "end", "stop": None})
    with flow.start() as stopped:
        stopped.until(lambda: _has_begun(flow))
        produce(flow.bootstrap, flow.instances, instances(30))
        stopped.until(lambda: len(flow.out("predictions")) == 30)
        assert stopped.stop().code == 0
    with flow.start() as killed:
        killed.until(lambda: _has_begun(flow))
        killed.kill()
    _delete_group(topics, flow)
    refused = flow.run()
    assert refused.code == 1
    assert "after a crash, but the consumer group" in refused.sentence


def _has_begun(flow: KafkaFlow) -> bool:
    """A run has, and has not ended by itself since."""
    return (flow.store / "run.json").exists()


def _delete_group(topics: Topics, flow: KafkaFlow) -> None:
    topics.admin.delete_consumer_groups([flow.name])[flow.name].result(30)
