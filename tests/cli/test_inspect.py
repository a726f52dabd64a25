"""`sluiceway inspect`: flows, directory topics, snapshots."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.calling import Call
from tests.cli.flows import AnyFlow, BrokerFlow, DirectoryFlow, instances, report
from tests.cli.test_watch import HISTORY, snapshot
from tests.support import Topics
from tests.support.flow import sluiceway, toml
from tests.support.kafka import produce


def test_a_flow_that_has_ended(demo: Path, call: Call) -> None:
    store = demo / "selections.state"
    before = sorted(path.name for path in store.iterdir())
    file = next(demo.glob("*.toml"))
    said = call("inspect", file).stdout
    assert "ofs (k=10, eta=0.2, lam=0.01, decay=True)" in said
    assert "1, to end: ended" in said
    size = (demo / "instances" / "part-00000.jsonl").stat().st_size
    told = json.loads(call("inspect", file, "--json").stdout)
    assert (told["flow"], told["belongs_to"]["operator"]) == ("demo", "ofs")
    assert (told["run"], told["bounded"], told["lag_in"]) == (1, True, "bytes")
    [lane] = told["lanes"]
    assert (lane["position"], lane["end"], lane["lag"], lane["final"]) == (size, size, 0, True)
    [stream] = told["streams"]
    assert (stream["stream"], stream["version"], stream["seen"], stream["selected"]) == ("mail", 20_000, 20_000, 10)
    assert lane["bytes"] == stream["bytes"]
    assert sorted(path.name for path in store.iterdir()) == before  # nothing was left behind
    named = call("inspect", store)
    assert (named.code, "name the flow's file" in named.sentence) == (2, True)


def test_one_stream_in_full(demo: Path, call: Call) -> None:
    file = next(demo.glob("*.toml"))
    last = json.loads((demo / "selections" / "part-00000.jsonl").read_bytes().splitlines()[-1])
    model = json.loads(call("inspect", file, "--stream", "mail", "--json").stdout)
    assert model["params"] == last["params"]
    assert [(one["feature"], one["since"]) for one in model["selected"]] == [
        (one["feature"], one["since"]) for one in last["selected"]
    ]
    assert model["counts"]["mistakes"] == last["metrics"]["mistakes"]
    assert (model["counts"]["pending"], model["problem"]) == (0, None)
    packed = base64.b64decode(model["head"]["model"], validate=True)
    assert all(one["feature"].encode() in packed for one in model["selected"])
    said = call("inspect", file, "--stream", "mail").stdout
    assert all(one["feature"] in said for one in last["selected"])
    wrong = call("inspect", file, "--stream", "mial")
    assert (wrong.code, "did you mean 'mail'?" in wrong.sentence) == (2, True)
    unfit = call("inspect", demo / "selections", "--stream", "mail")
    assert (unfit.code, "--stream goes with a flow's file" in unfit.sentence) == (2, True)


def test_a_flow_that_runs(flow: AnyFlow, call: Call) -> None:
    none = call("inspect", flow.file)
    if isinstance(flow, DirectoryFlow):
        assert (none.code, "has no state yet" in none.sentence) == (2, True)
    else:
        assert (none.code, "never" in none.stdout) == (0, True)
    flow.feed(0, 300)

    def learnt() -> bool:
        done = call("inspect", flow.file, "--json")
        content = json.loads(done.stdout) if done.code == 0 else {"streams": []}
        return [stream["version"] for stream in content["streams"]] == [60] * 5

    with flow.start() as running:
        running.until(learnt)
        told = report(flow)
        assert (told["run"], told["bounded"], told["stop"]) == (1, False, None)
        for lane in told["lanes"]:
            assert (lane["owner"]["pid"], lane["owned"]) == (running._process.pid, "yes")
            assert (lane["lag"], lane["parked"], lane["final"]) == (0, None, False)
            assert lane["age"] < 60
        assert [lane["streams"] for lane in told["lanes"]] == [3, 2]
        said = call("inspect", flow.file).stdout
        assert "until stopped" in said
        assert f"{running._process.pid}" in said
        assert running.stop().code == 0
    flow.feed(300, 310)
    told = report(flow)
    assert [lane["owned"] for lane in told["lanes"]] == ["no", "no"]
    assert all(lane["lag"] > 0 for lane in told["lanes"])
    if told["lag_in"] == "records":
        assert [lane["lag"] for lane in told["lanes"]] == [6, 4]


def test_a_parked_lane(topics: Topics, tmp_path: Path, call: Call) -> None:
    # a broken record makes a dead letter of its size: more than the topic takes
    flow = BrokerFlow(topics, tmp_path, configs={"dead_letters": {"max.message.bytes": "2000"}})
    flow.feed(0, 100)
    with flow.start() as running:
        running.until(lambda: report(flow)["stream_count"] == 5)
        produce(flow.bootstrap, flow.instances, [("s0", "x" * 3000, 0)])
        running.until(lambda: report(flow)["lanes"][0]["parked"] is not None)
        produce(flow.bootstrap, flow.instances, instances(100, 200))
        running.until(lambda: report(flow)["lanes"][1]["lag"] == 0)
        told = report(flow)
        assert "over its limit" in told["lanes"][0]["parked"]
        assert told["lanes"][0]["lag"] > 0
        assert told["lanes"][1]["parked"] is None
        said = call("inspect", flow.file).stdout
        assert "lane 0 is parked: a record of" in said


def test_a_windowed_flow_and_applying_it(tmp_path: Path, call: Call) -> None:
    records = [{"stream": "s", "x": {"a": at % 2, "b": at % 3}, "y": at % 2} for at in range(50)]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    call("produce", tmp_path / "m.jsonl", f"dir:{tmp_path}/in")
    content: dict[str, dict[str, Any]] = {
        "flow": {"name": "f"},
        "topics": {role: f"dir:{role}" for role in ("selections", "dead_letters", "applied")} | {"instances": "dir:in"},
        "input": {"stop": "end"},
        "operator": {"name": "saola", "significance": 0.5},
        "window": {"size": 20},
    }
    (tmp_path / "flow.toml").write_text(toml(content))
    assert sluiceway("run", "flow.toml", cwd=tmp_path).code == 0
    assert sluiceway("apply", "flow.toml", cwd=tmp_path).code == 0
    [stream] = json.loads(call("inspect", tmp_path / "flow.toml", "--json").stdout)["streams"]
    last = json.loads((tmp_path / "selections" / "part-00000.jsonl").read_text().splitlines()[-1])
    assert (stream["version"], stream["seen"], stream["selected"]) == (40, 50, last["n_selected"])
    model = json.loads(call("inspect", tmp_path / "flow.toml", "--stream", "s", "--json").stdout)
    assert {one["feature"] for one in model["selected"]} == {one["feature"] for one in last["selected"]}
    said = call("inspect", tmp_path / "flow.toml", "--apply").stdout
    assert "f-apply" in said
    assert "(1 partition)" in said
    assert "operator" not in said
    assert "?" not in said


def test_a_directory_topic(demo: Path, call: Call) -> None:
    url = f"dir:{demo / 'selections'}"
    said = call("inspect", url).stdout
    assert f"{url}: 1 partition, 20 records" in said
    assert "first of partition 0, at 0:" in said
    report = json.loads(call("inspect", url, "--json").stdout)
    [partition] = report["partitions"]
    assert partition["records"] == 20
    assert json.loads(partition["first"]["value"])["version"] == 1000
    assert json.loads(partition["last"]["value"])["version"] == 20_000
    assert call("inspect", demo / "selections", "--json").stdout == call("inspect", url, "--json").stdout


def test_snapshots_in_a_file(tmp_path: Path, call: Call) -> None:
    (tmp_path / "all.jsonl").write_bytes(HISTORY)
    assert call("inspect", tmp_path / "all.jsonl").stdout.count("spam/mail  ofs (k=3)") == 2
    (tmp_path / "one.json").write_text(json.dumps(json.loads(snapshot(5, "a")), indent=2))
    assert "version 5, seen 10" in call("inspect", tmp_path / "one.json").stdout
    assert call("inspect", tmp_path / "one.json", "--json").stdout.encode() == snapshot(5, "a")


def test_a_snapshot_on_standard_input() -> None:
    command = [sys.executable, "-m", "sluiceway", "inspect", "-"]
    done = subprocess.run(command, input=snapshot(5, "a"), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"version 5" in done.stdout


def test_what_is_none_of_these(tmp_path: Path, call: Call) -> None:
    (tmp_path / "strange.json").write_text('{"schema": 1}')
    (tmp_path / "empty.json").write_text("")
    for what, sentence in (
        (tmp_path, "is no topic: it holds no _topic.json"),
        (tmp_path / "strange.json", "strange.json is no snapshot: flow: field required"),
        (tmp_path / "empty.json", "empty.json is empty"),
    ):
        done = call("inspect", what)
        assert done.code == 2
        assert sentence in done.sentence
