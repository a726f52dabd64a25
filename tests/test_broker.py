"""The broker, the fixtures and the plain clients that the other tests stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support import Broker, BrokerFailed, Topics, produce, read_committed
from tests.support import broker as module

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).resolve().parents[1]


def test_a_cluster_id_is_never_taken_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([uuid.UUID(bytes=b"\xf8" + bytes(15)), uuid.UUID(bytes=bytes(16))])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(drawn))
    assert module.new_cluster_id() == "A" * 22


def values(bootstrap: str, topic: str, *, uncommitted: bool = False) -> list[bytes | None]:
    found = read_committed(bootstrap, topic, uncommitted=uncommitted)
    return [record.value for partition in sorted(found) for record in found[partition]]


def test_what_is_produced_is_read_back_in_order(topics: Topics) -> None:
    topic = topics("instances", partitions=3)
    records = [(f"k{n}", f"v{n}", n % 3) for n in range(3000)]
    assert produce(topics.bootstrap, topic, records) == 3000
    found = read_committed(topics.bootstrap, topic)
    assert set(found) == {0, 1, 2}
    for partition in found:
        expected = [(k.encode(), v.encode()) for k, v, p in records if p == partition]
        assert [record[:2] for record in found[partition]] == expected


def test_partitions_can_be_chosen_and_nothing_is_made_up(topics: Topics) -> None:
    topic = topics("instances", partitions=2)
    produce(topics.bootstrap, topic, [(None, "one", 1)])
    assert read_committed(topics.bootstrap, topic, [0]) == {0: []}
    assert read_committed(topics.bootstrap, topic, [1]) == {1: [(None, b"one", [])]}


def test_headers_come_back(topics: Topics) -> None:
    topic = topics("snapshots")
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    producer.produce(topic, b"v", headers=[("a", b"1"), ("a", b"2")])
    assert producer.flush(30) == 0
    assert read_committed(topics.bootstrap, topic)[0] == [(None, b"v", [("a", b"1"), ("a", b"2")])]


def test_topics_keep_old_records_and_have_names_of_their_own(topics: Topics) -> None:
    first, second = topics("same"), topics("same", config={"cleanup.policy": "compact"})
    assert first != second
    old = Producer({"bootstrap.servers": topics.bootstrap})
    old.produce(first, b"old", timestamp=1)
    assert old.flush(30) == 0
    assert values(topics.bootstrap, first) == [b"old"]


def test_topics_are_gone_afterwards(kafka: str) -> None:
    made = Topics(kafka)
    topic, group = made("gone"), made.group()
    produce(kafka, topic, [(None, "v")])
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    made.clear()
    assert topic not in made.admin.list_topics(timeout=10).topics
    listed = made.admin.list_consumer_groups().result(10)
    assert group not in {one.group_id for one in listed.valid}


def test_aborted_and_open_transactions_are_invisible(topics: Topics) -> None:
    topic = topics("snapshots")
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for value, commit in ((b"first", True), (b"aborted", False), (b"second", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(30) == 0
    assert values(topics.bootstrap, topic) == [b"first", b"second"]
    assert values(topics.bootstrap, topic, uncommitted=True) == [b"first", b"aborted", b"second", b"open"]
    producer.abort_transaction(30)
    assert values(topics.bootstrap, topic) == [b"first", b"second"]


def test_a_timed_out_transaction_is_found_within_seconds(topics: Topics) -> None:
    topic = topics("snapshots")
    settings = {"bootstrap.servers": topics.bootstrap, "transactional.id": topic, "log_level": 0}
    producer = Producer({**settings, "transaction.timeout.ms": 1000, "delivery.timeout.ms": 1000})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"late")
    assert producer.flush(30) == 0
    produce(topics.bootstrap, topic, [(None, "after")])
    deadline = time.monotonic() + 8
    while values(topics.bootstrap, topic) != [b"after"]:
        assert time.monotonic() < deadline, "the broker did not abort the transaction"
        time.sleep(0.2)
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)


def test_writing_can_be_denied_on_one_topic(topics: Topics) -> None:
    denied, open_ = topics("denied"), topics("open")
    produce(topics.bootstrap, denied, [(None, "before")])
    topics.deny_write(denied)
    with pytest.raises(KafkaException) as caught:
        produce(topics.bootstrap, denied, [(None, "refused")])
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    produce(topics.bootstrap, open_, [(None, "elsewhere")])
    assert values(topics.bootstrap, denied) == [b"before"]
    assert values(topics.bootstrap, open_) == [b"elsewhere"]
    topics.allow_write(denied)
    produce(topics.bootstrap, denied, [(None, "after")])
    assert values(topics.bootstrap, denied) == [b"before", b"after"]


def test_a_killed_broker_comes_back_with_its_data(own_broker: Broker) -> None:
    address = own_broker.bootstrap
    topic = Topics(address)("instances", partitions=2)
    produce(address, topic, [("k", "before", 1)])
    own_broker.kill()
    assert not own_broker.running()
    assert not module.answers(address, 1.0)
    assert own_broker.restart() == address
    produce(address, topic, [("k", "after", 1)])
    assert read_committed(address, topic) == {0: [], 1: [(b"k", b"before", []), (b"k", b"after", [])]}


def test_a_paused_broker_is_silent_and_then_answers(own_broker: Broker) -> None:
    own_broker.pause()
    assert not module.answers(own_broker.bootstrap, 1.0)
    own_broker.resume()
    assert module.answers(own_broker.bootstrap, 30.0)


def test_a_broker_that_cannot_start_shows_its_log(own_broker: Broker, tmp_path: Path) -> None:
    wrong = Broker(tmp_path / "wrong", settings={"num.io.threads": "none"})
    with pytest.raises(BrokerFailed, match=r"num\.io\.threads"):
        wrong.start()
    taken = Broker(tmp_path / "taken", port=int(own_broker.bootstrap.rpartition(":")[2]))
    with pytest.raises(BrokerFailed, match="Address already in use"):
        taken.start()
    assert module.answers(own_broker.bootstrap, 10.0)


def test_a_broker_dies_with_its_parent(own_broker: Broker, tmp_path: Path) -> None:
    own_broker.kill()  # one at a time is enough
    script = (
        "import sys, time; from pathlib import Path; from tests.support import Broker\n"
        "broker = Broker(Path(sys.argv[1])); broker.start(); print(broker.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "child")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.send_signal(signal.SIGKILL)
        parent.wait(10)
    deadline = time.monotonic() + 10
    while _alive(pid):
        assert time.monotonic() < deadline, "the broker outlived its parent"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
