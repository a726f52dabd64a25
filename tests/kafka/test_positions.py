"""Where reading starts and stops: every form, with transaction markers and aborted records in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluiceway.errors import FlowError, SettingsError
from sluiceway.topics.kafka_reader import KafkaReader, kafka_bounds
from sluiceway.topics.url import KafkaTopic
from tests.support import Topics
from tests.support.flow import KafkaFlow

# offsets 0 1 |2| (3 4) |5| 6 |7| (8) |9|: |markers|, (aborted records)
TRANSACTIONS = [(2, True), (2, False), (1, True), (1, False)]
RECORDS = [0, 1, 6]
END = 10
MINUTE = 60_000
T0 = 1_700_000_000_000  # 2023-11-14T22:13:20Z


def write_transactions(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    offset = 0
    for count, commit in TRANSACTIONS:
        producer.begin_transaction()
        for _ in range(count):
            value = f'{{"x":{{"a":{offset}}},"y":1}}'
            producer.produce(topic, value, "mail", timestamp=T0 + offset * MINUTE)
            offset += 1
        assert producer.flush(30) == 0
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
        offset += 1


@pytest.fixture(scope="module")
def written(kafka: str) -> Iterator[KafkaTopic]:
    made = Topics(kafka)
    name = made("instances")
    write_transactions(kafka, name)
    yield KafkaTopic(kafka, name)
    made.clear()


def read(topic: KafkaTopic, start: str, stop: str) -> tuple[list[int], int]:
    """Offsets of the records between two positions, and where the last poll says that it ends."""
    bounds = kafka_bounds(topic, {}, 1, start, stop)
    reader = KafkaReader(topic, {}, 0, bounds.starts[0], bounds.stops[0])
    offsets: list[int] = []
    position = bounds.starts[0]
    try:
        while True:
            poll = reader.poll()
            if poll is None:
                continue
            assert poll.start == position
            position = poll.stop
            offsets += poll.offsets
            if poll.end:
                return offsets, position
    finally:
        reader.close()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stop", range(END + 1))
def test_a_stop_is_exclusive_and_may_fall_on_anything(written: KafkaTopic, stop: int) -> None:
    assert read(written, "beginning", str(stop)) == ([at for at in RECORDS if at < stop], stop)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("start", range(END + 1))
def test_a_start_is_inclusive_and_may_fall_on_anything(written: KafkaTopic, start: int) -> None:
    assert read(written, str(start), "end") == ([at for at in RECORDS if at >= start], END)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("start", "stop", "wanted"),
    [
        ("end", "end", []),
        ("-4", "end", [6]),
        ("-100", "end", RECORDS),
        ("beginning", "-4", [0, 1]),
        (f"s@{T0 + MINUTE}", "end", [1, 6]),
        (f"s@{T0 + MINUTE - 1}", "end", [1, 6]),
        (f"s@{T0 + MINUTE + 1}", "end", [6]),
        ("beginning", f"s@{T0 + MINUTE}", [0]),
        ("2023-11-14T22:14:20Z", "end", [1, 6]),
        ("2023-11-14T22:14:20", "end", [1, 6]),
        ("2023-11-14T23:14:20+01:00", "2023-11-14T22:15:00Z", [1]),
        ("1965-01-01", "end", RECORDS),
        ("2090-01-01", "end", []),
        ("6", "2", []),
    ],
)
def test_every_form_of_a_position(written: KafkaTopic, start: str, stop: str, wanted: list[int]) -> None:
    assert read(written, start, stop)[0] == wanted


def test_a_stop_in_the_future_is_refused(written: KafkaTopic) -> None:
    with pytest.raises(SettingsError, match="lies in the future; leave it out to run until stopped"):
        kafka_bounds(written, {}, 1, "beginning", "2099-01-01")


def test_a_start_beyond_the_end_is_refused(written: KafkaTopic) -> None:
    with pytest.raises(FlowError, match=rf"{written.name}', partition 0: .* offset 11, .* holds 0 to 10"):
        KafkaReader(written, {}, 0, 11, None)


def test_a_flow_ends_on_a_marker_and_goes_on_after_it(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, emit={"every": 1})
    write_transactions(flow.bootstrap, flow.instances)
    flow.write(input={"stop": 5})
    flow.ends()
    assert [one["source"]["instances"]["offset"] for one in flow.values("selections")] == [1, 2]
    assert committed(flow) == 5
    flow.write(input={"stop": "end"})
    flow.ends()
    assert [one["source"]["instances"]["offset"] for one in flow.values("selections")] == [1, 2, 7]
    assert committed(flow) == END  # what lag tools compare with the end


def committed(flow: KafkaFlow) -> int:
    consumer = Consumer({"bootstrap.servers": flow.bootstrap, "group.id": flow.name, "enable.auto.commit": False})
    try:
        [found] = consumer.committed([TopicPartition(flow.instances, 0)], timeout=30)
        return found.offset
    finally:
        consumer.close()
