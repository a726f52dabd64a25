"""subscribe and latest on the real broker."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import sluiceway
from sluiceway import SettingsError, SplitStreamError, UnreachableError
from sluiceway.topics import feeds, kafka
from sluiceway.topics.positions import Position
from sluiceway.topics.url import KafkaTopic
from tests.client.follower import handled
from tests.client.snapshots import key, record, value
from tests.support import Broker, Topics, produce, read_committed

Name = tuple[str, str, int]


def url(topics: Topics, topic: str) -> str:
    return f"kafka://{topics.bootstrap}/{topic}"


def names(snapshots: list[sluiceway.Snapshot]) -> list[Name]:
    return [(snapshot.flow, snapshot.stream, snapshot.version) for snapshot in snapshots]


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_repeats_are_hidden(topics: Topics) -> None:
    topic = topics("selections", partitions=2)
    again = [record(version) for version in (10, 20, 30, 20, 30, 40)]
    produce(topics.bootstrap, topic, [*again, record(5, stream="chat", partition=1)])
    found = names(list(sluiceway.subscribe(url(topics, topic), start="beginning", stop="end")))
    assert [name for name in found if name[1] == "mail"] == [("spam", "mail", v) for v in (10, 20, 30, 40)]
    assert [name for name in found if name[1] == "chat"] == [("spam", "chat", 5)]
    newest = sluiceway.latest(url(topics, topic))
    assert {name: snapshot.version for name, snapshot in newest.items()} == {("spam", "mail"): 40, ("spam", "chat"): 5}
    last = sluiceway.subscribe(url(topics, topic), flow="spam", stream="mail", start=-1, stop="end")
    assert names(list(last)) == [("spam", "mail", 40)]


def test_only_what_comes_from_now_on(topics: Topics) -> None:
    topic = topics("selections")
    produce(topics.bootstrap, topic, [record(1)])
    with sluiceway.subscribe(url(topics, topic), timeout=20) as subscription:
        produce(topics.bootstrap, topic, [record(2)])
        assert next(subscription).version == 2
    with sluiceway.subscribe(url(topics, topic), start="current", timeout=20) as subscription:
        assert next(subscription).version == 2
        produce(topics.bootstrap, topic, [record(3)])
        assert next(subscription).version == 3


def test_uncommitted_output_is_not_seen(topics: Topics) -> None:
    """Neither what is still open, nor what was aborted; transaction markers are no records."""
    topic = topics("selections")
    settings = {"bootstrap.servers": topics.bootstrap, "transactional.id": topics.group("txn"), "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    for version, commit in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        producer.produce(topic, value(version), key())
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, value(4), key())
    producer.flush(30)
    assert sluiceway.latest(url(topics, topic))["spam", "mail"].version == 3
    with sluiceway.subscribe(url(topics, topic), start="beginning", timeout=20) as subscription:
        assert [next(subscription).version, next(subscription).version] == [1, 3]
        producer.commit_transaction(30)
        assert next(subscription).version == 4


def test_a_tombstone_ends_a_stream(topics: Topics) -> None:
    topic = topics("selections")
    produce(topics.bootstrap, topic, [record(10), record(5, stream="chat"), (key(stream="mail"), None, 0)])
    assert list(sluiceway.latest(url(topics, topic))) == [("spam", "chat")]
    current = sluiceway.subscribe(url(topics, topic), start="current", stop="end")
    assert names(list(current)) == [("spam", "chat", 5)]
    # a stream of that name begins anew, with versions that were there before
    produce(topics.bootstrap, topic, [record(3)])
    assert sluiceway.latest(url(topics, topic))["spam", "mail"].version == 3
    everything = sluiceway.subscribe(url(topics, topic), stream="mail", start="beginning", stop="end")
    assert names(list(everything)) == [("spam", "mail", 10), ("spam", "mail", 3)]


def test_going_on_after_a_retirement(topics: Topics) -> None:
    """Neither what was handled before it comes again, nor what was handled after it."""
    topic = topics("selections")
    before = [record(10_000), record(12_000)]
    produce(topics.bootstrap, topic, [*before, (key(), None, 0), *[record(version) for version in (1000, 2000)]])
    with sluiceway.subscribe(url(topics, topic), start="beginning", timeout=20) as first:
        marks = []
        for _ in range(4):
            next(first)
            marks.append(dict(first.marks))
    produce(topics.bootstrap, topic, [record(2000), record(3000)])

    def rest(start: str, after: dict[tuple[str, str], str]) -> list[int]:
        return [each.version for each in sluiceway.subscribe(url(topics, topic), start=start, stop="end", after=after)]

    assert rest("beginning", marks[3]) == rest("current", marks[3]) == [3000]
    assert rest("beginning", marks[1]) == [1000, 2000, 3000]
    whole = sluiceway.subscribe(url(topics, topic), start="beginning", stop="end")
    list(whole)
    assert rest("beginning", dict(whole.marks)) == rest("current", dict(whole.marks)) == []


def test_the_end_is_decided_once(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a partition that was empty when its end was looked up, and is not a moment later."""
    topic = topics("selections", partitions=2)
    produce(topics.bootstrap, topic, [record(1)])
    resolve = kafka.resolve

    def resolve_and_write(consumer: Consumer, name: str, partitions: int, position: Position) -> list[int]:
        found = resolve(consumer, name, partitions, position)
        if position.kind == "end":
            produce(topics.bootstrap, topic, [record(1, stream="chat", partition=1)])
        return found

    monkeypatch.setattr(kafka, "resolve", resolve_and_write)
    current = sluiceway.subscribe(url(topics, topic), start="current", stop="end", timeout=10)
    assert names(list(current)) == [("spam", "mail", 1)]
    assert current.complete


