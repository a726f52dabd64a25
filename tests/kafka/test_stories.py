"""The state, the consumer group and the topics must tell the same story; where they do not, a sentence says so."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from sluiceway.topics.store import choices
from tests.kafka.expected import assert_exact, instances
from tests.kafka.state import records_of
from tests.kafka.test_positions import committed
from tests.support import Topics, produce
from tests.support.flow import OUTPUTS, KafkaFlow


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
    truncated = flow.run("--again")
    assert truncated.code == 1
    assert truncated.sentence == (
        f"topic {topic!r}, partition 0: the flow wants to go on at offset 20, but the broker holds 30 to 40; restore"
        f" the missing records, or begin anew: `sluiceway reset`, or another flow name"
    )
    assert "Traceback" not in truncated.stderr

    for name in (topic, *(flow.topic[role] for role in OUTPUTS)):
        topics.grow(name, 2)
    more = flow.run("--again")
    assert more.code == 2
    assert f"the state topic {flow.state!r} has 1 partition, the input has 2" in more.sentence
    assert 'give the flow another name, or set input.on_new_partitions = "read" if no key has moved' in more.sentence

    topics.remove(topic)
    missing = flow.run("--again")
    assert missing.code == 2
    assert missing.sentence == f"the input topic {topic!r} does not exist on {flow.bootstrap}; create it first"

    topics.make(topic, 1)
    produce(flow.bootstrap, topic, instances(40))
    recreated = flow.run("--again")
    assert recreated.code == 2
    assert "was made with input id = " in recreated.sentence
    assert recreated.sentence.endswith(choices(flow.name))
    assert flow.out("predictions") == before


def test_missing_topics_are_named_or_made(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, partitions=2)
    topics.remove(flow.state)
    made = {role: f"{flow.topic[role]}-new" for role in OUTPUTS}
    topics.also(*made.values())
    flow.topic |= made
    flow.write()
    missing = flow.run()
    assert missing.code == 2
    named = {**made, "state": flow.state}
    assert missing.sentence == (
        f"there are no topics {', '.join(f'{name!r} ({role})' for role, name in named.items())} on {flow.bootstrap};"
        f" create them with as many partitions as the input (2), or let `sluiceway run --create-topics` do it"
    )

    produce(flow.bootstrap, flow.instances, [(key, value, 1) for key, value in instances(10)])
    flow.ends("--create-topics")
    assert len(flow.out("predictions", partition=1)) == 10
    settings = {role: _settings(topics, name) for role, name in named.items()}
    assert settings["selections"]["cleanup.policy"] == "compact"
    assert settings["selections"]["min.compaction.lag.ms"] == str(7 * 86_400_000)
    assert settings["predictions"]["cleanup.policy"] == "delete"
    limit = int(_settings(topics, flow.instances)["max.message.bytes"])
    assert int(settings["dead_letters"]["max.message.bytes"]) >= limit + 1000
    state = {"cleanup.policy": "compact", "retention.ms": "-1", "delete.retention.ms": "86400000"}
    state |= {"segment.bytes": str(64 << 20), "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.3"}
    assert settings["state"].items() >= state.items()
    listed = topics.admin.list_topics(timeout=10).topics
    assert {len(listed[name].partitions) for name in named.values()} == {2}


def _settings(topics: Topics, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = topics.admin.describe_configs([resource])[resource].result(30)
    return {name: entry.value for name, entry in found.items()}


def test_an_ended_flow_goes_on_when_told(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, emit={"every": 5, "final": False})
    sent = instances(13)
    produce(flow.bootstrap, flow.instances, sent)
    flow.ends()
    assert [one["reason"] for one in flow.values("selections")] == ["interval", "interval"]
    flow.write(emit={"final": True})
    over = flow.run()
    assert over.code == 0
    assert over.stderr.splitlines()[-1].endswith(
        f" {flow.name}: this flow has come to the end of its input already; `sluiceway run {flow.file} --again` reads"
        f" on to where the input ends now, `sluiceway reset {flow.file}` begins anew"
    )
    assert len(flow.out("selections")) == 2
    flow.ends("--again")  # finals that were not wanted come when they are
    flow.ends("--again")
    assert_exact(flow, sent)
    assert records_of(flow)["r"]["number"] == 3

    flow.write(operator={"k": 4})
    changed = flow.run("--again")
    assert changed.code == 2
    assert f"the state topic {flow.state!r} was made with params = " in changed.sentence
    assert changed.sentence.endswith(choices(flow.name))
    flow.write(operator={"k": 3}, input={"stop": None})
    produce(flow.bootstrap, flow.instances, instances(7, first=13))
    with flow.start() as running:  # another stop is another run
        running.until(lambda: len(flow.out("predictions")) == 20)
        assert running.stop().code == 0
    assert [one["seq"] for one in flow.values("predictions")] == list(range(20))


def test_lost_group_offsets_are_nobody_s_loss(topics: Topics, tmp_path: Path) -> None:
    """The position lies with the state: the group is for lag tools alone, and is told again."""
    flow = KafkaFlow(topics, tmp_path, emit={"every": 5, "final": False}, input={"stop": None})
    sent = instances(90)
    for end in (30, 60, 90):
        produce(flow.bootstrap, flow.instances, sent[end - 30 : end])
        with flow.start() as running:
            running.until(lambda end=end: committed(flow) == end)  # type: ignore[misc]
            running.kill()
        _delete_group(topics, flow)
    flow.write(input={"stop": "end"})
    flow.ends()
    assert_exact(flow, sent, end=False)


def _delete_group(topics: Topics, flow: KafkaFlow) -> None:
    topics.admin.delete_consumer_groups([flow.name])[flow.name].result(30)
