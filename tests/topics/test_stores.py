"""Both stores by themselves: open, commit, read, glance, follow; the same laws for Kafka and for directories."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import FlowError, ReopenError
from sluiceway.schemas.lane import LaneOutput, OutRecord
from sluiceway.schemas.state import StoredChange, StoredStream
from sluiceway.topics import kafka as kafka_client
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory import create_directory_topic, partition_path
from sluiceway.topics.directory_store import DirectoryStore, lane_path
from sluiceway.topics.kafka_store import KafkaStore
from sluiceway.topics.kafka_writer import KafkaOutput
from sluiceway.topics.state_records import RunRecord
from sluiceway.topics.state_topic import Follower, StateTopic
from sluiceway.topics.store import Glance, LaneStore, Restored, Wanted
from sluiceway.topics.url import DirectoryTopic
from tests.support import Topics, read_committed
from tests.support.flow import STATE

BOUNDS = Bounds((0, 0), (9, 9), "end")
BELONGS = {"flow": "f", "params": {"k": 3}}


def wanted(number: int = 1) -> Wanted:
    return Wanted(number, 2, "end", lambda before: BOUNDS)


def output(*values: bytes) -> LaneOutput:
    made = LaneOutput(0, 0, len(values), False)
    made.predictions = [OutRecord(at, b"k", value) for at, value in enumerate(values)]
    return made


def change(stream: str, birth: int, head: bytes, added: dict[int, bytes] | None = None, *dropped: int) -> StoredChange:
    return StoredChange(stream, birth, head, added or {}, list(dropped))


class Kept:
    """A store of two lanes, and how to look at what it has put out."""

    def __init__(self, store: KafkaStore | DirectoryStore, predictions: Callable[[], list[bytes | None]]) -> None:
        self.store = store
        self.predictions = predictions

    def lane(self, number: int = 0, alive: Callable[[], bool] = lambda: True) -> LaneStore:
        return self.store.lane(number, alive)


def kafka_store(topics: Topics, limit: int = 1_048_588, belongs: dict[str, Any] = BELONGS) -> Kept:
    state = topics("state", 2, {**STATE, "max.message.bytes": str(limit)})
    out, flow = topics("predictions", 2), topics.group("store")
    found = kafka_client.describe_topics(topics.bootstrap, {}, [state, out])
    info, predictions = found[state], found[out]
    assert info is not None
    assert predictions is not None
    topic = StateTopic(flow, topics.bootstrap, {}, info)
    writes = KafkaOutput(flow, topics.bootstrap, {}, {"predictions": predictions}, info, 60.0)
    store = KafkaStore(topic, writes, belongs, reads="instances", directories={})
    return Kept(store, lambda: [record.value for record in read_committed(topics.bootstrap, out, [0])[0]])


def test_a_restore_that_takes_long_says_how_far_it_is(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sluiceway.topics.kafka_store.RESTORING_SECONDS", 0.0)
    lane = kafka_store(topics).lane()
    with caplog.at_level("INFO", "sluiceway"):
        lane.open(wanted())
    lane.close()
    told = [record.getMessage() for record in caplog.records]
    assert any(re.fullmatch(r"lane 0 is being restored: at \d+ of \d+", each) for each in told), told


def directory_store(place: Path, belongs: dict[str, Any] = BELONGS) -> Kept:
    topic = DirectoryTopic(place / "predictions")
    create_directory_topic(topic, 2)
    store = DirectoryStore("f", place / "state", {"predictions": topic}, belongs)
    store.make()
    return Kept(store, lambda: [*partition_path(topic, 0).read_bytes().splitlines()])


@pytest.fixture(params=["kafka", "directory"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    if request.param == "kafka":
        return kafka_store(request.getfixturevalue("topics"))
    return directory_store(tmp_path)


def everyone(restored: Restored) -> dict[str, StoredStream]:
    return restored.asleep.born(0, restored.asleep.next_birth)


def test_what_is_committed_is_restored(kept: Kept) -> None:
    lane = kept.lane()
    restored = lane.open(wanted())
    assert (restored.run, everyone(restored)) == (RunRecord(1, BOUNDS), {})
    lane.write(output(b"one"))
    lane.commit({"instances": 3}, [change("a", 0, b"A1", {0: b"a0", 1: b"a1"}), change("b", 1, b"B1")], final=False)
    lane.write(output(b"two"))
    lane.commit({"instances": 5}, [change("a", 0, b"A2", {2: b"a2"}, 0)], final=True)
    lane.close()

    contents = kept.store.read(0)
    streams = {"a": StoredStream(0, b"A2", {1: b"a1", 2: b"a2"}), "b": StoredStream(1, b"B1")}
    assert contents.streams == streams
    assert contents.size == len(b"A2a1a2B1")
    glance = kept.store.glance(0)
    for commit in (contents.commit, glance.commit):
        assert commit is not None
        assert (commit.positions, commit.final, commit.run, commit.belongs_to) == ({"instances": 5}, True, 1, BELONGS)
    assert glance.opened == contents.opened
    assert kept.store.glance(1).commit is None

    again = kept.lane()
    found = again.open(wanted())
    assert everyone(found) == streams
    assert found.commit == contents.commit
    assert kept.predictions() == [b"one", b"two"]
    again.close()


def test_what_is_not_committed_is_not_there(kept: Kept) -> None:
    lane = kept.lane()
    lane.open(wanted())
    lane.commit({"instances": 3}, [change("a", 0, b"A1")], final=False)
    lane.write(output(b"lost"))
    lane.close()
    again = kept.lane()
    found = again.open(wanted())
    assert found.commit is not None
    assert found.commit.positions == {"instances": 3}
    again.write(output(b"lost"))  # the same comes again
    again.commit({"instances": 4}, [], final=False)
    again.close()
    assert kept.predictions() == [b"lost"]


def test_a_parked_lane_says_why_until_it_is_opened_again(kept: Kept) -> None:
    lane = kept.lane()
    lane.open(wanted())
    lane.commit({"instances": 3}, [], final=False)
    lane.write(output(b"never"))
    lane.park("it does not fit")
    lane.close()
    glance = kept.store.glance(0)
    assert glance.opened is not None
    assert glance.opened.parked == "it does not fit"
    again = kept.lane()
    again.open(wanted())
    opened = kept.store.glance(0).opened
    assert opened is not None
    assert opened.parked is None
    again.close()


def test_the_run_is_that_of_lane_0(kept: Kept) -> None:
    first = kept.lane(0)
    first.open(wanted())
    second = kept.lane(1)
    assert second.open(wanted()).run == RunRecord(1, BOUNDS)
    for lane in (first, second):
        lane.commit({"instances": 9}, [], final=True)
        lane.close()
    next_first = kept.lane(0)
    assert next_first.open(wanted(2)).run.number == 2
    next_first.close()
    next_second = kept.lane(1)
    assert next_second.open(wanted(1)).run.number == 2  # who comes late goes on with what is under way
    next_second.close()


def test_a_lane_that_waits_for_its_run_can_be_given_up(kept: Kept) -> None:
    until = time.monotonic() + 0.7
    lane = kept.lane(1, lambda: time.monotonic() < until)
    with pytest.raises(FlowError, match=r"lane 1 (has gone to another process|is no longer wanted)"):
        lane.open(wanted())
    lane.close()


def test_models_of_other_settings_are_refused(topics: Topics, tmp_path: Path) -> None:
    other = {**BELONGS, "params": {"k": 4}}
    first = kafka_store(topics)
    assert isinstance(first.store, KafkaStore)
    second = KafkaStore(first.store.topic, first.store.output, other, reads="instances", directories={})
    directories = directory_store(tmp_path), directory_store(tmp_path, other)
    for kept, changed in ((first, Kept(second, list)), directories):
        lane = kept.lane()
        lane.open(wanted())
        lane.commit({"instances": 3}, [], final=False)
        lane.close()
        assert not kept.store.holds_streams(0)
        mended = changed.lane()
        mended.open(wanted())  # nothing was learnt yet
        mended.close()
        lane = kept.lane()
        lane.open(wanted())
        lane.commit({"instances": 4}, [change("a", 0, b"A1")], final=False)
        lane.close()
        assert kept.store.holds_streams(0)
        refused = changed.lane()
        with pytest.raises(FlowError, match=r'was made with params = \{"k":3\}, the flow now has \{"k":4\}'):
            refused.open(wanted())
        refused.close()


# -- Kafka alone -----------------------------------------------------------------------------------------------------


def test_states_over_the_limit_come_in_chunks(topics: Topics) -> None:
    kept = kafka_store(topics, limit=20_000)
    assert isinstance(kept.store, KafkaStore)
    large, piece = bytes(range(256)) * 800, b"piece" * 12_000
    lane = kept.lane()
    lane.open(wanted())
    lane.commit({"instances": 1}, [change("a", 0, large, {5: piece}), change("b", 1, b"B")], final=False)
    assert kept.store.read(0).streams == {"a": StoredStream(0, large, {5: piece}), "b": StoredStream(1, b"B")}
    before = _held(topics, kept.store)
    assert len(before) > 14
    assert max(len(value) for value in before.values()) < 20_000
    lane.close()

    again = kept.lane()  # which must know how many chunks there are
    assert everyone(again.open(wanted()))["a"] == StoredStream(0, large, {5: piece})
    again.commit({"instances": 2}, [change("a", 0, large[:30_000], {}, 5)], final=False)
    assert kept.store.read(0).streams["a"] == StoredStream(0, large[:30_000])
    assert len(_held(topics, kept.store)) == 2 + 1  # tombstones for all that is no longer used
    again.commit({"instances": 3}, [change("a", 0, b"small")], final=False)
    assert len(_held(topics, kept.store)) == 2
    again.close()
    assert kept.store.read(0).streams == {"a": StoredStream(0, b"small"), "b": StoredStream(1, b"B")}


def _held(topics: Topics, store: KafkaStore) -> dict[bytes, bytes]:
    """Chunks that compaction would keep."""
    found: dict[bytes, bytes | None] = {}
    for record in read_committed(topics.bootstrap, store.topic.info.name, [0])[0]:
        found[record.key or b""] = record.value
    return {key: value for key, value in found.items() if value is not None and key[:1] in b"sp"}


def test_a_fenced_lane_commits_nothing(topics: Topics) -> None:
    kept = kafka_store(topics)
    first = kept.lane()
    first.open(wanted())
    first.write(output(b"zombie"))
    second = kept.lane()
    second.open(wanted())
    with pytest.raises(ReopenError, match="another process has opened this lane"):
        first.commit({"instances": 3}, [change("a", 0, b"A")], final=False)
    first.close()
    second.write(output(b"alive"))
    second.commit({"instances": 1}, [], final=False)
    second.close()
    assert kept.predictions() == [b"alive"]
    assert kept.store.read(0).streams == {}


def test_a_glance_finds_what_lies_far_from_the_end(topics: Topics) -> None:
    """Many openings and run records may have come since the last commit."""
    kept = kafka_store(topics)
    lane = kept.lane()
    lane.open(wanted())
    lane.commit({"instances": 3}, [change(f"s{number}", number, b"x") for number in range(50)], final=False)
    lane.close()
    for _ in range(8):
        opened = kept.lane()
        opened.open(wanted())
        opened.close()
    commit = kept.store.glance(0).commit
    assert commit is not None
    assert commit.positions == {"instances": 3}


def test_a_follower_sees_commits_as_they_come(topics: Topics) -> None:
    kept = kafka_store(topics)
    assert isinstance(kept.store, KafkaStore)
    lane = kept.lane()
    lane.open(wanted())
    lane.commit({"instances": 1}, [], final=False)
    follower = Follower(kept.store.topic, [0, 1])
    commit = follower.commits[0]
    assert commit is not None
    assert commit.positions == {"instances": 1}
    assert follower.commits[1] is None
    lane.commit({"instances": 2}, [change("a", 0, b"A")], final=True)
    deadline = time.monotonic() + 30
    while (commit := follower.commits[0]) is None or not commit.final:
        assert time.monotonic() < deadline
        follower.poll()
        time.sleep(0.02)
    assert commit.positions == {"instances": 2}
    follower.close()
    lane.close()


# -- directories alone -----------------------------------------------------------------------------------------------


def test_one_process_has_a_lane(tmp_path: Path) -> None:
    kept = directory_store(tmp_path)
    lane = kept.lane()
    lane.open(wanted())
    second = kept.lane()
    with pytest.raises(FlowError, match=r"is in use by process \d+ on .*: a flow that writes directories is"):
        second.open(wanted())
    second.close()
    lane.close()
    third = kept.lane()
    third.open(wanted())
    third.close()


def test_a_lane_is_opened_while_its_file_is_still_being_let_go(tmp_path: Path) -> None:
    """Of a process that dies, the system frees one file after the other: our lock first, SQLite's a moment later."""
    kept = directory_store(tmp_path)
    lane = kept.lane()
    lane.open(wanted())
    lane.close()
    dying = sqlite3.connect(lane_path(tmp_path / "state", 0), isolation_level=None, check_same_thread=False)
    dying.execute("begin immediate")
    gone = threading.Timer(0.5, dying.close)
    gone.start()
    again = kept.lane()
    again.open(wanted())
    gone.join()
    again.close()


def test_a_store_at_rest_is_read_without_a_trace(tmp_path: Path) -> None:
    kept = directory_store(tmp_path)
    lane = kept.lane()
    lane.open(wanted())
    lane.commit({"instances": 3}, [change("a", 0, b"A")], final=False)
    lane.close()
    before = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert kept.store.read(0).streams == {"a": StoredStream(0, b"A")}
    assert kept.store.glance(1) == Glance(None, None)
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == before


def test_nothing_that_is_stored_is_unpickled() -> None:
    """What lies on a topic or a disk may have been put there by anybody."""
    root = Path(__file__).resolve().parents[2]
    for folder in ("schemas", "flows", "operators", "src/sluiceway"):
        for file in (root / folder).rglob("*.py"):
            assert "import pickle" not in file.read_text(), file