def test_a_compacted_topic(topics: Topics) -> None:
    """Really compacted: the test waits until the broker has removed what is outdated, the tombstone too."""
    eager = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
    }
    topic = topics("selections", config=eager)
    streams = [f"s{number}" for number in range(5)]
    versions = [record(version, stream=stream) for version in range(1, 41) for stream in streams]
    produce(topics.bootstrap, topic, [*versions, (key(stream="s0"), None, 0)])
    expected = {("spam", stream): 40 for stream in streams[1:]}
    written = len(versions) + 1

    def held() -> int:
        # a segment is closed by the first record after it, and only closed ones are cleaned
        nonlocal written
        produce(topics.bootstrap, topic, [record(written, stream="tick")])
        written += 1
        return len(read_committed(topics.bootstrap, topic)[0])

    deadline = time.monotonic() + 120
    while held() > 12:
        assert time.monotonic() < deadline, "the broker did not compact the topic"
        time.sleep(1)
    newest = {name: snapshot.version for name, snapshot in sluiceway.latest(url(topics, topic)).items()}
    assert newest.pop(("spam", "tick")) == written - 1
    assert newest == expected
    for start in ("beginning", "current"):
        found = names(list(sluiceway.subscribe(url(topics, topic), start=start, stop="end")))
        assert [name for name in found if name[1] != "tick"] == [("spam", stream, 40) for stream in streams[1:]]


def test_a_stream_in_two_partitions_is_told(topics: Topics) -> None:
    topic = topics("selections", partitions=2)
    produce(topics.bootstrap, topic, [record(1, partition=0), record(1, stream="chat", partition=1)])
    with sluiceway.subscribe(url(topics, topic), start="beginning", timeout=20) as subscription:
        assert {next(subscription).stream, next(subscription).stream} == {"mail", "chat"}
        produce(topics.bootstrap, topic, [record(2, partition=1)])
        with pytest.raises(SplitStreamError, match="partitions 0 and 1"):
            next(subscription)
    with pytest.raises(SplitStreamError):
        sluiceway.latest(url(topics, topic))


def test_added_partitions_are_found(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "LOOK_FOR_PARTITIONS_SECONDS", 0.5)
    topic = topics("selections")
    with sluiceway.subscribe(url(topics, topic), timeout=30) as subscription:
        topics.admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
        eventually(lambda: len(topics.admin.list_topics(topic, timeout=10).topics[topic].partitions) == 2)
        produce(topics.bootstrap, topic, [record(1, stream="new", partition=1)])
        assert next(subscription).stream == "new"


def test_mistakes_are_sentences(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="topic 'nowhere' does not exist on"):
        sluiceway.subscribe(url(topics, "nowhere"))
    topic = topics("instances")
    produce(topics.bootstrap, topic, [("mail", '{"x": {"a": 1}}')])
    with pytest.raises(SettingsError, match="partition 0, offset 0: this is no snapshot"):
        sluiceway.latest(url(topics, topic))
    with pytest.raises(SettingsError, match=r"start 99 lies outside of what partition 0 of topic .* holds, 0 to 1"):
        sluiceway.subscribe(url(topics, topic), start=99)
    monkeypatch.setattr("sluiceway.topics.kafka.ANSWER_SECONDS", 1.0)
    with pytest.raises(UnreachableError, match=r"no Kafka broker answers at 127\.0\.0\.1:9 within 1 s"):
        sluiceway.latest("kafka://127.0.0.1:9/selections", kafka={"log_level": 0})


