"""A whole flow on directory topics, as a user runs it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from sluiceway.flows import run as running_module
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.topics.store import choices
from tests.support.flow import RUN_SECONDS, Running, sluiceway, toml

INSTANCES = [{"stream": f"s{n % 2}", "id": f"e{n}", "x": {f"f{n % 5}": 1 + n % 3}, "y": (-1) ** n} for n in range(40)]


class Flow:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "flow.toml"
        self.write()

    def write(self, **sections: dict[str, Any]) -> None:
        content: dict[str, dict[str, Any]] = {
            "flow": {"name": "f"},
            "topics": {role: f"dir:data/{role}" for role in ("instances", "selections", "predictions", "dead_letters")},
            "input": {"stop": "end"},
            "operator": {"name": "ofs", "k": 2},
            "emit": {"every": 5},
        }
        self.file.write_text(toml({name: {**table, **sections.get(name, {})} for name, table in content.items()}))

    def path(self, role: str, partition: int = 0) -> Path:
        return self.directory / "data" / role / f"part-{partition:05d}.jsonl"

    def feed(self, records: list[Any], partitions: int = 1) -> None:
        where = self.directory / "data" / "instances"
        where.mkdir(parents=True, exist_ok=True)
        (where / "_topic.json").write_text(json.dumps({"partitions": partitions}))
        for partition in range(partitions):
            with self.path("instances", partition).open("a") as out:
                for record in records[partition::partitions]:
                    out.write(record if isinstance(record, str) else json.dumps(record) + "\n")

    def run(self, *more: str) -> None:
        done = sluiceway(*self.arguments(*more))
        assert done.code == 0, done.stderr
        assert "the input has ended; " in done.stderr, done.stderr

    def arguments(self, *more: str, every: str = "0.1") -> tuple[str | Path, ...]:
        return ("run", self.file, "--checkpoint-every", every, *more)

    @property
    def store(self) -> Path:
        return self.directory / "data" / "selections.state"

    def lines(self, role: str, partition: int = 0) -> list[Any]:
        return [json.loads(line) for line in self.path(role, partition).read_bytes().split(b"\n")[:-1]]


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def test_a_flow_to_the_end_and_on(flow: Flow, tmp_path: Path) -> None:
    flow.feed([*INSTANCES[:25], "not json\n"])
    flow.run()
    [letter] = flow.lines("dead_letters")
    assert letter["error"]["class"] == "not-json"
    assert base64.b64decode(letter["value_base64"]) == b"not json"
    assert [one["seq"] for one in flow.lines("predictions") if one["stream"] == "s0"] == list(range(13))
    finals = [one for one in flow.lines("selections") if one["reason"] == "final"]
    assert [(one["stream"], one["version"]) for one in finals] == [("s0", 13), ("s1", 12)]
    assert {one["source"]["instances"]["offset"] for one in finals} == {flow.path("instances").stat().st_size}

    flow.feed(INSTANCES[25:])
    over = sluiceway(*flow.arguments())
    assert over.code == 0
    assert "`sluiceway run " in over.stderr
    assert " --again` reads on to where the input ends now, `sluiceway reset " in over.stderr
    assert len(flow.lines("predictions")) == 25
    flow.run("--again")

    # the same in one go gives the same, but for the final snapshots in the middle
    (tmp_path / "whole").mkdir()
    whole = Flow(tmp_path / "whole")
    whole.feed([*INSTANCES[:25], "not json\n", *INSTANCES[25:]])
    whole.run()
    for role in ("predictions", "dead_letters"):
        assert flow.path(role).read_bytes() == whole.path(role).read_bytes()
    assert _without_finals(flow) == _without_finals(whole)


def _without_finals(flow: Flow) -> list[Any]:
    """Whether there was a snapshot in between decides what has entered since."""
    kept = [one for one in flow.lines("selections") if one["reason"] != "final"]
    return [{name: value for name, value in one.items() if name not in ("entered", "left")} for one in kept]


def test_lanes_are_apart_and_a_stop_is_a_pause(flow: Flow) -> None:
    flow.write(input={"stop": None})
    flow.feed(INSTANCES, partitions=2)
    with Running(*flow.arguments()) as running:
        running.until(lambda: sum(len(_lines_of(flow.path("predictions", lane))) for lane in (0, 1)) == 40)
        second = sluiceway(*flow.arguments())
        assert second.code == 1
        assert re.search(r"is in use by process \d+ on .*: a flow that writes directories is", second.sentence)
        done = running.stop()
    assert done.code == 0
    assert "f: stopped, everything committed" in done.stderr
    for partition in (0, 1):
        made = flow.lines("selections", partition)
        assert {one["stream"] for one in made} == {f"s{partition}"}
        assert {one["reason"] for one in made} == {"interval"}  # a pause is no end


def _lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def test_a_lost_store_beside_its_output(flow: Flow) -> None:
    flow.feed(INSTANCES)
    flow.run()
    before = flow.path("predictions").read_bytes()
    shutil.rmtree(flow.store)
    refused = sluiceway(*flow.arguments())
    assert refused.code == 1
    assert "already holds output, but the flow's store is new: write to another directory" in refused.sentence
    assert "Traceback" not in refused.stderr
    assert flow.path("predictions").read_bytes() == before


def test_a_bounded_run_goes_on_only_when_told(flow: Flow) -> None:
    """A changed `stop` is another run; `--again` is one too; neither gives anything twice."""
    flow.feed(INSTANCES)
    ends = [0, *accumulate(len(line) for line in flow.path("instances").read_bytes().splitlines(keepends=True))]
    flow.write(input={"stop": str(ends[11])})
    flow.run()
    assert len(flow.lines("predictions")) == 11
    flow.write(input={"stop": str(ends[24])})
    flow.run()
    assert len(flow.lines("predictions")) == 24
    flow.write()
    flow.run()
    whole = flow.path("selections").read_bytes()
    flow.run("--again")
    assert flow.path("selections").read_bytes() == whole
    assert [line["id"] for line in flow.lines("predictions")] == [record["id"] for record in INSTANCES]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"operator": {"k": 3}}, 'was made with params = {"k":2,'),
        ({"input": {"scale": "none"}}, 'was made with scale = "l2", the flow now has "none"'),
        ({"flow": {"name": "g"}}, 'holds the models of flow "f", not of "g": `sluiceway fork` takes them to a flow'),
    ],
)
def test_settings_that_make_another_model(flow: Flow, change: dict[str, dict[str, Any]], sentence: str) -> None:
    flow.feed(INSTANCES)
    flow.run()
    held = {path: path.read_bytes() for path in flow.directory.rglob("*.jsonl")}
    flow.write(**change)
    refused = sluiceway(*flow.arguments("--again"))
    assert refused.code == 2
    assert f"the store {flow.store} {sentence}" in refused.sentence
    if "flow" not in change:
        assert refused.sentence.endswith(choices("f"))
    assert {path: path.read_bytes() for path in flow.directory.rglob("*.jsonl")} == held


def test_a_harmed_store(flow: Flow) -> None:
    flow.feed(INSTANCES)
    flow.run()
    [file] = flow.store.glob("lane-*.sqlite3")
    whole = file.read_bytes()
    file.write_bytes(b"no database" * 1000)
    damaged = sluiceway(*flow.arguments("--again"))
    assert damaged.code == 1
    assert f"{file} cannot be read: file is not a database; {choices('f')}" in damaged.sentence
    file.write_bytes(whole)
    with closing(sqlite3.connect(file)) as database:
        database.execute("pragma user_version = 7")
    other = sluiceway(*flow.arguments("--again"))
    assert other.code == 1
    assert f"{file} has version 7, this program knows 1; use the program that wrote it, or " in other.sentence
    assert "Traceback" not in damaged.stderr + other.stderr
    file.write_bytes(whole)
    flow.run("--again")


def test_partitions_that_were_added(flow: Flow) -> None:
    flow.feed(INSTANCES)
    flow.run()
    (flow.directory / "data" / "instances" / "_topic.json").write_text('{"partitions": 2}')
    flow.path("instances", 1).touch()
    for role in ("selections", "predictions", "dead_letters"):
        (flow.directory / "data" / role / "_topic.json").write_text('{"partitions": 2}')
        flow.path(role, 1).touch()
    refused = sluiceway(*flow.arguments("--again"))
    assert refused.code == 2
    assert f"the store {flow.store} has 1 lane, but the input has 2 partitions: keys have moved" in refused.sentence


def test_outputs_come_and_go_and_move(flow: Flow) -> None:
    """Each output directory holds what the flow made while it was one."""
    flow.feed(INSTANCES[:10])
    flow.run()
    kept = {"state": "dir:data/selections.state"}  # it would move with the selections
    flow.write(topics={"predictions": None, "selections": "dir:data/elsewhere", **kept})
    flow.feed(INSTANCES[10:20])
    flow.run("--again")
    flow.write()
    flow.feed(INSTANCES[20:30])
    flow.run("--again")
    at_home = [(line["stream"], line["version"]) for line in flow.lines("selections")]
    elsewhere = [(line["stream"], line["version"]) for line in flow.lines("elsewhere")]
    assert at_home == [("s0", 5), ("s1", 5), ("s0", 15), ("s1", 15)]
    assert elsewhere == [("s0", 10), ("s1", 10)]
    made = [line["id"] for line in flow.lines("predictions")]
    assert made == [record["id"] for record in INSTANCES[:10] + INSTANCES[20:30]]


def test_a_new_output_survives_a_crash_before_its_first_checkpoint(flow: Flow) -> None:
    """What stands there from before is kept, what was written since comes again and is not doubled."""
    flow.write(topics={"predictions": "dir:data/other"})
    flow.feed(INSTANCES[:10])
    flow.run()
    flow.path("predictions").parent.mkdir()
    (flow.path("predictions").parent / "_topic.json").write_text('{"partitions": 1}')
    flow.path("predictions").write_text('{"id":"earlier"}\n')
    flow.write(input={"stop": None})
    flow.feed(INSTANCES[10:20])
    for _ in range(2):
        with Running(*flow.arguments(every="300")) as running:
            running.until(lambda: len(flow.lines("predictions")) == 11)
            running.kill()
    flow.write()
    flow.run()
    made = [line["id"] for line in flow.lines("predictions")]
    assert made == ["earlier", *(record["id"] for record in INSTANCES[10:20])]


def test_a_start_that_comes_to_nothing_leaves_nothing(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted while it compiles: the next start decides anew where to begin."""
    flow.feed(INSTANCES)

    def interrupted(settings: object, on_compile: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SELECTING, "prepare", interrupted)
    with pytest.raises(KeyboardInterrupt):
        running_module.run(Settings.load(flow.file))
    assert not flow.store.exists()


