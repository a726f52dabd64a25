"""Applying on the real broker: next to a running flow, killed, with a neighbour on the same topics."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.apply.expected import STREAMS, expected, instances
from tests.client import snapshots
from tests.support import Topics, produce
from tests.support.flow import STATE, KafkaFlow, Running, sluiceway

PARTITION = {stream: number % 2 for number, stream in enumerate(STREAMS)}


class Applied(KafkaFlow):
    """A selecting flow on two partitions, and its apply flow."""

    def __init__(self, topics: Topics, directory: Path, **sections: Any) -> None:
        super().__init__(topics, directory, partitions=2, **sections)
        self.topic["applied"] = topics("applied", partitions=2)
        topics.make(f"{self.name}-apply.state", 2, STATE)
        self.sent: dict[int, list[tuple[str, dict[str, Any]]]] = {0: [], 1: []}
        self.write()

    def send(self, count: int) -> None:
        records = instances(count, first=sum(map(len, self.sent.values())))
        for stream, record in records:
            self.sent[PARTITION[stream]].append((stream, record))
        produce(
            self.bootstrap,
            self.instances,
            [(stream, json.dumps(record), PARTITION[stream]) for stream, record in records],
        )

    def apply_arguments(self, *more: str) -> Sequence[str | Path]:
        return ("apply", self.file, "--again", "--checkpoint-every", "0.2", *more)

    def applying(self) -> Running:
        return Running(*self.apply_arguments())

    def count(self) -> int:
        return sum(len(self.out("applied", partition=partition)) for partition in (0, 1))

    def assert_applied(self) -> None:
        for partition, sent in self.sent.items():
            records = [(offset, stream, record) for offset, (stream, record) in enumerate(sent)]
            selected = [
                snapshot
                for snapshot in self.values("selections", partition=partition)
                if snapshot is not None and snapshot["flow"] == self.name
            ]
            assert selected
            got = self.values("applied", partition=partition)
            assert got == expected(self.name, partition, records, selected)
            keys = [record.key for record in self.out("applied", partition=partition)]
            usable = [stream for stream, record in sent if record.get("x") != "not features"]
            assert keys == [stream.encode() for stream in usable]


def test_after_the_flow(topics: Topics, tmp_path: Path) -> None:
    flow = Applied(topics, tmp_path)
    flow.send(400)
    flow.ends()
    done = sluiceway(*flow.apply_arguments())
    assert done.code == 0, done.stderr
    flow.assert_applied()


def test_two_workers(topics: Topics, tmp_path: Path) -> None:
    """A lane each; they share nothing."""
    flow = Applied(topics, tmp_path)
    flow.send(400)
    flow.ends()
    with Running(*flow.apply_arguments(), env={"BYTEWAX_WORKERS_PER_PROCESS": "2"}) as applying:
        assert applying.wait().code == 0, applying.stderr
    flow.assert_applied()


def test_next_to_a_running_flow_both_killed_again_and_again(topics: Topics, tmp_path: Path) -> None:
    """Whatever dies when: the answer is a matter of the data."""
    flow = Applied(topics, tmp_path, input={"stop": None}, emit={"every": 4})
    moments = random.Random(5)
    for _ in range(4):
        flow.send(150)
        with flow.start() as selecting, flow.applying() as applying:
            before = flow.count()
            applying.until(lambda before=before: flow.count() > before)  # type: ignore[misc]
            flow.send(150)
            time.sleep(moments.uniform(0.0, 0.6))
            first, second = (selecting, applying) if moments.random() < 0.5 else (applying, selecting)
            first.kill()
            time.sleep(moments.uniform(0.0, 0.6))
            second.kill()
    whole = sum(record.get("x") != "not features" for sent in flow.sent.values() for _, record in sent)
    with flow.start() as selecting, flow.applying() as applying:
        applying.until(lambda: flow.count() >= whole)
        assert applying.stop().code == 0
        assert selecting.stop().code == 0
    flow.assert_applied()


def test_a_neighbour_with_an_open_transaction_delays_but_changes_nothing(topics: Topics, tmp_path: Path) -> None:
    """What the flow committed after it is not visible yet, though its progress is: applying must wait for it."""
    flow = Applied(topics, tmp_path)
    flow.send(100)
    settings = {"bootstrap.servers": flow.bootstrap, "transactional.id": topics.group("other"), "log_level": 0}
    neighbour = Producer(settings)
    neighbour.init_transactions(30)
    neighbour.begin_transaction()
    strange = snapshots.value(999, flow="other", stream="mail", features=["f11"])
    for partition in (0, 1):
        neighbour.produce(flow.topic["selections"], strange, snapshots.key("other", "mail"), partition)
    neighbour.flush(30)
    flow.ends()
    with flow.applying() as applying:
        time.sleep(4)
        assert applying.alive, applying.stderr
        assert flow.count() == 0
        neighbour.commit_transaction(30)
        assert applying.wait().code == 0
    flow.assert_applied()


def test_a_retired_stream_and_a_flow_that_has_not_begun(topics: Topics, tmp_path: Path) -> None:
    flow = Applied(topics, tmp_path)
    flow.send(60)
    with flow.applying() as applying:
        time.sleep(2)
        assert applying.alive, applying.stderr
        assert flow.count() == 0
        flow.ends()
        assert applying.wait().code == 0
    produce(flow.bootstrap, flow.topic["selections"], [(f"{flow.name}/mail", None, PARTITION["mail"])])
    flow.send(60)
    flow.ends("--again")
    done = sluiceway(*flow.apply_arguments())
    assert done.code == 0, done.stderr
    flow.assert_applied()


def test_the_topic_is_made_on_demand(topics: Topics, tmp_path: Path) -> None:
    flow = Applied(topics, tmp_path)
    flow.send(20)
    flow.ends()
    flow.topic["applied"] += "-new"
    topics.also(flow.topic["applied"])
    topics.remove(f"{flow.name}-apply.state")
    flow.write()
    missing = sluiceway(*flow.apply_arguments())
    assert missing.code == 2
    named = f"{flow.topic['applied']!r} (applied), '{flow.name}-apply.state' (state)"
    assert missing.sentence.startswith(f"there are no topics {named} on ")
    done = sluiceway(*flow.apply_arguments("--create-topics"))
    assert done.code == 0, done.stderr
    flow.assert_applied()


def test_a_flow_that_has_never_run(topics: Topics, tmp_path: Path) -> None:
    """Whose state topic is not there, so nothing tells how far it is."""
    flow = Applied(topics, tmp_path)
    topics.remove(flow.state)
    refused = sluiceway(*flow.apply_arguments())
    assert refused.code == 2
    assert refused.sentence == f"the flow's state topic {flow.state!r} does not exist; run the flow first"
