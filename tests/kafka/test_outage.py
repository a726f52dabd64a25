"""The broker goes away under running flows, twice: frozen, then killed and restarted. Records keep coming, so each time
it goes in the middle of transactions. Two flows go through both outages; a third is stopped in the first.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from sluiceway.errors import ReopenError
from sluiceway.topics import kafka
from sluiceway.topics.kafka_reader import KafkaReader
from sluiceway.topics.url import KafkaTopic
from tests.kafka.expected import assert_exact, instances
from tests.support import Broker, Topics, produce
from tests.support.flow import KafkaFlow, Running

AWAY = 20.0
RECORDS, A_SECOND = 6000, 80


@contextlib.contextmanager
def fed(flows: list[KafkaFlow], sent: list[tuple[str, str]]) -> Iterator[None]:
    """Some records every few milliseconds, in order, whatever the broker does; at the end of the block all are in."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": flows[0].bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 120_000,
            "log_level": 0,
            "on_delivery": delivered,
        }
    )
    hurry = threading.Event()

    def feed() -> None:
        for key, value in sent:
            for flow in flows:
                producer.produce(flow.instances, value, key)
            producer.poll(0)
            hurry.wait(0 if hurry.is_set() else 1 / A_SECOND)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    yield
    hurry.set()
    feeder.join()
    assert producer.flush(60) == 0
    assert not failures


@pytest.mark.timeout(250)
def test_flows_wait_for_the_broker_and_lose_nothing(own_broker: Broker, tmp_path: Path) -> None:
    topics = Topics(own_broker.bootstrap)
    members = ("only", None)  # the same one for its group after the outage, or a new one
    steady, other, stopped = flows = [
        KafkaFlow(topics, tmp_path, input={"stop": None}, kafka={"group.instance.id": member})
        for member in (*members, None)
    ]
    sent = instances(RECORDS)
    with steady.start() as first, other.start() as second, stopped.start() as third:
        running = [(steady, first), (other, second)]
        with fed(flows, sent):
            _until_more_comes([*running, (stopped, third)])

            own_broker.pause()
            gone = time.monotonic()
            time.sleep(1.0)
            _is_stopped_while_nobody_answers(third)
            time.sleep(max(0.0, gone + AWAY - time.monotonic()))
            own_broker.resume()
            _until_more_comes(running)

            own_broker.kill()
            gone = time.monotonic()
            late = stopped.run(timeout=60)
            assert late.code == 2  # nobody has found that broker yet: a wrong address, most likely
            assert f"no Kafka broker answers at {own_broker.bootstrap} within 15 s" in late.sentence
            assert "Traceback" not in late.stderr
            time.sleep(max(0.0, gone + AWAY - time.monotonic()))
            assert first.alive
            assert second.alive
            own_broker.restart()
            _until_more_comes(running)
        with stopped.start() as again:
            running.append((stopped, again))
            for flow, process in running:
                process.until(lambda flow=flow: len(flow.out("predictions")) >= RECORDS)  # type: ignore[misc]
            for _, process in running:
                done = process.stop()
                assert done.code == 0, done.stderr
                assert "stopped, everything committed" in done.stderr
                assert "Traceback" not in done.stderr
                assert len(done.stderr.splitlines()) < 100  # an outage is no reason to shout
    for flow in flows:
        assert_exact(flow, sent, end=False)


def _is_stopped_while_nobody_answers(process: Running) -> None:
    began = time.monotonic()
    process.send(signal.SIGTERM)
    done = process.wait(30)
    assert time.monotonic() - began < 10.0
    assert done.code == 1
    assert "stopped, but the last commit of lane 0 did not come to an end" in done.sentence
    assert "Traceback" not in done.stderr


def _until_more_comes(running: list[tuple[KafkaFlow, Running]]) -> None:
    """Until each flow has given output for what came after this call."""
    for flow, process in running:
        had = len(flow.out("predictions"))
        process.until(lambda flow=flow, had=had: len(flow.out("predictions")) >= had + 100)  # type: ignore[misc]


def test_a_reader_whose_client_has_lost_every_broker_says_so(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lane is opened again, with another client."""
    topic = topics("instances")
    produce(topics.bootstrap, topic, [(None, f"{n}") for n in range(5)])
    monkeypatch.setattr(kafka, "RENEW_SECONDS", 0.5)
    reader = KafkaReader(KafkaTopic(topics.bootstrap, topic), {}, 0, 2, 5)
    reader._consumer.close()
    reader._consumer = kafka.reader("127.0.0.1:1", {"log_level": 0}, reader._lost)
    reader._consumer.assign([TopicPartition(topic, 0, 2)])
    with pytest.raises(ReopenError, match="this client has lost every broker; another one is tried"):
        _poll_for_ever(reader)
    reader.close()


def _poll_for_ever(reader: KafkaReader) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert reader.poll() is None
        time.sleep(0.01)
