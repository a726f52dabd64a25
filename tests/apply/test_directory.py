"""Applying on directory topics."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sluiceway.schemas.records import Applied, LaterLabelLine
from tests.apply.expected import expected, instances, lines
from tests.cli.calling import Terminal
from tests.support.flow import Running, sluiceway, toml


class Flow:
    """A selecting flow and its apply flow in a folder."""

    def __init__(self, folder: Path, **input_: Any) -> None:
        self.folder = folder
        self.file = folder / "flow.toml"
        self.instances = folder / "instances" / "part-00000.jsonl"
        topics = {name: f"dir:{name}" for name in ("instances", "selections", "dead_letters", "applied")}
        self.sections: dict[str, dict[str, Any]] = {
            "flow": {"name": "spam"},
            "topics": topics,
            "input": {"stop": "end", **input_},
            "operator": {"name": "ofs", "k": 3},
            "emit": {"every": 7},
        }
        self.file.write_text(toml(self.sections))
        self.instances.parent.mkdir()
        (self.instances.parent / "_topic.json").write_text('{"partitions": 1}')
        self.instances.touch()

    def append(self, count: int, first: int = 0) -> None:
        with self.instances.open("ab") as file:
            file.writelines(lines(instances(count, first=first)))

    def select(self) -> None:
        done = sluiceway("run", self.file, "--again", "--checkpoint-every", "0.1")
        assert done.code == 0, done.stderr

    def arguments(self) -> tuple[str | Path, ...]:
        return ("apply", self.file, "--again", "--checkpoint-every", "0.1")

    def apply(self) -> None:
        done = sluiceway(*self.arguments())
        assert done.code == 0, done.stderr

    def read(self, topic: str) -> list[dict[str, Any]]:
        path = self.folder / topic / "part-00000.jsonl"
        # complete lines only: a flow may be in the middle of one
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []

    def expected(self) -> list[dict[str, Any]]:
        records, offset = [], 0
        for line in self.instances.read_bytes().splitlines(keepends=True):
            content = json.loads(line)
            records.append((offset, content["stream"], content))
            offset += len(line)
        return expected("spam", 0, records, self.read("selections"))


def test_every_instance_with_what_was_selected_before_it(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.append(300)
    flow.select()
    flow.apply()
    applied = flow.read("applied")
    assert applied == flow.expected()
    for record in applied:
        (Applied if "x" in record else LaterLabelLine).model_validate(record)
    versions = [record["selection"]["version"] for record in applied if "selection" in record]
    assert versions.count(None) > 0
    assert len(set(versions)) > 10


def test_it_waits_for_the_selecting_flow_and_goes_on_after_it(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.append(100)
    flow.select()
    flow.append(100, first=100)
    with Running(*flow.arguments()) as applying:
        applying.until(lambda: len(flow.read("applied")) >= 90)
        # nothing of the second hundred before the flow has passed it
        assert len(flow.read("applied")) < 100
        assert applying.alive
        flow.select()
        assert applying.wait().code == 0
    assert flow.read("applied") == flow.expected()


def test_a_restart_and_other_polls_change_nothing(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.append(150)
    flow.select()
    with Running(*flow.arguments()) as applying:
        applying.until(lambda: len(flow.read("applied")) > 0)
        applying.kill()
    flow.append(150, first=150)
    flow.select()
    flow.apply()
    flow.apply()  # the first goes on to the bounds of the killed run
    in_pieces = flow.read("applied")
    assert in_pieces == flow.expected()
    for name in ("applied", "applied.state"):
        shutil.rmtree(tmp_path / name)
    flow.apply()
    assert flow.read("applied") == in_pieces


def test_applied_instances_are_instances(tmp_path: Path) -> None:
    """Another flow can learn from them, later labels included."""
    flow = Flow(tmp_path)
    flow.append(200)
    flow.select()
    flow.apply()
    second = {**flow.sections, "flow": {"name": "second"}, "topics": dict(flow.sections["topics"])}
    second["topics"] |= {"instances": "dir:applied", "selections": "dir:selections-2", "dead_letters": "dir:dead-2"}
    del second["topics"]["applied"]
    (tmp_path / "second.toml").write_text(toml(second))
    done = sluiceway("run", tmp_path / "second.toml")
    assert done.code == 0, done.stderr
    assert flow.read("selections-2")
    assert flow.read("dead-2") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"operator": {"name": "saola-stream", "refresh": 10, "significance": 0.5}},
        {"operator": {"name": "saola", "significance": 0.5}, "window": {"size": 20}, "emit": {}},
    ],
    ids=["instance selector", "windows"],
)
def test_selectors_that_read_instances(tmp_path: Path, changes: dict[str, Any]) -> None:
    flow = Flow(tmp_path)
    flow.sections |= changes
    flow.file.write_text(toml(flow.sections))
    flow.append(300)
    flow.select()
    flow.apply()
    assert flow.read("applied") == flow.expected()
    assert any(record["x"] for record in flow.read("applied") if "x" in record)


def test_columns_have_no_instances(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    topics = {name: url for name, url in flow.sections["topics"].items() if name != "instances"}
    columns = {**flow.sections, "topics": {**topics, "features": "dir:features"}, "operator": {"name": "saola"}}
    flow.file.write_text(toml(columns))
    done = sluiceway("apply", flow.file)
    assert done.code == 2
    assert "there are no instances to apply it to" in done.sentence


def test_arrays_are_named(tmp_path: Path) -> None:
    flow = Flow(tmp_path, feature_names=["a", "b", "c"])
    with flow.instances.open("ab") as file:
        for number in range(20):
            x = [1.0 if number % 2 else -1.0, 0.5 if number % 2 else -0.5, 0]
            file.write(json.dumps({"stream": "s", "x": x, "y": number % 2}).encode() + b"\n")
    flow.select()
    flow.apply()
    applied = flow.read("applied")
    assert applied[0]["x"] == {}
    assert applied[-1]["x"] == {"a": 1.0, "b": 0.5}


def test_members_are_kept_as_they_came(tmp_path: Path) -> None:
    """Integers of any length, later labels also where no instance waits; only `stream` and `selection` are replaced."""
    flow = Flow(tmp_path)
    label = {"stream": "s", "id": "nobody", "y": 1}
    long = {"stream": "s", "x": {"a": 0.1}, "order": 123456789012345678901234567890, "selection": "mine", "é": "ü"}
    deep = '{"stream": "s", "x": {"a": 1}, "m": ' + "[" * 1000 + "]" * 1000 + "}"
    flow.instances.write_text("".join(json.dumps(record) + "\n" for record in (label, long)) + deep + "\n")
    flow.select()
    flow.apply()
    selection = {"flow": "spam", "version": None, "partition": 0, "offset": len(json.dumps(label)) + 1}
    lines = (tmp_path / "applied" / "part-00000.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines[:2]] == [label, {**long, "x": {}, "selection": selection}]
    assert "[" * 1000 + "]" * 1000 in lines[2]
    assert len(lines) == 3
    assert [letter["error"]["class"] for letter in flow.read("dead_letters")] == ["orphan-label"]


def test_it_says_what_it_waits_for_and_how_much_it_did(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.append(20)
    flow.select()
    passed = flow.instances.stat().st_size
    flow.append(20, first=20)
    waits = f"waiting for spam to pass offset {passed}"
    with Running(*flow.arguments()) as applying:
        applying.until(lambda: f"{waits} of partition 0" in applying.stderr)
        flow.select()
        done = applying.wait()
    start, *_, end = [line.split(" INFO    ")[-1] for line in done.stderr.splitlines()]
    source = f"dir:{tmp_path}/instances (1 partition, to the end)"
    assert start.startswith(f"spam-apply: what spam selects, as far as it has come, on {source}; a commit every 0.1 s")
    assert end.startswith("spam-apply: the input has ended; 40 records in ")
    flow.append(20, first=40)
    with Terminal(*flow.arguments(), cwd=tmp_path) as terminal:
        terminal.until("lane 0: waiting for spam to pass offset ")


def test_advice_names_the_verb(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.append(20)
    flow.select()
    flow.apply()
    over = sluiceway("apply", flow.file)
    assert over.code == 0
    assert f"`sluiceway apply {flow.file} --again` reads on" in over.stderr
    applied = flow.read("applied")
    shutil.rmtree(tmp_path / "applied.state")
    refused = sluiceway(*flow.arguments())
    assert refused.code == 1
    assert "already holds output, but the flow's store is new" in refused.sentence
    assert flow.read("applied") == applied


def test_the_selecting_flow_s_store_must_be_there_and_sound(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.append(20)
    flow.select()
    store = tmp_path / "selections.state"
    for path in store.glob("lane-*.sqlite3"):
        path.write_bytes(b"no database" * 1000)
    damaged = sluiceway(*flow.arguments())
    assert damaged.code == 1
    assert f"{store}/lane-00000.sqlite3 cannot be read: file is not a database" in damaged.sentence
    assert "Traceback" not in damaged.stderr
    shutil.rmtree(store)
    missing = sluiceway(*flow.arguments())
    assert missing.code == 2
    assert f"the flow's store {store} does not exist; run the flow first" in missing.sentence
    assert flow.read("applied") == []


def test_a_name_that_is_too_long_for_two(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.file.write_text(toml({**flow.sections, "flow": {"name": "n" * 198}}))
    refused = sluiceway("apply", flow.file)
    assert refused.code == 2
    assert "flow.name has 198 characters: to be applied it may have 194" in refused.sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"applied": None}, "the setting topics.applied is missing"),
        ({"applied": "dir:selections"}, "topics.applied and topics.selections are the same topic"),
        ({"applied": "dir:instances"}, "the input topic is also an output topic"),
        ({"applied": "dir:dead_letters"}, "topics.applied and topics.dead_letters are the same topic"),
        ({}, "does not exist; run the flow first"),
        ({"selections": "kafka://127.0.0.1:9/s"}, "must both lie on Kafka or both in directories"),
    ],
)
def test_mistakes_are_sentences(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    flow = Flow(tmp_path)
    flow.file.write_text(toml({**flow.sections, "topics": {**flow.sections["topics"], **change}}))
    done = sluiceway("apply", flow.file)
    assert done.code == 2, done.stderr
    assert sentence in done.sentence
    assert "Traceback" not in done.stderr
