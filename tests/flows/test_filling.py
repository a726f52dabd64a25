"""A whole state put into a store: chunks, pieces, and only where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import FlowError, ReopenError, SettingsError
from sluiceway.flows.filling import fence, fill
from sluiceway.flows.reach import kafka_store, load, reach
from sluiceway.schemas.state import StoredStream
from sluiceway.topics.backup_files import begin, finish, read_lane, read_manifest, write_lane
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.kafka_store import KafkaLane, KafkaStore
from sluiceway.topics.state_records import CommitRecord, Contents, RunRecord
from tests.cli.flows import LANES, BrokerFlow, DirectoryFlow, instances
from tests.support import Topics

RUN = RunRecord(3, Bounds((0, 5), (None, None)))


def lane_of(belongs_to: object, number: int, size: int = 3_000_000) -> Contents:
    """States over a message's limit, small ones, and pieces of both kinds."""
    assert isinstance(belongs_to, dict)
    streams = {
        "large": StoredStream(1, bytes(range(256)) * (size // 256), {0: b"", 7: b"x" * size}),
        "früh": StoredStream(0, b"h", {4: b"a piece"}),
    }
    return Contents(None, RUN, CommitRecord.of(RUN, {"instances": 40 + number}, belongs_to, {}, final=False), streams)


@pytest.mark.parametrize("kind", ["directories", "kafka"])
def test_what_is_filled_in_is_there(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    flow: DirectoryFlow | BrokerFlow
    if kind == "directories":
        flow = DirectoryFlow(tmp_path)
    else:
        topics: Topics = request.getfixturevalue("topics")
        flow = BrokerFlow(topics, tmp_path)
    reached = reach(load(flow.file))
    lanes = [lane_of(reached.belongs_to, number) for number in range(LANES)]
    fill(reached, lanes, lambda: None)
    after = reach(load(flow.file))
    assert after.store is not None
    for number, wanted in enumerate(lanes):
        found = after.store.read(number)
        assert (found.commit, found.streams) == (wanted.commit, wanted.streams)
    assert after.store.read(0).run == RUN
    with pytest.raises(SettingsError, match="holds a state already"):
        fill(after, lanes, lambda: None)


def test_whoever_opens_a_lane_meanwhile_wins(topics: Topics, tmp_path: Path) -> None:
    flow = BrokerFlow(topics, tmp_path)
    reached = reach(load(flow.file))
    assert isinstance(reached.store, KafkaStore)
    late = KafkaLane(0, reached.store, lambda: True)
    late.fill(lane_of(reached.belongs_to, 0, 1000))
    opener = KafkaLane(0, kafka_store(reached.settings, reached.store.topic.info, reached.belongs_to), lambda: True)
    opener.fence()
    with pytest.raises(ReopenError, match="another process has opened"):
        late.seal()
    late.close()
    opener.close()
    assert reached.store.read(0) == replace(Contents(), opened=reached.store.glance(0).opened)


@pytest.fixture
def half_filled(topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerFlow:
    """Lane 0 is written; of lane 1 the broker has all records, but not that they count."""
    flow = BrokerFlow(topics, tmp_path)
    flow.feed(0, 100)
    reached = reach(load(flow.file))
    sealed: list[int] = []

    def seal(lane: KafkaLane) -> None:
        if sealed:
            # else what the broker has of it is a matter of luck: closing the lane takes back what is not sent yet
            assert lane._writer._producer.flush(30) == 0
            raise FlowError("the world has ended")
        sealed.append(1)
        lane._writer.commit()

    with monkeypatch.context() as patch:
        patch.setattr(KafkaLane, "seal", seal)
        with pytest.raises(FlowError, match=r"lanes 0 to 0 of .* are written, the others are not"):
            fill(reached, [lane_of(reached.belongs_to, number, 1000) for number in range(LANES)], lambda: None)
    return flow


def test_a_half_filled_flow_is_refused(half_filled: BrokerFlow) -> None:
    reached = reach(load(half_filled.file))
    assert isinstance(reached.store, KafkaStore)
    fence(reached.store, LANES)  # as time does: the open transaction is aborted
    done = half_filled.run()
    assert done.code == 1
    assert "holds no commit of partition 1" in done.sentence


def test_while_a_lane_may_still_be_filled_only_that_one_is_parked(half_filled: BrokerFlow) -> None:
    """A flow that starts cannot know whether the open transaction will be committed; whoever opens the lane can."""
    last = sum(lane == 0 for _, _, lane in instances(0, 100))

    def has_gone_on() -> bool:
        commit = reach(load(half_filled.file)).commits()[0]
        return commit is not None and commit.positions["instances"] == last

    with half_filled.start() as running:
        running.until(lambda: "lane 1 is parked: " in running.stderr)
        running.until(has_gone_on)
        assert running.alive
        done = running.stop()
    assert done.code == 1
    assert "holds no commit of partition 1" in done.sentence


def test_files_hold_what_was_written(tmp_path: Path) -> None:
    contents = lane_of({"flow": "f"}, 0)
    begin(tmp_path / "b")
    entry = write_lane(tmp_path / "b", 0, contents)
    finish(tmp_path / "b", flow="f", belongs_to={"flow": "f"}, state="dir:x", lanes=[entry])
    manifest = read_manifest(tmp_path / "b")
    assert manifest.lanes == [entry]
    assert read_lane(tmp_path / "b", entry) == contents
