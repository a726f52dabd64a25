"""What must not be, made on purpose: lanes that are handed to everybody, and reading before fencing."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from sluiceway.flows import process
from sluiceway.topics.kafka_store import KafkaLane
from sluiceway.topics.members import AllLanes
from sluiceway.topics.state_records import OPEN, OpenRecord
from sluiceway.topics.state_topic import StateReader
from sluiceway.topics.store import Restored, Wanted
from tests.crash.seams import wrap

PAUSE = 0.4
"""Between reading and fencing: the predecessor commits meanwhile."""


def contend(lanes: int) -> None:
    """No group: this process takes every lane, whoever has it, again and again; fencing alone is left."""

    def around(original: Any) -> Any:
        def member(flow: Any, bootstrap: Any, config: Any, topic: Any, worker: int, gained: Any, lost: Any) -> AllLanes:
            return AllLanes(range(lanes), gained)

        return member

    wrap(process, "GroupMember", around)


def read_before_fencing() -> None:
    """The control: what is read is no longer true when the predecessor is fenced."""

    def open_wrongly(lane: Any, wanted: Wanted) -> Restored:
        topic = lane._store.topic
        with closing(StateReader(topic, lane._lane)) as reader:
            while not reader.at_end:
                reader.read()
            commit = reader.contents.commit
            streams, lane._many = reader.streams()
            time.sleep(PAUSE)
            lane._writer.fence()
            lane._writer.announce(topic.info.name, OPEN, OpenRecord.of_this_process(topic.flow, lane._member).dump())
            lane._run = lane._agree(wanted, reader)
        return Restored(lane._run, commit, streams)

    wrap(KafkaLane, "open", lambda original: open_wrongly)