def test_a_subscriber_killed_and_restarted(topics: Topics, tmp_path: Path) -> None:
    """Killed at any moment, it goes on with what it has not handled: every version once, in order."""
    topic = topics("selections", partitions=2)
    file = tmp_path / "handled"
    done = threading.Event()
    versions = range(1, 61)

    def write() -> None:
        for version in versions:
            both = [record(version), record(version, stream="chat", partition=1)]
            produce(topics.bootstrap, topic, both * 2)  # each twice: at least once
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    moments = random.Random(4)
    deaths = 0
    command = [sys.executable, "-m", "tests.client.follower", url(topics, topic), str(file)]
    while not done.is_set() or deaths < 3:
        before = len(handled(file))
        with subprocess.Popen(command) as follower:
            eventually(lambda before=before: len(handled(file)) > before or done.is_set())  # type: ignore[misc]
            time.sleep(moments.uniform(0.0, 0.5))
            follower.kill()
        deaths += 1
    writer.join()
    with subprocess.Popen(command) as follower:
        eventually(lambda: len(handled(file)) >= 2 * len(versions))
        time.sleep(0.5)
        follower.kill()
    found = handled(file)
    for stream in ("mail", "chat"):
        assert [int(mark.partition("@")[0]) for _, name, mark in found if name == stream] == list(versions)


def test_the_broker_restarts_while_subscribed(own_broker: Broker) -> None:
    bootstrap = own_broker.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("selections", num_partitions=2, replication_factor=1)])["selections"].result(30)
    quiet = {"log_level": 0, "reconnect.backoff.max.ms": 500}
    with sluiceway.subscribe(f"kafka://{bootstrap}/selections", timeout=60, kafka=quiet) as subscription:
        produce(bootstrap, "selections", [record(1)])
        assert next(subscription).version == 1
        own_broker.kill()
        time.sleep(1.0)
        own_broker.start()
        produce(bootstrap, "selections", [record(2), record(1, stream="chat", partition=1)])
        assert {(snapshot.stream, snapshot.version) for snapshot in (next(subscription), next(subscription))} == {
            ("mail", 2),
            ("chat", 1),
        }


def test_cancelling_does_not_wait_for_a_lost_broker(own_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for added partitions asks the broker; whoever wants to leave does not wait for its answer."""
    bootstrap = own_broker.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("selections", num_partitions=1, replication_factor=1)])["selections"].result(30)
    cancel = threading.Event()
    subscription = sluiceway.subscribe(f"kafka://{bootstrap}/selections", cancel=cancel, kafka={"log_level": 0})
    monkeypatch.setattr(feeds, "LOOK_FOR_PARTITIONS_SECONDS", 0.0)
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 600.0)
    subscription._feed._next_look = 0.0  # type: ignore[attr-defined]
    own_broker.kill()
    reading = threading.Thread(target=lambda: list(subscription), daemon=True)
    reading.start()
    time.sleep(2.0)
    cancel.set()
    reading.join(60)
    assert not reading.is_alive()


def test_a_broker_that_does_not_know_its_topic_yet_is_an_outage(topics: Topics) -> None:
    """As one that has just come back may say; the subscription outlives it."""
    topic = topics("selections")
    feed = feeds.KafkaFeed(KafkaTopic(topics.bootstrap, topic), {"log_level": 0}, Position("end"), None)
    try:
        topics.admin.delete_topics([topic])[topic].result(30)
        eventually(lambda: topic not in topics.admin.list_topics(timeout=10).topics)
        with pytest.raises(SettingsError, match="does not exist"):
            feed._count(first=True)
        feed._next_look = 0.0
        feed._look_for_partitions()
    finally:
        feed.close()


def test_a_feed_whose_client_has_lost_every_broker_takes_another(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics("selections")
    produce(topics.bootstrap, topic, [record(version) for version in (10, 20, 30)])
    monkeypatch.setattr(kafka, "RENEW_SECONDS", 0.5)
    feed = feeds.KafkaFeed(KafkaTopic(topics.bootstrap, topic), {}, Position("offset", 1), None)
    feed._consumer.close()
    feed._consumer = kafka.reader("127.0.0.1:1", {"log_level": 0}, feed._lost)
    feed._assign()
    found: list[int] = []
    deadline = time.monotonic() + 30
    while len(found) < 2 and time.monotonic() < deadline:
        found += [entry.offset for entry in feed.poll(0.05)]
    feed.close()
    assert found == [1, 2]
