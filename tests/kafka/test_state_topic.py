"""What a state topic must be, and what becomes of a flow where it is not: a sentence, and nothing is written."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from sluiceway.errors import FlowError, ReopenError
from sluiceway.flows.preflight import look_around
from sluiceway.flows.process import belongs_to, open_store
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.topics import kafka
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.store import Restored, Wanted, choices
from tests.kafka.expected import assert_exact, instances
from tests.kafka.state import latest, records_of
from tests.support import Topics, produce
from tests.support.flow import OUTPUTS, STATE, Done, KafkaFlow

SENT = instances(43)


def made(topics: Topics, directory: Path, **sections: Any) -> KafkaFlow:
    """A flow that has learnt from the first half of its input."""
    flow = KafkaFlow(topics, directory, **sections)
    produce(flow.bootstrap, flow.instances, SENT[:23])
    flow.ends()
    produce(flow.bootstrap, flow.instances, SENT[23:])
    return flow


def refused(flow: KafkaFlow, code: int, *more: str) -> str:
    """The sentence of a run that was refused without a trace."""
    before = {role: flow.out(role) for role in OUTPUTS}
    done: Done = flow.run("--again", *more)
    assert done.code == code, done.stderr
    assert "Traceback" not in done.stderr
    assert {role: flow.out(role) for role in OUTPUTS} == before
    return done.sentence


def delete_records(flow: KafkaFlow, before: int) -> None:
    set_config(flow, cleanup_policy="compact,delete")  # of a compacted topic nobody can delete records
    deadline = time.monotonic() + 30
    while not _deleted(flow, before):
        assert time.monotonic() < deadline, "the broker does not take the policy"
        time.sleep(0.1)
    set_config(flow, cleanup_policy="compact")


def _deleted(flow: KafkaFlow, before: int) -> bool:
    """A setting reaches the broker some time after it was taken."""
    [done] = flow.topics.admin.delete_records([TopicPartition(flow.state, 0, before)]).values()
    problem = done.exception(30)
    if isinstance(problem, KafkaException) and problem.args[0].code() == KafkaError.POLICY_VIOLATION:
        return False
    return done.result(30) is not None


def set_config(flow: KafkaFlow, **values: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, flow.state, incremental_configs=entries)
    for done in flow.topics.admin.incremental_alter_configs([resource]).values():
        done.result(30)


def lead_on(flow: KafkaFlow) -> str:
    return choices(flow.name)


# -- lost ------------------------------------------------------------------------------------------------------------


def test_a_state_topic_that_is_gone(topics: Topics, tmp_path: Path) -> None:
    flow = made(topics, tmp_path)
    topics.remove(flow.state)
    assert f"there is no topic {flow.state!r} (state) on {flow.bootstrap}; create it" in refused(flow, 2)
    sentence = refused(flow, 1, "--create-topics")
    selections = flow.topic["selections"]
    assert f"topic {selections!r} holds snapshots of {flow.name!r}, but its state topic {flow.state!r} is" in sentence
    assert sentence.endswith(lead_on(flow))
    assert flow.state not in topics.admin.list_topics(timeout=10).topics  # not made either


def test_a_new_state_topic_beside_a_group_that_knows_better(topics: Topics, tmp_path: Path) -> None:
    """A flow that has made no snapshot yet, so the selections do not tell."""
    flow = made(topics, tmp_path, emit={"every": 1000, "final": False})
    topics.remove(flow.state)
    for more in ("--create-topics", "--again"):
        sentence = refused(flow, 1, more)
        assert f"the consumer group {flow.name!r} says that the flow has come to offset 23" in sentence
        assert "was the topic deleted, or is it the store of an earlier release?" in sentence
        assert sentence.endswith(lead_on(flow))


@pytest.mark.parametrize("left", [0, 3], ids=["wholly", "but for the last commit"])
def test_an_emptied_state_topic(topics: Topics, tmp_path: Path, left: int) -> None:
    flow = made(topics, tmp_path)
    end = topics.end(flow.state)
    delete_records(flow, end - left)
    assert ("m" in records_of(flow)) == bool(left)
    sentence = refused(flow, 1)
    lost = f"the state topic {flow.state!r} has lost records of partition 0 (it begins at offset {end - left})"
    assert lost in sentence
    assert sentence.endswith(lead_on(flow))


# -- unfit -----------------------------------------------------------------------------------------------------------


def test_a_state_topic_that_would_forget(topics: Topics, tmp_path: Path) -> None:
    flow = made(topics, tmp_path)
    for policy in ("delete", "compact,delete"):
        set_config(flow, cleanup_policy=policy)
        assert f"has cleanup.policy={policy}, so it would forget states that are in use" in refused(flow, 2)
    set_config(flow, cleanup_policy="compact", delete_retention_ms="1000")
    assert "has delete.retention.ms=1000, so a slow restore could revive what was removed" in refused(flow, 2)
    set_config(flow, delete_retention_ms=STATE["delete.retention.ms"])
    flow.ends("--again")
    assert len(flow.out("predictions")) == len(SENT)


def test_a_state_topic_with_other_partitions_than_the_input(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, partitions=2)
    flow.topic["state"] = topics("state", 1, STATE)
    flow.write()
    sentence = refused(flow, 2)
    assert f"the state topic {flow.topic['state']!r} has 1 partition, the input has 2" in sentence


@pytest.mark.parametrize("committed", [True, False])
def test_a_state_topic_of_another_flow(topics: Topics, tmp_path: Path, committed: bool) -> None:
    other = KafkaFlow(topics, tmp_path)
    if committed:
        produce(other.bootstrap, other.instances, SENT)
        other.ends()
    else:  # it has opened its lane and waits for something to come
        other.write(input={"stop": None})
        with other.start() as idle:
            idle.until(lambda: "r" in records_of(other))
            assert idle.stop().code == 0
    flow = KafkaFlow(topics, tmp_path)
    produce(flow.bootstrap, flow.instances, SENT)
    flow.topic["state"] = other.state
    flow.write()
    held = latest(other)
    assert f'holds the models of flow "{other.name}", not of "{flow.name}"' in refused(flow, 2)
    assert latest(other) == held


# -- damaged ---------------------------------------------------------------------------------------------------------

Harm = Callable[[dict[bytes, bytes]], list[tuple[bytes, bytes | None]]]
HEAD = b"s" + struct.pack(">I", 0) + b"mail"
"""The key of the first chunk of the only stream's head."""
FIRST = struct.calcsize(">IQ")
"""How much stands before a first chunk."""


