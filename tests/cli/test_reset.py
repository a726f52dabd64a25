"""`sluiceway reset`: what goes, what stays, and that a flow then begins anew."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.cli.calling import Call, Terminal
from tests.cli.flows import LANES, AnyFlow, BrokerFlow, DirectoryFlow, ended, has_learnt, newest, report
from tests.support import Topics
from tests.support.flow import sluiceway

TO_THE_END = {"input": {"stop": "end"}}


def groups(flow: BrokerFlow) -> set[str]:
    admin = AdminClient({"bootstrap.servers": flow.bootstrap})
    return {group.group_id for group in admin.list_consumer_groups().result().valid if flow.name in group.group_id}


def test_a_dry_run_changes_nothing(flow: AnyFlow, call: Call) -> None:
    if isinstance(flow, DirectoryFlow):  # where nothing has been made yet
        assert "there is nothing to reset" in call("reset", flow.file, "--dry-run").stderr
    flow.feed(0, 200)
    flow.write(**TO_THE_END)
    ended(flow)
    before = report(flow)
    said = call("reset", flow.file, "--dry-run")
    assert said.code == 0, said.stderr
    assert "2 lanes, 5 streams" in said.stdout
    content = json.loads(call("reset", flow.file, "--dry-run", "--json").stdout)
    [part] = content["removed"]
    assert (part["lanes"], part["streams"], content["dry_run"]) == (LANES, 5, True)
    assert part["bytes"] == sum(lane["bytes"] for lane in before["lanes"])
    assert [lane["position"] for lane in report(flow)["lanes"]] == [lane["position"] for lane in before["lanes"]]
    assert "has come to the end of its input already" in flow.run().stderr


def test_it_wants_a_yes(flow: AnyFlow, tmp_path: Path, call: Call) -> None:
    done = call("reset", flow.file)
    assert (done.code, "say --yes, or --dry-run" in done.sentence) == (2, True)
    flow.feed(0, 50)
    flow.write(**TO_THE_END)
    ended(flow)
    with Terminal("reset", flow.file, cwd=tmp_path) as terminal:
        terminal.until("for good? [y/N]")
        time.sleep(0.5)  # a signal between the question and the reading of an answer waits for the answer
        terminal.interrupt()
        terminal.until("nothing was removed")
        assert terminal.wait() == 1
    assert report(flow)["stream_count"] == 5


def test_a_running_flow_is_refused(flow: AnyFlow, call: Call) -> None:
    flow.feed(0, 100)
    with flow.start() as running:
        running.until(lambda: has_learnt(flow))
        done = call("reset", flow.file, "--yes")
        assert done.code == 1
        assert "process " in done.sentence
        assert "stop it first" in done.sentence
        flow.feed(100, 200)
        running.until(lambda: report(flow)["lanes"][0]["lag"] == 0)
        assert running.stop().code == 0


def test_a_reset_flow_begins_anew(flow: AnyFlow, topics: Topics, call: Call) -> None:
    flow.feed(0, 300)
    flow.write(**TO_THE_END)
    ended(flow)
    first = [flow.lines(lane) for lane in range(LANES)]
    done = call("reset", flow.file, "--yes")
    assert done.code == 0, done.stderr
    if isinstance(flow, DirectoryFlow):
        assert not flow.state.exists()
        assert "remove them by hand" in done.stderr
        assert "already holds output" in flow.run().stderr
        shutil.rmtree(flow.directory / "flow-selections")
        assert call("reset", flow.file, "--yes").code == 0  # the refused start has opened its lanes
    ended(flow, "--create-topics")
    again = [flow.lines(lane) for lane in range(LANES)]
    # a topic holds both, a directory that was removed only the second
    assert again == (first if isinstance(flow, DirectoryFlow) else [lines * 2 for lines in first])


def test_with_snapshots_and_applying(topics: Topics, tmp_path: Path, call: Call) -> None:
    flow = BrokerFlow(topics, tmp_path, input={"stop": "end"})
    flow.topic["applied"] = topics("applied", partitions=LANES)
    other = flow.other("other", input={"stop": "end"})
    other.topic["selections"] = flow.topic["selections"]
    flow.write()
    other.write()
    flow.feed(0, 200)
    ended(flow)
    ended(other)
    assert sluiceway("apply", flow.file, "--create-topics").code == 0
    assert {flow.name, f"{flow.name}.members", f"{flow.name}-apply"} <= groups(flow)
    done = call("reset", flow.file, "--yes", "--snapshots", "--json")
    assert done.code == 0, done.stderr
    content = json.loads(done.stdout)
    assert [part["flow"] for part in content["removed"]] == [flow.name, f"{flow.name}-apply"]
    assert content["snapshots"] == [f"{flow.name}/s{number}" for number in range(5)]
    assert groups(flow) == set()
    newest_by_key: dict[bytes | None, bytes | None] = {}
    for lane in range(LANES):
        newest_by_key |= {record.key: record.value for record in flow.out("selections", partition=lane)}
    for number in range(5):
        assert newest_by_key[f"{flow.name}/s{number}".encode()] is None
        assert newest_by_key[f"{other.name}/s{number}".encode()] is not None
    ended(flow)
    assert newest(flow) == newest(other)
    assert sluiceway("apply", flow.file).code == 0
    assert len(flow.out("applied")) == 2 * 120  # both runs, of the three streams of lane 0


def test_a_lost_state_topic_is_named_and_reset_leads_on(topics: Topics, tmp_path: Path, call: Call) -> None:
    flow = BrokerFlow(topics, tmp_path, input={"stop": "end"})
    flow.feed(0, 100)
    ended(flow)
    topics.admin.delete_topics([flow.state])[flow.state].result()
    refused = flow.run("--create-topics")
    assert refused.code == 1
    assert "`sluiceway reset FLOW`" in refused.sentence
    assert call("reset", flow.file, "--yes").code == 0
    ended(flow)


def test_another_flows_state_is_not_removed(flow: AnyFlow, tmp_path: Path, call: Call) -> None:
    flow.feed(0, 50)
    flow.write(**TO_THE_END)
    ended(flow)
    strange = tmp_path / "strange.toml"
    text = flow.file.read_text()
    if isinstance(flow, BrokerFlow):
        text = text.replace("[topics]\n", f'[topics]\nstate = "kafka://{flow.bootstrap}/{flow.state}"\n')
    strange.write_text(text.replace(f'name" = "{flow.name}"', 'name" = "strange"'))
    done = call("reset", strange, "--yes")
    assert done.code == 2
    assert f"another flow, '{flow.name}'" in done.sentence
    refused = sluiceway("run", strange)
    assert refused.code == 2
    assert "`sluiceway fork`" in refused.sentence
    assert report(flow)["stream_count"] == 5


def test_settings_of_other_models_name_the_commands(flow: AnyFlow) -> None:
    flow.feed(0, 50)
    flow.write(**TO_THE_END)
    ended(flow)
    flow.write(operator={"k": 4})
    done = flow.run()
    assert done.code == 2
    assert "`sluiceway reset FLOW`" in done.sentence
    assert "another flow.name" in done.sentence
