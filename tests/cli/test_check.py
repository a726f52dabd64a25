"""`sluiceway check` answers for what `run` would do: each case is met by both, and both say the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import Call
from tests.flows.test_run import INSTANCES, Flow
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow, Running, sluiceway, toml


def both(call: Call, flow: Flow, *more: str) -> tuple[int, str]:
    """What `check` ends with, which must be what `run` ends with."""
    checked, done = call("check", flow.file, *more), sluiceway("run", flow.file, *more)
    assert (checked.code, checked.sentence) == (done.code, done.sentence)
    return checked.code, checked.sentence


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    flow = Flow(tmp_path)
    flow.feed(INSTANCES)
    return flow


def test_a_store_that_was_lost(flow: Flow, call: Call) -> None:
    flow.run()
    shutil.rmtree(flow.store)
    code, sentence = both(call, flow)
    assert code == 1
    assert "already holds output, but the flow's store is new" in sentence


@pytest.mark.parametrize("lost", ["contents", "directory"])
def test_an_output_that_was_cut(flow: Flow, call: Call, lost: str) -> None:
    flow.run()
    flow.feed(INSTANCES)
    file = flow.path("predictions")
    if lost == "contents":
        file.write_bytes(b"")
    else:
        shutil.rmtree(file.parent)
    code, sentence = both(call, flow, "--again")
    assert code == 1
    assert f"{file} has 0 bytes, but the last commit says that " in sentence


def test_a_torn_line_is_left_to_the_flow(flow: Flow, call: Call) -> None:
    flow.run()
    with flow.path("predictions").open("ab") as file:
        file.write(b"half a li")
    before = flow.path("predictions").read_bytes()
    assert call("check", flow.file, "--again").code == 0
    assert flow.path("predictions").read_bytes() == before


def test_a_store_in_use(flow: Flow, call: Call) -> None:
    flow.write(input={"stop": None})
    with Running(*flow.arguments()) as running:
        running.until(lambda: bool(flow.path("predictions").exists() and flow.lines("predictions")))
        code, sentence = both(call, flow)
        assert code == 1
        assert f"is in use by process {running.pid} on " in sentence
        assert running.alive
        assert running.stop().code == 0


@pytest.mark.parametrize(("place", "what"), [("file/out", "cannot lie below "), ("file", "is a file: ")])
def test_an_output_where_a_file_is(flow: Flow, call: Call, place: str, what: str) -> None:
    (flow.directory / "file").touch()
    flow.write(topics={"predictions": f"dir:{place}"})
    code, sentence = both(call, flow)
    assert code == 2
    assert what in sentence


def test_settings_changed_and_the_next_run(flow: Flow, call: Call) -> None:
    flow.run()
    flow.feed(INSTANCES)
    assert both(call, flow, "--set", "operator.k=0")[0] == 2
    assert "--again" in call("check", flow.file).stdout
    again = json.loads(call("check", flow.file, "--again", "--json").stdout)
    assert (again["ready"], again["ended"]) == (True, False)
    assert json.loads(call("check", flow.file, "--json").stdout)["ended"]
    refused = call("check", flow.file, "--set", "operator.k=3", "--apply")
    assert refused.code == 2
    assert refused.sentence == "--set goes with `sluiceway run` alone: leave out --apply and --join"


@pytest.mark.parametrize("tables", [{"emit": {"evry": 1}}, {"flow": {"memory": "1KB"}}, {"operator": {"k": 0}}])
def test_a_mistake_in_the_settings_is_json_too(flow: Flow, call: Call, tables: dict[str, dict[str, Any]]) -> None:
    flow.write(**tables)
    done = call("check", flow.file, "--json")
    said = json.loads(done.stdout)
    assert done.code == 2
    assert not said["ready"]
    assert said["problems"] == [done.sentence]


# -- on a broker ------------------------------------------------------------------------------------------------------


def found(call: Call, flow: KafkaFlow, *more: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(call("check", flow.file, "--json", *more).stdout)
    return content


def test_topics_that_are_missing(topics: Topics, tmp_path: Path, call: Call) -> None:
    flow = KafkaFlow(topics, tmp_path, partitions=2)
    gone = [flow.topic["predictions"], flow.state]
    for name in gone:
        topics.remove(name)
    said = found(call, flow)
    assert (said["ready"], said["lanes"], said["would_create"]) == (False, None, True)
    assert sorted(said["missing"]) == sorted(gone)
    assert all(name in said["problems"][0] for name in gone)
    assert "`--create-topics` would make them" in " ".join(call("check", flow.file).stdout.split())
    created = found(call, flow, "--create-topics")
    assert (created["ready"], created["lanes"], created["would_create"]) == (True, 2, True)
    assert sorted(created["missing"]) == sorted(gone), "nothing was made"
    topics.remove(flow.instances)
    without = found(call, flow, "--create-topics")
    assert not without["ready"]
    assert not without["would_create"]
    assert "does not exist" in without["problems"][0]


def test_partitions_sizes_and_states_that_do_not_fit(topics: Topics, tmp_path: Path, call: Call) -> None:
    flow = KafkaFlow(topics, tmp_path, partitions=2, configs={"dead_letters": {"max.message.bytes": "2000"}})
    said = found(call, flow)
    assert said["ready"]
    [warning] = said["warnings"]
    assert f"{flow.topic['dead_letters']!r} (dead_letters) takes messages of 2,000 bytes" in warning
    produce(flow.bootstrap, flow.instances, [("mail", '{"x": {"a": 1}, "y": 1}')])
    flow.ends()
    assert found(call, flow)["ended"]
    assert found(call, flow)["committed_lanes"] == 2
    flow.write(operator={"k": 4})
    other = found(call, flow, "--again")
    assert (other["ready"], other["committed_lanes"]) == (False, 2)
    assert flow.run("--again").sentence == other["problems"][0]
    flow.write(operator={"k": 3})
    topics.grow(flow.instances, 3)
    [problem] = found(call, flow, "--again")["problems"]
    assert "2 partitions, the input has 3" in problem
    assert flow.run("--again").sentence == problem


def test_an_output_in_files_beside_a_broker(topics: Topics, tmp_path: Path, call: Call) -> None:
    flow = KafkaFlow(topics, tmp_path)
    content = {"flow": {"name": flow.name}, **flow.sections}
    urls = {role: f"kafka://{flow.bootstrap}/{name}" for role, name in flow.topic.items()}
    flow.file.write_text(toml({**content, "topics": {**urls, "predictions": f"dir:{tmp_path}/predictions"}}))
    produce(flow.bootstrap, flow.instances, [("mail", '{"x": {"a": 1}, "y": 1}')])
    flow.ends()
    (tmp_path / "predictions" / "part-00000.jsonl").write_bytes(b"")
    [problem] = found(call, flow, "--again")["problems"]
    assert "has 0 bytes, but the last commit says" in problem
