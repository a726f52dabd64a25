"""From a backtest to a live flow and back: promoted, begun from a state, and told apart where that cannot be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from sluiceway.backtest.run import backtest
from sluiceway.backtest.variant_lane import folder_of, selections_of
from sluiceway.errors import SettingsError
from sluiceway.flows.run import run
from sluiceway.flows.settings import Settings
from sluiceway.topics.append import DirectoryAppender
from sluiceway.topics.directory import partition_path
from sluiceway.topics.url import DirectoryTopic
from tests.backtest.test_replay import KINDS
from tests.backtest.worlds import PARTITIONS, columns, flow, instances, topic_of
from tests.cli.calling import Call


def lines(folder: Path) -> list[list[bytes]]:
    return [partition_path(DirectoryTopic(folder), lane).read_bytes().splitlines() for lane in range(PARTITIONS)]


def world(place: Path, kind: str) -> tuple[Path, Path, Mapping[str, Any]]:
    """A topic with half of its records, the flow, and how to bring the others."""
    source, operator, tables = KINDS[kind]
    half = 500 if source == "instances" else 31
    records = instances(1_000) if source == "instances" else columns(60)
    topic = topic_of(place / source, islice(records, half))
    file = flow(place, operator, source, **{**tables, "emit": {**tables.get("emit", {}), "final": False}})
    if "window" in tables:
        file = flow(place, operator, source, **tables)
    return file, place / source, {"topic": topic, "rest": records}


def bring(topic: DirectoryTopic, rest: Any) -> None:
    appender = DirectoryAppender(topic, PARTITIONS)
    for record in rest:
        appender.append(int(record["stream"][-1] == "1"), [json.dumps(record).encode()])
    appender.close()


def renamed(file: Path, name: str) -> Path:
    new = file.with_name(f"{name}.toml")
    new.write_text(file.read_text().replace('"replayed"', f'"{name}"').replace("dir:live/", f"dir:{name}/"))
    return new


def test_promoted_from_a_window_that_ended_before_the_topic(tmp_path: Path, call: Call) -> None:
    """The flow goes on where the window ended, not where the topic does."""
    file, _, _ = world(tmp_path, "learner")
    new, undisturbed = renamed(file, "promoted"), renamed(file, "undisturbed")
    out = backtest(file, stop="-150", out=tmp_path / "out").folder
    done = call("promote", out, "0", new)
    assert done.code == 0, done.stderr
    told = lines(tmp_path / "promoted" / "selections")
    run(Settings.load(new), checkpoint_seconds=0.2)
    run(Settings.load(undisturbed), checkpoint_seconds=0.2)
    mine, theirs = lines(tmp_path / "promoted" / "selections"), lines(tmp_path / "undisturbed" / "selections")
    backtested = lines(selections_of(folder_of(out, 0)).path)
    for lane in range(PARTITIONS):
        after = [line.replace(b"promoted", b"undisturbed") for line in mine[lane][len(told[lane]) :]]
        assert after == theirs[lane][len(backtested[lane]) :]
        assert after


@pytest.mark.parametrize("kind", KINDS)
def test_a_promoted_flow_goes_on_as_if_it_had_run_all_along(kind: str, tmp_path: Path, call: Call) -> None:
    file, _, later = world(tmp_path, kind)
    new, undisturbed = renamed(file, "promoted"), renamed(file, "undisturbed")
    out = backtest(file, out=tmp_path / "out").folder
    done = call("promote", out, "0", new)
    assert done.code == 0, done.stderr
    told = lines(tmp_path / "promoted" / "selections")
    bring(later["topic"], later["rest"])
    run(Settings.load(new), checkpoint_seconds=0.2)
    run(Settings.load(undisturbed), checkpoint_seconds=0.2)
    mine, theirs = lines(tmp_path / "promoted" / "selections"), lines(tmp_path / "undisturbed" / "selections")
    backtested = lines(selections_of(folder_of(out, 0)).path)
    for lane in range(PARTITIONS):
        first = {json.loads(line)["stream"]: json.loads(line) for line in told[lane]}
        newest = {json.loads(line)["stream"]: json.loads(line) for line in backtested[lane]}
        assert len(first) == len(told[lane])
        assert sorted(first) == sorted(newest)
        for stream, snapshot in first.items():
            assert {**snapshot, "entered": [], "left": []} == {
                **newest[stream], "flow": "promoted", "entered": [], "left": [],
            }  # fmt: skip
            assert snapshot["entered"] == [entry["feature"] for entry in snapshot["selected"]]
            assert snapshot["left"] == []
        after = [line.replace(b'"promoted"', b'"undisturbed"') for line in mine[lane][len(told[lane]) :]]
        assert after == theirs[lane][len(backtested[lane]) :]
    assert sum(map(len, mine)) > sum(map(len, told)) > 0


def test_what_cannot_be_promoted(tmp_path: Path, call: Call) -> None:
    file, _, later = world(tmp_path, "learner")
    new = renamed(file, "promoted")
    out = backtest(file, {"operator.k": [2, 3]}, out=tmp_path / "out").folder

    def refused(*arguments: object) -> str:
        done = call("promote", *arguments)
        assert done.code == 2, done
        return done.sentence

    assert "has no variant 'best'; there are 0 (ofs k=2), 1 (ofs k=3)" in refused(out, "best", new)
    assert "operator.k = 2" in refused(out, "ofs k=2", new)
    late = backtest(file, label_delay=5, out=tmp_path / "late").folder
    assert "labels were withheld" in refused(late, 0, new)
    some = backtest(file, streams=["s1"], out=tmp_path / "some").folder
    assert "replayed only s1" in refused(some, 0, new)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"x": {"a": 1}, "y": 1}\n{"x": {"a": 1}, "y": -1}\n')
    told = backtest(file, input=rows, out=tmp_path / "told").folder
    assert "input =" in refused(told, 0, new)
    assert "holds no results" in refused(tmp_path / "nosuch", 0, new)
    assert call("promote", out, "ofs k=3", new).code == 0
    assert "holds a state already" in refused(out, 1, new)
    bring(later["topic"], later["rest"])
    run(Settings.load(new), checkpoint_seconds=0.2)


def test_a_promotion_that_died_is_done_again(tmp_path: Path, call: Call) -> None:
    """Between its snapshots and its state."""
    file, _, _ = world(tmp_path, "learner")
    new = renamed(file, "promoted")
    out = backtest(file, out=tmp_path / "out").folder
    assert call("promote", out, 0, new).code == 0
    told = lines(tmp_path / "promoted" / "selections")
    assert any(told)
    assert call("reset", new, "--yes").code == 0
    assert call("promote", out, 0, new).code == 0
    assert lines(tmp_path / "promoted" / "selections") == told
    other = renamed(file, "other")
    other.write_text(other.read_text().replace("dir:other/selections", "dir:promoted/selections"))
    assert call("promote", out, 0, other).code != 0


@pytest.mark.parametrize("kind", ["learner", "column selector"])
def test_begun_from_a_flows_state(kind: str, tmp_path: Path) -> None:
    """What it replays is what the flow goes on to do."""
    file, _, later = world(tmp_path, kind)
    run(Settings.load(file), checkpoint_seconds=0.2)
    before = lines(tmp_path / "live" / "selections")
    bring(later["topic"], later["rest"])
    replayed = backtest(file, state=file, out=tmp_path / "out")
    run(Settings.load(file), checkpoint_seconds=0.2, again=True)
    after = lines(tmp_path / "live" / "selections")
    found = lines(selections_of(folder_of(replayed.folder, 0)).path)
    assert found == [lane[len(had) :] for lane, had in zip(after, before, strict=True)]
    assert any(found)
    # the flow has gone on, the kept start has not
    again = backtest(file, state=file, out=tmp_path / "out", resume=True)
    assert lines(selections_of(folder_of(again.folder, 0)).path) == found
    further = backtest(file, state=replayed.folder / "start", out=tmp_path / "further")
    assert lines(selections_of(folder_of(further.folder, 0)).path) == found
    with pytest.raises(SettingsError, match=r"where the models stand to end .* is empty"):
        backtest(file, state=folder_of(replayed.folder, 0), out=tmp_path / "none")


def test_states_that_do_not_fit(tmp_path: Path) -> None:
    file, _, _ = world(tmp_path, "learner")
    with pytest.raises(SettingsError, match="has no state yet"):
        backtest(file, state=file, out=tmp_path / "out")
    run(Settings.load(file), checkpoint_seconds=0.2)
    with pytest.raises(SettingsError, match=r"operator\.k = 3, variant ofs k=4 has 4"):
        backtest(file, {"operator.k": [4]}, state=file, out=tmp_path / "out")
    with pytest.raises(SettingsError, match="--state and --from do not go together"):
        backtest(file, state=file, start="beginning", out=tmp_path / "out")
    with pytest.raises(SettingsError, match="holds no state"):
        backtest(file, state=tmp_path, out=tmp_path / "out")
