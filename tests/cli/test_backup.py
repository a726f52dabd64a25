"""`sluiceway backup` and `restore`: of a live flow too, and only whole."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.calling import Call
from tests.cli.flows import LANES, AnyFlow, BrokerFlow, DirectoryFlow, ended, has_learnt, newest, report

TO_THE_END = {"input": {"stop": "end"}}


def positions(flow: AnyFlow) -> list[int | None]:
    return [lane["position"] for lane in report(flow)["lanes"]]


def test_a_live_flow_is_saved_and_goes_on_from_there(flow: AnyFlow, tmp_path: Path, call: Call) -> None:
    flow.feed(0, 400)
    undisturbed = flow.other("undisturbed", **TO_THE_END)
    saved = tmp_path / "saved"
    with flow.start() as running:
        running.until(lambda: has_learnt(flow))
        flow.feed(400, 700)  # it commits five times a second while it is saved
        done = call("backup", flow.file, saved)
        assert done.code == 0, done.stderr
        assert "2 lanes, 5 streams" in done.stderr
        refused = call("restore", flow.file, saved)
        assert (refused.code, "stop it first" in refused.sentence) == (1, True)
        flow.feed(700, 1000)
        running.until(lambda: [lane["lag"] for lane in report(flow)["lanes"]] == [0, 0])
        assert running.stop().code == 0
    refused = call("restore", flow.file, saved)
    assert (refused.code, "holds a state already" in refused.sentence) == (2, True)
    written = [flow.lines(lane) for lane in range(LANES)]
    assert call("reset", flow.file, "--yes").code == 0
    restored = call("restore", flow.file, saved)
    assert restored.code == 0, restored.stderr
    manifest = json.loads((saved / "manifest.json").read_text())
    assert positions(flow) == [lane["positions"]["instances"] for lane in manifest["lanes"]]
    flow.feed(1000, 1200)
    flow.write(**TO_THE_END)
    ended(flow)
    ended(undisturbed)
    assert newest(flow) == newest(undisturbed)
    again = [flow.lines(lane) for lane in range(LANES)]
    if isinstance(flow, DirectoryFlow):
        assert "compared with what comes again" in restored.stderr
        assert again == [  # nothing twice: the flow's whole output is an undisturbed one's
            [line.replace(b'"undisturbed"', b'"flow"') for line in undisturbed.lines(lane)] for lane in range(LANES)
        ]
    else:
        assert "COMES AGAIN" in restored.stderr
        for lane in range(LANES):
            assert again[lane][: len(written[lane])] == written[lane]


def test_a_bounded_run_goes_on_after_a_restore(flow: AnyFlow, tmp_path: Path, call: Call) -> None:
    flow.feed(0, 200)
    flow.write(**TO_THE_END)
    ended(flow)
    assert call("backup", flow.file, tmp_path / "saved", "--json").code == 0
    assert call("reset", flow.file, "--yes").code == 0
    assert call("restore", flow.file, tmp_path / "saved").code == 0
    before = [flow.lines(lane) for lane in range(LANES)]
    over = flow.run()
    assert (over.code, "has come to the end of its input already" in over.stderr) == (0, True)
    flow.feed(200, 300)
    ended(flow, "--again")
    assert [flow.lines(lane)[: len(lines)] for lane, lines in enumerate(before)] == before
    assert {snapshot["version"] for snapshot in newest(flow).values()} == {60}


def test_what_cannot_be_restored(flow: AnyFlow, tmp_path: Path, call: Call) -> None:
    saved = tmp_path / "saved"
    none = call("backup", flow.file, saved)
    assert (none.code, "has no state yet" in none.sentence) == (2, True)
    flow.feed(0, 100)
    flow.write(**TO_THE_END)
    ended(flow)
    assert call("backup", flow.file, saved).code == 0
    taken = call("backup", flow.file, saved)
    assert (taken.code, "is not empty" in taken.sentence) == (2, True)
    other = flow.other("other", **TO_THE_END)
    done = call("restore", other.file, saved)
    assert (done.code, f"a backup of flow '{flow.name}'" in done.sentence) == (2, True)
    assert call("reset", flow.file, "--yes").code == 0
    flow.write(operator={"k": 2})
    done = call("restore", flow.file, saved)
    assert (done.code, "with params = " in done.sentence) == (2, True)
    flow.write(operator={"k": 3})

    lane, manifest = saved / "lane-00001.backup", saved / "manifest.json"
    whole, told = lane.read_bytes(), manifest.read_text()
    for damaged in (whole[:-1], whole[:-20] + b"?" + whole[-19:], b""):
        lane.write_bytes(damaged)
        done = call("restore", flow.file, saved)
        assert (done.code, "is damaged" in done.sentence) == (1, True)
    lane.unlink()
    assert call("restore", flow.file, saved).code == 1
    lane.write_bytes(whole)
    manifest.unlink()
    done = call("restore", flow.file, saved)
    assert (done.code, "it was not written to its end" in done.sentence) == (2, True)
    manifest.write_text(told.replace('"version": 1', '"version": 9'))
    done = call("restore", flow.file, saved)
    assert (done.code, "a backup of version 9" in done.sentence) == (2, True)
    manifest.write_text(told)
    # nothing of all that was written
    shown = call("inspect", flow.file)
    assert "never" in shown.stdout if isinstance(flow, BrokerFlow) else "has no state yet" in shown.sentence
    assert call("restore", flow.file, saved).code == 0
    assert report(flow)["stream_count"] == 5


def test_output_directories_that_do_not_fit(tmp_path: Path, call: Call) -> None:
    flow = DirectoryFlow(tmp_path, input={"stop": "end"})
    flow.feed(0, 200)
    ended(flow)
    assert call("backup", flow.file, tmp_path / "early").code == 0
    flow.feed(200, 400)
    ended(flow, "--again")
    assert call("reset", flow.file, "--yes").code == 0
    assert call("restore", flow.file, tmp_path / "early").code == 0
    flow.write(emit={"every": 7})  # so other snapshots come than those that stand there
    done = flow.run("--again")
    assert done.code == 1
    assert "differs from what stands" in done.sentence
    flow.write(emit={"every": 20})
    ended(flow, "--again")
    path = tmp_path / "flow-selections" / "part-00000.jsonl"
    path.write_bytes(path.read_bytes()[:100])
    flow.feed(400, 500)
    done = flow.run("--again")
    assert done.code == 1
    assert "the last commit says" in done.sentence