ENGINE = (sys.executable, "-m", "bytewax.run", "sluiceway.flows.graph:build('flow.toml')")


def by_the_engine(flow: Flow, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*ENGINE, *more], cwd=flow.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_bytewax_runs_it_too_and_exactly_once(flow: Flow, tmp_path: Path) -> None:
    """Killed in the middle and run again, by the engine's own command."""
    (tmp_path / "whole").mkdir()
    whole = Flow(tmp_path / "whole")
    for one in (flow, whole):
        one.feed(INSTANCES[:25])
    flow.write(input={"stop": None})
    with by_the_engine(flow) as killed:
        deadline = time.monotonic() + RUN_SECONDS
        while len(_lines_of(flow.path("predictions"))) < 25:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        killed.kill()
    flow.write()
    for one in (flow, whole):
        one.feed(INSTANCES[25:])
        with by_the_engine(one) as process:
            said, _ = process.communicate(timeout=RUN_SECONDS)
        assert process.returncode == 0, said
    for role in ("selections", "predictions", "dead_letters"):
        assert flow.path(role).read_bytes() == whole.path(role).read_bytes()
    assert len(flow.lines("predictions")) == 40
    assert [one["reason"] for one in flow.lines("selections")][-1] == "interval"


def test_bytewax_s_own_recovery_is_refused(flow: Flow) -> None:
    flow.feed(INSTANCES)
    with by_the_engine(flow, "-r", str(flow.directory), "-s", "1", "-b", "0") as process:
        said, _ = process.communicate(timeout=RUN_SECONDS)
    assert process.returncode != 0
    assert b"a flow keeps its state where its output goes: leave out -r and BYTEWAX_RECOVERY_DIRECTORY" in said
    assert not flow.store.exists()
