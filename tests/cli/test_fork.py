"""`sluiceway fork`: a flow's models go on under another name."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.calling import Call
from tests.cli.flows import AnyFlow, BrokerFlow, DirectoryFlow, ended, has_learnt, newest, report
from tests.support import Topics
from tests.support.flow import sluiceway

TO_THE_END = {"input": {"stop": "end"}}


def test_a_fork_of_a_live_flow(flow: AnyFlow, call: Call) -> None:
    flow.feed(0, 400)
    new = flow.other("new", input={"stop": "end"}, emit={"every": 10})
    undisturbed = flow.other("undisturbed", **TO_THE_END)
    with flow.start() as running:
        running.until(lambda: has_learnt(flow))
        flow.feed(400, 600)
        done = call("fork", flow.file, new.file)
        assert done.code == 0, done.stderr
        assert "goes on with 2 lanes, 5 streams" in done.stderr
        again = call("fork", flow.file, new.file)
        assert (again.code, "holds a state already" in again.sentence) == (2, True)
        flow.feed(600, 1000)
        ended(new)
        running.until(lambda: [lane["lag"] for lane in report(flow)["lanes"]] == [0, 0])
        assert running.stop().code == 0  # it has not noticed anything
    ended(undisturbed)
    mine, theirs = newest(new), newest(undisturbed)
    for stream, snapshot in theirs.items():
        for part in ("version", "seen", "selected", "metrics", "source"):
            assert mine[stream][part] == snapshot[part]
    versions = [json.loads(line)["version"] for lane in (0, 1) for line in new.lines(lane)]
    assert min(versions) > 20  # nothing of what came before the fork
    assert any(version % 20 for version in versions)


def test_a_fork_of_a_flow_that_has_ended(flow: AnyFlow, call: Call) -> None:
    flow.feed(0, 200)
    flow.write(**TO_THE_END)
    ended(flow)
    bounded, endless = flow.other("bounded", **TO_THE_END), flow.other("endless", input={"stop": None})
    for new in (bounded, endless):
        done = call("fork", flow.file, new.file, "--json")
        assert done.code == 0, done.stderr
        places = [{"instances": lane["position"]} for lane in report(flow)["lanes"]]
        assert json.loads(done.stdout)["positions"] == places
    ended(bounded)
    assert not newest(bounded)  # there was nothing to read, and its models have said before what they select
    flow.feed(200, 400)
    ended(bounded, "--again")
    assert {snapshot["version"] for snapshot in newest(bounded).values()} == {80}
    with endless.start() as running:
        running.until(lambda: len(newest(endless)) == 5)
        assert running.stop().code == 0
    assert {snapshot["version"] for snapshot in newest(flow).values()} == {40}


def test_what_cannot_be_forked(flow: AnyFlow, call: Call, tmp_path: Path) -> None:
    new = flow.other("new", operator={"name": "ofs", "k": 3})
    none = call("fork", flow.file, new.file)
    assert (none.code, "has no state yet" in none.sentence) == (2, True)
    flow.feed(0, 100)
    flow.write(**TO_THE_END)
    ended(flow)
    same = call("fork", flow.file, flow.file)
    assert (same.code, "needs a flow.name of its own" in same.sentence) == (2, True)
    for section, sentence in (
        ({"operator": {"k": 4}}, "operator.k = 3"),
        ({"operator": {"k": 3}, "input": {"scale": "none"}}, 'scale = "l2"'),
    ):
        new.write(**section)
        done = call("fork", flow.file, new.file)
        assert (done.code, sentence in done.sentence) == (2, True), done.stderr
    new.write(input={"scale": "l2"})
    if isinstance(new, DirectoryFlow):
        before = dict(new.outputs)
        new.outputs["selections"] = "dir:flow-selections"
        new.write()
        done = call("fork", flow.file, new.file)
        assert done.code == 2
        new.outputs = before
        new.write()
    assert call("fork", flow.file, new.file).code == 0
    with new.start() as running:
        running.until(lambda: report(new)["run"] == 1)
        assert running.stop().code == 0


def test_from_kafka_to_directories(topics: Topics, tmp_path: Path, call: Call) -> None:
    flow = BrokerFlow(topics, tmp_path, input={"stop": "end"})
    flow.feed(0, 200)
    ended(flow)
    new = tmp_path / "local.toml"
    lines = flow.file.read_text().replace(f'"name" = "{flow.name}"', '"name" = "local"').splitlines()
    roles = ("selections", "predictions", "dead_letters")
    told = [
        next((f'"{role}" = "dir:local/{role}"' for role in roles if line.startswith(f'"{role}"')), line)
        for line in lines
    ]
    new.write_text("\n".join(told))
    topics.also(groups=["local"])
    done = call("fork", flow.file, new)
    assert done.code == 0, done.stderr
    flow.feed(200, 300)
    done = sluiceway("run", new)
    assert done.code == 0, done.stderr
    ended(flow, "--again")
    mine = {}
    for lane in (0, 1):
        for line in (tmp_path / "local" / "selections" / f"part-{lane:05d}.jsonl").read_bytes().splitlines():
            snapshot = json.loads(line)
            mine[snapshot["stream"]] = snapshot["selected"]
    assert mine == {stream: snapshot["selected"] for stream, snapshot in newest(flow).items()}
