"""The final snapshot comes once, however the polls around the end of the input fall."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluiceway.schemas.lane import LaneOutput, OutRecord
from sluiceway.topics.kafka import TopicInfo
from sluiceway.topics.kafka_writer import KafkaOutput, TransactionalLane
from tests.support import Topics, read_committed

END = 10


@pytest.fixture
def starters() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, "lane-start") as pool:
        yield pool


def test_a_committed_final_stays_committed(kafka: str, topics: Topics, starters: ThreadPoolExecutor) -> None:
    """A directory's end is a poll of its own, so an epoch may close at the last record but before the end.

    Three runs from the same checkpoint: one got its final snapshot out, one died just before the end, one finishes.
    """
    name = topics("selections")
    info = TopicInfo(name, "", 1, 1_000_000, readable=True, writable=True)
    output = KafkaOutput(topics.group("flow"), kafka, {}, {"selections": info}, name, 60.0)
    for end in (True, False, True):
        lane = TransactionalLane(0, output, starters)
        final = [OutRecord(END, b"flow/stream", b"final")] if end else []
        lane.write(LaneOutput(0, 0, END, end, selections=[OutRecord(3, b"flow/stream", b"interval")], finals=final))
        lane.commit()
        lane.close()
    [records] = read_committed(kafka, name).values()
    assert [record.value for record in records] == [b"interval", b"final"]
