"""Topics that change under a running flow: nothing is lost in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.expected import instances
from tests.kafka.state import position
from tests.support import Topics, produce
from tests.support.flow import OUTPUTS, KafkaFlow, Running


def looking(flow: KafkaFlow) -> Running:
    """The flow, which does not take ten seconds to notice."""
    return Running(*flow.arguments(), module="tests.kafka.looking")


def send(flow: KafkaFlow, partition: int, count: int, first: int = 0) -> None:
    sent = instances(count, first=first, stream=f"mail-{partition}")
    produce(flow.bootstrap, flow.instances, [(key, value, partition) for key, value in sent])


def seen(flow: KafkaFlow, *partitions: int) -> list[int]:
    return [len(flow.out("predictions", partition=partition)) for partition in partitions]


def test_partitions_that_were_added_stop_the_flow(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, partitions=2, input={"stop": None})
    for partition in (0, 1):
        send(flow, partition, 50)
    with looking(flow) as running:
        running.until(lambda: seen(flow, 0, 1) == [50, 50])
        topics.grow(flow.instances, 3)
        send(flow, 2, 50)
        send(flow, 0, 20, first=50)
        done = running.wait()
    assert done.code == 1
    told = f"the input kafka://{flow.bootstrap}/{flow.instances} has 3 partitions now instead of 2: keys have moved"
    assert done.sentence.startswith(told)
    assert "all that was read is committed. Give the flow another name, or set input.on_new_partitions" in done.sentence
    assert "Traceback" not in done.stderr
    assert [position(flow, lane) for lane in (0, 1)] == seen(flow, 0, 1)
    for name in (flow.topic[role] for role in OUTPUTS):
        topics.grow(name, 3)
    again = flow.run()
    assert again.code == 2
    assert f"the state topic {flow.state!r} has 2 partitions, the input has 3" in again.sentence


@pytest.mark.parametrize("member", [None, "only"], ids=["a new member", "a static member"])
def test_partitions_that_were_added_are_read_if_wanted(topics: Topics, tmp_path: Path, member: str | None) -> None:
    reading = {"stop": None, "stream": "partition", "on_new_partitions": "read"}
    flow = KafkaFlow(topics, tmp_path, partitions=2, input=reading, kafka={"group.instance.id": member})
    for partition in (0, 1):
        send(flow, partition, 50)
    with looking(flow) as running:
        running.until(lambda: seen(flow, 0, 1) == [50, 50])
        topics.grow(flow.instances, 4)
        for partition in range(4):  # those of the new partitions come before anybody reads them
            send(flow, partition, 30, first=50)
        for name in (flow.state, *(flow.topic[role] for role in OUTPUTS)):
            running.until(lambda name=name: topics.count(name) == 4)  # type: ignore[misc]
        running.until(lambda: seen(flow, 0, 1, 2, 3) == [80, 80, 30, 30])
        assert running.stop().code == 0
    for partition, count in enumerate((80, 80, 30, 30)):
        numbers = [one["seq"] for one in flow.values("predictions", partition=partition)]
        assert numbers == list(range(count))
    for partition in range(4):
        send(flow, partition, 5, first=80)
    flow.write(input={"stop": "end"})
    flow.ends()  # and a restart knows them all
    assert seen(flow, 0, 1, 2, 3) == [85, 85, 35, 35]


def test_a_single_partition_cannot_be_joined_by_others(topics: Topics, tmp_path: Path) -> None:
    """Records without a key were the stream `default`, and would be others."""
    flow = KafkaFlow(topics, tmp_path, input={"on_new_partitions": "read"})
    send(flow, 0, 5)
    flow.ends()
    topics.grow(flow.instances, 2)
    refused = flow.run("--again")
    assert refused.code == 2
    assert "had one partition and has 2 now: records without a key, which belonged to" in refused.sentence
    assert topics.count(flow.state) == 1


@pytest.mark.parametrize("anew", [False, True], ids=["deleted", "made anew"])
@pytest.mark.parametrize("role", ["instances", "state"])
def test_a_topic_that_goes_is_noticed(topics: Topics, tmp_path: Path, role: str, anew: bool) -> None:
    flow = KafkaFlow(topics, tmp_path, input={"stop": None})
    send(flow, 0, 20)
    with looking(flow) as running:
        running.until(lambda: seen(flow, 0) == [20])
        name = flow.state if role == "state" else flow.instances
        topics.remove(name)
        if anew:
            topics.make(name, 1, {"cleanup.policy": "compact", "delete.retention.ms": "86400000"})
        done = running.wait()
    assert done.code == 1, done.stderr
    assert name in done.sentence
    assert "Traceback" not in done.stderr
    assert seen(flow, 0) == [20]