def committed_again(held: dict[bytes, bytes], *changes: tuple[bytes, bytes | None]) -> list[tuple[bytes, bytes | None]]:
    return [*changes, (b"m", held[b"m"])]


def other_version(record: bytes) -> bytes:
    return json.dumps({**json.loads(record), "v": 2}).encode()


HARMS: dict[str, tuple[Harm, str]] = {
    "a foreign record": (
        lambda held: [(b"hello", b"world")],
        "a record of it with key b'hello' is damaged, or not Sluiceway's",
    ),
    "a foreign record without a key": (
        lambda held: [(b"", b"world")],
        "a record of it with key b'' is damaged, or not Sluiceway's",
    ),
    "a damaged commit": (lambda held: [(b"m", b"{")], "its commit record is damaged, or not Sluiceway's"),
    "a commit that lacks something": (lambda held: [(b"m", b'{"v": 1}')], "its commit record is damaged, or not"),
    "a commit of another version": (
        lambda held: [(b"m", other_version(held[b"m"]))],
        "its commit record has version 2, this program knows 1",
    ),
    "a run of another version": (
        lambda held: [(b"r", other_version(held[b"r"]))],
        "its run record has version 2, this program knows 1",
    ),
    "states without a commit": (
        lambda held: [(HEAD, held[HEAD])],
        "states stand in it that no commit record follows",
    ),
    "a missing chunk": (
        lambda held: committed_again(held, (HEAD, struct.pack(">I", 2) + held[HEAD][4:])),
        "a state in it is damaged: parts of it are missing",
    ),
    "no first chunk": (
        lambda held: committed_again(held, (b"s" + struct.pack(">I", 1) + b"mall", b"x")),
        "a state in it is damaged: parts of it are missing",
    ),
    "a piece without a head": (
        lambda held: committed_again(held, (b"p" + struct.pack(">QI", 7, 0) + b"mall", held[HEAD])),
        "a state in it is damaged: parts of it are missing",
    ),
    "a state that is no envelope": (
        lambda held: committed_again(held, (HEAD, held[HEAD][:FIRST] + b"pickle")),
        "lane 0: the stored state of stream 'mail' cannot be used: it is damaged, or not Sluiceway's",
    ),
    "a state of another version": (
        lambda held: committed_again(held, (HEAD, held[HEAD][:FIRST] + b"S\x07" + held[HEAD][FIRST + 2 :])),
        "lane 0: the stored state of stream 'mail' cannot be used: its format has version 7, this program knows",
    ),
    "a damaged state": (
        lambda held: committed_again(held, (HEAD, held[HEAD][:-9])),
        "lane 0: the stored state of stream 'mail' cannot be used: it is damaged: ",
    ),
}  # fmt: skip


