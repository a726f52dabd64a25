"""`sluiceway inspect`: stores, directory topics, snapshots."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.calling import Call
from tests.cli.test_watch import HISTORY, snapshot
from tests.support.flow import Running, sluiceway, toml


def test_a_store(demo: Path, call: Call) -> None:
    before = sorted(path.name for path in (demo / "store").iterdir())
    said = call("inspect", demo / "store").stdout
    assert "demo" in said
    assert "ofs (k=10, eta=0.2, lam=0.01, decay=True)" in said
    assert "at rest; the last run ended cleanly" in said
    size = (demo / "instances" / "part-00000.jsonl").stat().st_size
    report = json.loads(call("inspect", demo / "store", "--json").stdout)
    assert report["manifest"]["flow"] == "demo"
    assert (report["clean"], report["running"], report["bounds"]) == (True, False, None)
    assert report["positions"] == {"0": size}
    [stream] = report["streams"]
    assert (stream["stream"], stream["version"], stream["seen"], stream["selected"]) == ("mail", 20_000, 20_000, 10)
    assert sorted(path.name for path in (demo / "store").iterdir()) == before  # nothing was left behind


def test_a_store_in_use(tmp_path: Path, call: Call) -> None:
    (tmp_path / "m.jsonl").write_text('{"stream": "s", "x": {"a": 1}, "y": 1}\n' * 50)
    call("produce", tmp_path / "m.jsonl", f"dir:{tmp_path}/in", "--partitions", "2")
    flow: dict[str, dict[str, Any]] = {
        "flow": {"name": "f"},
        "topics": {"instances": "dir:in", "selections": "dir:out", "dead_letters": "dir:dead"},
        "operator": {"name": "ofs", "k": 1},
    }
    (tmp_path / "flow.toml").write_text(toml(flow))

    def learnt() -> bool:
        if not (tmp_path / "store" / "run.json").exists():
            return False
        report = json.loads(call("inspect", tmp_path / "store", "--json").stdout)
        assert (report["clean"], report["running"]) == (False, True)
        assert (report["bounds"]["starts"], report["bounds"]["stops"]) == ([0, 0], [None, None])
        return [stream["version"] for stream in report["streams"]] == [50]

    with Running("run", "flow.toml", "--recovery", "store", "--checkpoint-every", "0.1", cwd=tmp_path) as running:
        running.until(learnt)
        assert "a run is under way" in call("inspect", tmp_path / "store").stdout
        assert running.stop().code == 0


def test_stores_of_a_windowed_flow_and_of_applying_it(tmp_path: Path, call: Call) -> None:
    records = [{"stream": "s", "x": {"a": at % 2, "b": at % 3}, "y": at % 2} for at in range(50)]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    call("produce", tmp_path / "m.jsonl", f"dir:{tmp_path}/in")
    flow: dict[str, dict[str, Any]] = {
        "flow": {"name": "f"},
        "topics": {role: f"dir:{role}" for role in ("selections", "dead_letters", "applied")} | {"instances": "dir:in"},
        "input": {"stop": "end"},
        "operator": {"name": "saola", "significance": 0.5},
        "window": {"size": 20},
    }
    (tmp_path / "flow.toml").write_text(toml(flow))
    assert sluiceway("run", "flow.toml", "--recovery", "store", cwd=tmp_path).code == 0
    applying = ("apply", "flow.toml", "--recovery", "apply-store", "--flow-recovery", "store")
    assert sluiceway(*applying, cwd=tmp_path).code == 0
    [stream] = json.loads(call("inspect", tmp_path / "store", "--json").stdout)["streams"]
    last = json.loads((tmp_path / "selections" / "part-00000.jsonl").read_text().splitlines()[-1])
    assert (stream["version"], stream["seen"], stream["selected"]) == (40, 50, last["n_selected"])
    said = call("inspect", tmp_path / "apply-store").stdout
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
        (tmp_path, "holds neither a recovery store (sluiceway.json) nor a topic (_topic.json)"),
        (tmp_path / "strange.json", "strange.json is no snapshot: flow: field required"),
        (tmp_path / "empty.json", "empty.json is empty"),
    ):
        done = call("inspect", what)
        assert done.code == 2
        assert sentence in done.sentence
