"""A whole flow on directory topics, as a user runs it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluiceway.flows import run as running_module
from sluiceway.flows.settings import Settings
from tests.support.flow import Running, sluiceway, toml

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
        done = sluiceway("run", self.file, "--recovery", self.directory / "store", "--checkpoint-every", "0.1", *more)
        assert done.code == 0, done.stderr

    def lines(self, role: str, partition: int = 0) -> list[Any]:
        return [json.loads(line) for line in self.path(role, partition).read_bytes().splitlines()]


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
    flow.run()

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
    with Running("run", flow.file, "--recovery", flow.directory / "store", "--checkpoint-every", "0.1") as running:
        running.until(lambda: sum(len(_lines_of(flow.path("predictions", lane))) for lane in (0, 1)) == 40)
        second = sluiceway("run", flow.file, "--recovery", flow.directory / "store")
        assert second.code == 1
        assert "is in use by process" in second.sentence
        done = running.stop()
    assert done.code == 0
    assert "f: stopped at a checkpoint" in done.stderr
    for partition in (0, 1):
        made = flow.lines("selections", partition)
        assert {one["stream"] for one in made} == {f"s{partition}"}
        assert {one["reason"] for one in made} == {"interval"}  # a pause is no end


def _lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def test_new_stores_beside_old_output_and_adoption(flow: Flow) -> None:
    flow.feed(INSTANCES)
    flow.run()
    before = flow.path("predictions").read_bytes()
    other = ("--recovery", flow.directory / "other")
    refused = sluiceway("run", flow.file, *other)
    assert refused.code == 1
    assert "already holds output, but the recovery store" in refused.sentence
    done = sluiceway("run", flow.file, *other, "--adopt")
    assert done.code == 0, done.stderr
    assert flow.path("predictions").read_bytes() == before
    flow.path("predictions").write_bytes(before.replace(b'"seq":3', b'"seq":4'))
    changed = sluiceway("run", flow.file, "--recovery", flow.directory / "third", "--adopt")
    assert changed.code == 1
    assert "differs from what stands after byte 0" in changed.sentence
    assert "Traceback" not in changed.stderr
    assert "panicked" not in changed.stderr


def test_outputs_come_and_go_and_move(flow: Flow) -> None:
    """Each output directory holds what the flow made while it was one."""
    flow.feed(INSTANCES[:10])
    flow.run()
    flow.write(topics={"predictions": None, "selections": "dir:data/elsewhere"})
    flow.feed(INSTANCES[10:20])
    flow.run()
    flow.write()
    flow.feed(INSTANCES[20:30])
    flow.run()
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
    never = ("run", flow.file, "--recovery", flow.directory / "store", "--checkpoint-every", "300")
    for _ in range(2):
        with Running(*never) as running:
            running.until(lambda: len(flow.lines("predictions")) == 11)
            running.kill()
    flow.write()
    flow.run()
    made = [line["id"] for line in flow.lines("predictions")]
    assert made == ["earlier", *(record["id"] for record in INSTANCES[10:20])]


def test_outputs_do_not_change_after_a_crash(flow: Flow) -> None:
    """What is out since the last checkpoint is known by where it is: elsewhere it would come again."""
    flow.write(input={"stop": None})
    flow.feed(INSTANCES)
    with Running("run", flow.file, "--recovery", flow.directory / "store", "--checkpoint-every", "300") as running:
        running.until(lambda: len(_lines_of(flow.path("predictions"))) == 40)
        running.kill()
    for change in ({"predictions": "dir:data/other"}, {"predictions": None}):
        flow.write(topics=change)
        refused = sluiceway("run", flow.file, "--recovery", flow.directory / "store")
        assert refused.code == 2
        assert f"no longer to dir:{flow.path('predictions').parent}" in refused.sentence
        assert "run it once more with those it had" in refused.sentence
    flow.write(topics={"predictions": "dir:./data/../data/predictions"})
    assert "no longer to" in sluiceway("run", flow.file, "--recovery", flow.directory / "store").sentence
    flow.write(topics={"predictions": "dir:./data/./predictions"})  # the same
    flow.run()
    assert [line["seq"] for line in flow.lines("predictions") if line["stream"] == "s0"] == list(range(20))
    flow.write(topics={"predictions": None})
    flow.run()


def test_a_start_that_comes_to_nothing_leaves_nothing(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted while it compiles: the next start decides anew where to begin."""
    flow.feed(INSTANCES)

    def interrupted(settings: object, on_compile: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running_module, "_warm_up", interrupted)
    with pytest.raises(KeyboardInterrupt):
        running_module.run(Settings.load(flow.file), recovery=flow.directory / "store")
    assert not list((flow.directory / "store").glob("*.json"))
    assert not list((flow.directory / "store").glob("*.sqlite3"))


def test_bytewax_runs_it_too(flow: Flow) -> None:
    flow.feed(INSTANCES)
    command = [sys.executable, "-m", "bytewax.run", "sluiceway.flows.graph:build('flow.toml')"]
    environment = {**os.environ, "PYTHONPATH": ""}
    subprocess.run(command, cwd=flow.directory, env=environment, check=True, timeout=60, capture_output=True)
    assert len(flow.lines("predictions")) == 40
    assert [one["reason"] for one in flow.lines("selections")][-1] == "interval"