LATER = ("a state that is no envelope", "a state of another version", "a damaged state")
"""Met when the stream comes: states are read as they are needed."""


@pytest.fixture(scope="module")
def healthy(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaFlow]:
    topics = Topics(kafka)
    yield made(topics, tmp_path_factory.mktemp("healthy"))
    topics.clear()


def harmed(flow: KafkaFlow, harm: Harm | None) -> None:
    """Give the flow a state topic of its own that holds what its first one does, and the harm."""
    held = latest(flow)
    assert HEAD in held
    order = sorted(held, key=lambda key: key == b"m")
    flow.topic["state"] = flow.topics("state", 1, STATE)
    flow.write()
    kept = [(key, held[key]) for key in order]
    produce(flow.bootstrap, flow.topic["state"], kept if harm is None else [*kept, *harm(held)])


def opened(flow: KafkaFlow) -> Restored:
    """The lane as a process would open it."""
    settings = Settings.load(flow.file)
    around = look_around(settings)
    store = open_store(settings, around, belongs_to(settings, around, SELECTING))
    lane = store.lane(0, lambda: True)
    try:
        return lane.open(Wanted(1, 1, "end", lambda before: Bounds((0,), (0,), "end")))
    finally:
        lane.close()


@pytest.mark.parametrize("harm", [harm for harm in HARMS if harm not in LATER])
def test_a_damaged_or_foreign_record(healthy: KafkaFlow, harm: str) -> None:
    change, sentence = HARMS[harm]
    harmed(healthy, change)
    with pytest.raises(FlowError) as refusal:
        opened(healthy)
    told = str(refusal.value)
    assert f"the state topic {healthy.topic['state']!r}, partition 0, cannot be used: " in told
    assert sentence in told
    assert told.endswith(lead_on(healthy))


def test_without_harm_it_opens(healthy: KafkaFlow) -> None:
    harmed(healthy, None)
    restored = opened(healthy)
    assert list(restored.asleep.born(0, 10)) == ["mail"]
    assert restored.commit is not None
    assert restored.commit.positions == {"instances": 23}


@pytest.mark.parametrize("harm", ["a foreign record", *LATER])
def test_a_harmed_flow_is_told_so(healthy: KafkaFlow, harm: str) -> None:
    change, sentence = HARMS[harm]
    harmed(healthy, change)
    told = refused(healthy, 1)
    assert sentence in told
    assert told.endswith("this lane cannot go on" if harm in LATER else lead_on(healthy))


# -- chunks ----------------------------------------------------------------------------------------------------------


def test_a_model_of_many_messages(topics: Topics, tmp_path: Path) -> None:
    """200 KB in a topic whose messages are at most 20 KB: killed and resumed, output and model are those of one go."""
    limits = {"state": {"max.message.bytes": "20000"}}
    flow = KafkaFlow(topics, tmp_path, configs=limits, operator={"k": 8000}, emit={"every": 5, "top": 5})
    names = [f"feature-{number:05d}" for number in range(8000)]

    def instance(number: int) -> tuple[str, str]:
        x = {names[(number * 997 + at * 3) % 8000]: 1 + (number * at) % 7 for at in range(2000)}
        return "mail", json.dumps({"x": x, "y": (-1) ** (number // 3)})

    sent = [instance(number) for number in range(60)]
    flow.write(input={"stop": None})
    for start in range(0, 60, 20):
        produce(flow.bootstrap, flow.instances, sent[start : start + 20])
        with flow.start() as running:
            running.until(lambda start=start: len(flow.out("predictions")) >= start + 20)  # type: ignore[misc]
            running.kill()
    flow.write(input={"stop": "end"})
    flow.ends()
    assert_exact(flow, sent)
    chunks = [value for key, value in latest(flow).items() if key[:1] == b"s"]
    assert sum(map(len, chunks)) > 200_000
    assert len(chunks) > 10
    assert max(map(len, chunks)) < 20_000


def test_a_topic_deleted_while_a_lane_reads_its_state_lets_the_lane_be_opened_again(topics: Topics) -> None:
    """Then the look at all topics tells what has happened; the client only says that it found no offset."""
    name = topics("state", 1)
    with closing(kafka.reader(topics.bootstrap, {})) as consumer:
        kafka.watermarks(consumer, name, 0)
        topics.remove(name)
        consumer.assign([TopicPartition(name, 0, OFFSET_END)])
        with pytest.raises(ReopenError, match=name):
            list(kafka.told(_coming(consumer), name))


def _coming(consumer: Consumer) -> Iterator[Message]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        yield from consumer.consume(10, 0.2)
