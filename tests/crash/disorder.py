"""What must not be, made on purpose: lanes that are handed to everybody, reading before fencing, and a bug in each part
of a flow."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from sluiceway.flows import process
from sluiceway.topics.asleep_file import AsleepInStore
from sluiceway.topics.directory_reader import DirectoryReader
from sluiceway.topics.directory_store import DirectoryLane
from sluiceway.topics.kafka_reader import KafkaReader
from sluiceway.topics.kafka_store import KafkaLane
from sluiceway.topics.members import AllLanes
from sluiceway.topics.state_records import OPEN, OpenRecord
from sluiceway.topics.state_topic import GatheredInMemory, StateReader
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
        with closing(StateReader(topic, lane._lane, states=GatheredInMemory())) as reader:
            while not reader.at_end:
                reader.read()
            commit = reader.contents.commit
            asleep, lane._many = reader.streams()
            time.sleep(PAUSE)
            lane._writer.fence()
            lane._writer.announce(topic.info.name, OPEN, OpenRecord.of_this_process(topic.flow, lane._member).dump())
            lane._run = lane._agree(wanted, reader)
        return Restored(lane._run, commit, asleep)

    wrap(KafkaLane, "open", lambda original: open_wrongly)


def _skip_a_record_when_opened_again() -> None:
    """The positions are as they should be, so that only what comes out can tell."""

    def around(original: Any) -> Any:
        def poll(reader: Any) -> Any:
            found = original(reader)
            if found is None or not found.values or hasattr(reader, "planted"):
                return found
            reader.planted = True
            fields = ("keys", "values", "offsets", "next_offsets")
            return replace(found, **{name: getattr(found, name)[1:] for name in fields}) if found.start else found

        return poll

    for reader in (KafkaReader, DirectoryReader):
        wrap(reader, "poll", around)


def _forget_a_change() -> None:
    """Of the streams that were touched since the last commit, one is not written."""

    def around(original: Any) -> Any:
        def commit(lane: Any, positions: Mapping[str, int], changes: Any, *, final: bool) -> None:
            original(lane, positions, changes[:-1], final=final)

        return commit

    for lane in (KafkaLane, DirectoryLane):
        wrap(lane, "commit", around)


def _commit_the_position_before() -> None:
    """What is written now will come again."""

    def around(original: Any) -> Any:
        def commit(lane: Any, positions: Mapping[str, int], changes: Any, *, final: bool) -> None:
            last = getattr(lane, "planted", positions)
            lane.planted = positions
            original(lane, positions if final else last, changes, final=final)

        return commit

    for lane in (KafkaLane, DirectoryLane):
        wrap(lane, "commit", around)


def _restore_all_but_some() -> None:
    """Some streams are passed over, as if there were nothing of them, when a lane is opened."""

    def around(original: Any) -> Any:
        def take(reader: Any, offset: int, key: bytes, *given: Any) -> None:
            if not (key[:1] in (b"s", b"p") and key[-1] % 2):
                original(reader, offset, key, *given)

        return take

    def around_rows(original: Any) -> Any:
        return lambda asleep, rows: original(asleep, [row for row in rows if row[1] % 2 == 0])

    wrap(StateReader, "_take", around)
    wrap(AsleepInStore, "_with_pieces", around_rows)


BUGS: Mapping[str, Callable[[], None]] = {
    "source": _skip_a_record_when_opened_again,
    "lane": _forget_a_change,
    "sink": _commit_the_position_before,
    "restore": _restore_all_but_some,
}
