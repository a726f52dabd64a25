"""Joining on the real broker while records come: labels after their instances and before, killed in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.support import Topics, produce
from tests.support.flow import STATE, KafkaFlow, Running, sluiceway


class Joined(KafkaFlow):
    """A join on two partitions, reading for as long as it runs."""

    def __init__(self, topics: Topics, directory: Path, *, labels: int = 2, **sections: Any) -> None:
        super().__init__(topics, directory, partitions=2, input={"stop": None}, **sections)
        self.topic["labels"] = topics("labels", partitions=labels)
        self.topic["labelled"] = topics("labelled", partitions=2)
        self.joining = f"{self.name}-join"
        topics.make(f"{self.joining}.state", 2, STATE)
        topics.also(groups=[self.joining, f"{self.joining}.members"])
        self.write()

    def send(self, role: str, records: list[dict[str, Any]]) -> None:
        produce(
            self.bootstrap, self.topic[role], [(f"s{one['id'] % 2}", json.dumps(one), one["id"] % 2) for one in records]
        )

    def joins(self) -> Running:
        return Running("join", self.file, "--checkpoint-every", "0.2")

    def labelled(self) -> list[Any]:
        return [one for partition in (0, 1) for one in self.values("labelled", partition=partition)]


def told_to_group(flow: Joined) -> dict[str, list[int]]:
    """By which lag tools see how far both topics have been read."""
    consumer = Consumer({"bootstrap.servers": flow.bootstrap, "group.id": flow.joining, "enable.auto.commit": False})
    try:
        roles = ("instances", "labels")
        places = {role: [TopicPartition(flow.topic[role], lane) for lane in (0, 1)] for role in roles}
        return {role: [at.offset for at in consumer.committed(places[role], timeout=30)] for role in roles}
    finally:
        consumer.close()


def test_labels_that_come_while_it_runs(topics: Topics, tmp_path: Path) -> None:
    flow = Joined(topics, tmp_path, join={"max_waiting": 10})
    instances: list[dict[str, Any]] = [{"id": number, "x": {"a": number}} for number in range(60)]
    flow.send("labels", [{"id": number, "y": 1} for number in (1, 2, 99)])
    flow.send("instances", instances[:10])
    with flow.joins() as running:
        running.until(lambda: len(flow.labelled()) == 2)
        flow.send("labels", [{"id": number, "y": 0} for number in (0, 3)])
        running.until(lambda: len(flow.labelled()) == 4)
        running.kill()
    flow.send("labels", [{"id": 4, "y": 0}])
    flow.send("instances", instances[10:])  # more than may wait: the oldest go on without a label
    with flow.joins() as running:
        running.until(lambda: len(flow.labelled()) == 40)
        flow.send("labels", [{"id": 38, "y": 1}, {"id": 59, "y": 1}])
        running.until(lambda: len(flow.out("dead_letters", partition=0)) == 1)
        running.until(lambda: len(flow.labelled()) == 41)
        assert running.stop().code == 0
    told = {one["id"]: one.get("y") for one in flow.labelled()}
    assert len(told) == 41, "each once"
    assert {id_: y for id_, y in told.items() if y is not None} == {0: 0, 1: 1, 2: 1, 3: 0, 4: 0, 59: 1}
    assert set(told) - {59} == set(range(40)), "those that waited longest were given up"
    [late] = flow.out("dead_letters", partition=0)
    assert dict(late.headers)["sluiceway.error.class"] == b"late-label"
    found = json.loads(sluiceway("inspect", flow.file, "--join", "--json").stdout)
    assert [lane["lag"] for lane in found["lanes"]] == [0, 0]
    assert told_to_group(flow) == {"instances": [30, 30], "labels": [4, 4]}


def test_another_number_of_partitions_is_refused(topics: Topics, tmp_path: Path) -> None:
    flow = Joined(topics, tmp_path, labels=3)
    done = sluiceway("join", flow.file)
    assert done.code == 2
    assert "(labels) has 3 partitions" in done.sentence
    assert "keys partitioned in the same way" in done.sentence
