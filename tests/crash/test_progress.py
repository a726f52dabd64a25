"""The group's word never goes back: a run that dies sooner than the one before it takes nothing back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sluiceway.schemas.lane import LaneOutput, OutRecord
from sluiceway.topics.kafka import TopicInfo
from sluiceway.topics.kafka_writer import KafkaOutput, TransactionalLane
from tests.support import Topics, read_committed


def test_a_run_that_dies_sooner_takes_nothing_back(kafka: str, topics: Topics) -> None:
    """Three runs from the same checkpoint: one got 20 records out, one died after 10, one finishes."""
    name = topics("selections")
    info = TopicInfo(name, "", 1, 1_000_000, readable=True, writable=True)
    output = KafkaOutput(topics.group("flow"), kafka, {}, {"selections": info}, name, 60.0)
    with ThreadPoolExecutor(1, "lane-start") as starters:
        for stop in (20, 10, 30):
            lane = TransactionalLane(0, output, starters)
            records = [OutRecord(offset, b"flow/stream", b"%d" % offset) for offset in range(stop)]
            lane.write(LaneOutput(0, 0, stop, end=False, selections=records))
            lane.commit()
            lane.close()
    [records_out] = read_committed(kafka, name).values()
    assert [record.value for record in records_out] == [b"%d" % offset for offset in range(30)]
