"""Topics that do not take what the flow sends: too small, or not to be written."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.kafka.expected import assert_exact, instances
from tests.kafka.state import records_of
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow


def set_limit(flow: KafkaFlow, role: str, limit: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(limit), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, flow.topic[role], incremental_configs=[entry])
    for done in flow.topics.admin.incremental_alter_configs([resource]).values():
        done.result(30)


def test_large_snapshots_lose_features_and_too_small_topics_stop_the_flow(topics: Topics, tmp_path: Path) -> None:
    wide = KafkaFlow(
        topics,
        tmp_path,
        configs={"selections": {"max.message.bytes": "20000"}},
        operator={"k": 100},
        emit={"every": 1},
    )
    names = [f"{'long' * 25}-{n:03d}" for n in range(90)]
    x = ",".join(f'"{name}":{n + 1}' for n, name in enumerate(names))
    produce(wide.bootstrap, wide.instances, [("mail", f'{{"x":{{{x}}},"y":1}}')] * 2)

    small = KafkaFlow(topics, tmp_path, configs={"selections": {"max.message.bytes": "300"}})
    sent = instances(60)
    produce(small.bootstrap, small.instances, sent)
    tight = KafkaFlow(topics, tmp_path, configs={"selections": {"max.message.bytes": "800"}})
    produce(tight.bootstrap, tight.instances, sent)
    with wide.start() as one, small.start() as other, tight.start() as third:
        done, refused, also = one.wait(), other.wait(), third.wait()
    assert (done.code, also.code) == (0, 0), done.stderr + also.stderr
    first, second = wide.values("selections")
    assert (first["n_selected"], second["n_selected"]) == (90, 90)
    assert 10 < len(first["selected"]) < 90  # also `entered` had to find room
    assert first["selected"][0]["feature"] == names[-1]
    assert len(second["selected"]) > 10
    # a topic's limit holds for batches of records too
    assert len(tight.values("selections")) == 12

    assert refused.code == 1
    assert "lane 0 is parked: " in refused.stderr
    assert f"for topic {small.topic['selections']!r} is over its limit of 300" in refused.sentence
    assert "raise the topic's max.message.bytes" in refused.sentence
    assert "Traceback" not in refused.stderr
    assert small.out("selections") == []
    set_limit(small, "selections", 1_000_000)
    small.ends()
    assert_exact(small, sent)


def test_a_dead_letter_too_large_for_its_topic_stops_the_flow(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, configs={"dead_letters": {"max.message.bytes": "5000"}})
    sent = instances(20)
    produce(flow.bootstrap, flow.instances, [*sent, ("mail", "x" * 8000)])
    refused = flow.run()
    assert refused.code == 1
    assert f"for topic {flow.topic['dead_letters']!r} is over its limit of 5000" in refused.sentence
    assert "emit.top" not in refused.sentence
    assert flow.out("predictions") == []
    set_limit(flow, "dead_letters", 1_000_000)
    flow.ends()
    assert len(flow.out("predictions")) == 20
    assert [record.value for record in flow.out("dead_letters")] == [b"x" * 8000]


def test_a_topic_that_may_not_be_written(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, input={"stop": None})
    sent = instances(200)
    produce(flow.bootstrap, flow.instances, sent[:100])
    with flow.start() as running:
        running.until(lambda: len(flow.out("predictions")) == 100)
        topics.deny_write(flow.topic["selections"])
        produce(flow.bootstrap, flow.instances, sent[100:])
        done = running.wait(60)  # in mid-flow
    assert done.code == 1
    assert "the broker denies this client WRITE to one of its topics" in done.sentence
    assert flow.topic["selections"] in done.sentence
    assert "Traceback" not in done.stderr
    assert len(flow.out("predictions")) == 100  # nothing of the failed transaction

    refused = flow.run()  # at start
    assert refused.code == 1
    assert f"topic {flow.topic['selections']!r} (selections) may not be written" in refused.sentence

    topics.allow_write(flow.topic["selections"])
    with flow.start() as running:
        running.until(lambda: len(flow.out("predictions")) == 200)
        assert running.stop().code == 0
    assert_exact(flow, sent, end=False)


def test_a_poisoned_lane_is_parked_and_the_others_go_on(topics: Topics, tmp_path: Path) -> None:
    """Its poison stays with it: a record over the limit of a topic must not end the flow, nor be skipped."""
    flow = KafkaFlow(topics, tmp_path, partitions=4, configs={"dead_letters": {"max.message.bytes": "5000"}})
    for lane in range(4):
        sent = instances(62, stream=f"mail-{lane}")
        produce(flow.bootstrap, flow.instances, [(key, value, lane) for key, value in sent])
    produce(flow.bootstrap, flow.instances, [("mail-2", "x" * 8000, 2)])
    done = flow.run()
    assert done.code == 1
    [parked] = [line for line in done.stderr.splitlines() if " is parked: " in line]
    assert "lane 2 is parked: a record of 8" in parked
    assert f"for topic {flow.topic['dead_letters']!r} is over its limit of 5000" in parked
    assert f"for topic {flow.topic['dead_letters']!r} is over its limit of 5000" in done.sentence
    assert "Traceback" not in done.stderr
    finals = {lane: [one["reason"] for one in flow.values("selections", partition=lane)][-1:] for lane in range(4)}
    assert finals == {0: ["final"], 1: ["final"], 2: [], 3: ["final"]}
    assert [len(flow.out("predictions", partition=lane)) for lane in range(4)] == [62, 62, 0, 62]
    for lane in (0, 1, 3):
        commit, opened = records_of(flow, lane)["m"], records_of(flow, lane)["o"]
        assert (commit["final"], opened["parked"]) == (True, None)
    assert "m" not in records_of(flow, 2)
    assert "is over its limit of 5000" in records_of(flow, 2)["o"]["parked"]

    set_limit(flow, "dead_letters", 1_000_000)
    flow.ends()  # lane 2 alone had something left to do
    assert [len(flow.out("predictions", partition=lane)) for lane in range(4)] == [62] * 4
    assert [len(flow.values("selections", partition=lane)) for lane in range(4)] == [13] * 4
    assert [record.value for record in flow.out("dead_letters", partition=2)] == [b"x" * 8000]
