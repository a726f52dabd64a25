"""Snapshots made again, and what differs between two of them or between two backtests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluiceway.backtest.run import backtest
from sluiceway.flows.run import run
from sluiceway.flows.settings import Settings
from tests.backtest.test_promote import bring, lines, renamed, world
from tests.backtest.test_replay import KINDS
from tests.backtest.worlds import flow, instances, topic_of
from tests.cli.calling import Call


def kept(place: Path, line: bytes | dict[str, Any], name: str = "snapshot.json") -> Path:
    path = place / name
    path.write_bytes(line + b"\n" if isinstance(line, bytes) else json.dumps(line, indent=2).encode())
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_is_made_again(kind: str, tmp_path: Path, call: Call) -> None:
    source, operator, tables = KINDS[kind]
    half = {"instances": instances(800)}
    if source == "features":
        file, _, later = world(tmp_path, kind)
        bring(later["topic"], later["rest"])
    else:
        topic_of(tmp_path / source, half[source])
        file = flow(tmp_path, operator, source, **tables)
    run(Settings.load(file), checkpoint_seconds=0.2)
    found = [line for lane in lines(tmp_path / "live" / "selections") for line in lane]
    reasons = {json.loads(line)["reason"]: line for line in found}
    for line in [found[len(found) // 2], *reasons.values()]:
        done = call("reproduce", kept(tmp_path, line), file)
        assert done.code == 0, done
        assert done.stdout.startswith("identical, byte for byte ("), done.stdout


def test_what_differs_is_told(tmp_path: Path, call: Call) -> None:
    topic_of(tmp_path / "instances", instances(800))
    file = flow(tmp_path, {"name": "ofs", "k": 3}, emit={"every": 50, "final": True})
    run(Settings.load(file), checkpoint_seconds=0.2)
    line = lines(tmp_path / "live" / "selections")[0][3]
    snapshot = json.loads(line)

    def told(content: dict[str, Any], *options: object) -> tuple[int, str]:
        done = call("reproduce", kept(tmp_path, content), file, *options)
        return done.code, done.stdout if done.code < 2 else done.sentence

    assert told(snapshot) == (
        0,
        f"identical, but for how it is written down ({_replayed(tmp_path)} records replayed)\n",
    )
    weight = {**snapshot, "selected": [{**snapshot["selected"][0], "weight": 7.5}, *snapshot["selected"][1:]]}
    code, sentence = told(weight)
    assert code == 1
    assert sentence.startswith("it differs: selected[0].weight is 7.5 there, ")
    code, sentence = told({**snapshot, "entered": []})
    assert "another snapshot came before it" in sentence or not snapshot["entered"]
    code, sentence = told(snapshot, "--from", str(_third(tmp_path)))
    assert (code, "the flow did not begin from nothing there" in sentence) == (1, True)
    assert "does the flow emit as it did then?" in told({**snapshot, "generation": 1})[1]
    for wrong, words in (
        ({"flow": "other"}, "is of flow 'other', the file is of 'replayed'"),
        ({"source": {"features": {"partition": 0, "offset": 9}}}, "was made from features, the flow reads instances"),
        ({"source": {"instances": {"partition": 7, "offset": 9}}}, "is of partition 7"),
        ({"source": {"instances": {"partition": 0, "offset": 10**9}}}, "lies beyond the end"),
        ({"source": {"instances": {"partition": 0, "offset": 0}}}, "nothing to replay from 0 to 0"),
    ):
        code, sentence = told({**snapshot, **wrong})
        assert (code, words in sentence) == (2, True), sentence
    nothing = call("reproduce", kept(tmp_path, b"[]"), file)
    assert (nothing.code, "is no snapshot" in nothing.sentence) == (2, True)
    several = call("reproduce", kept(tmp_path, line + b"\n" + line), file)
    assert (several.code, "one snapshot is wanted" in several.sentence) == (2, True)


def _third(place: Path) -> int:
    """Where the third record begins."""
    return sum(len(line) + 1 for line in (place / "instances" / "part-00000.jsonl").read_bytes().split(b"\n")[:2])


def _replayed(place: Path) -> int:
    line = json.loads(lines(place / "live" / "selections")[0][3])
    part = (place / "instances" / "part-00000.jsonl").read_bytes()[: line["source"]["instances"]["offset"]]
    return part.count(b"\n")


def test_of_a_promoted_flow_with_the_state_that_it_began_with(tmp_path: Path, call: Call) -> None:
    file, _, later = world(tmp_path, "learner")
    new = renamed(file, "promoted")
    out = backtest(file, start="-200", out=tmp_path / "out").folder
    assert call("promote", out, 0, new).code == 0
    told = lines(tmp_path / "promoted" / "selections")
    bring(later["topic"], later["rest"])
    run(Settings.load(new), checkpoint_seconds=0.2)
    snapshot = kept(tmp_path, lines(tmp_path / "promoted" / "selections")[0][len(told[0]) + 3])
    done = call("reproduce", snapshot, new)
    assert done.code == 1
    assert "if it was promoted, forked or restored, --state names what it began with" in done.stdout
    again = call("reproduce", snapshot, new, "--state", out / "variants" / "0000", "--json")
    assert again.code == 0, again
    assert json.loads(again.stdout)["to_the_byte"]


def test_two_snapshots_side_by_side(tmp_path: Path, call: Call) -> None:
    topic_of(tmp_path / "instances", instances(800))
    file = flow(tmp_path, {"name": "ofs", "k": 3}, emit={"every": 50})
    run(Settings.load(file), checkpoint_seconds=0.2)
    found = lines(tmp_path / "live" / "selections")[0]
    first, last = kept(tmp_path, found[0], "first.json"), kept(tmp_path, found[-1], "last.json")
    same = call("diff", first, first)
    assert "they are the same" in same.stdout
    assert "3 features in both, 0 only in the first, 0 only in the second (Jaccard index 1.00)" in " ".join(
        same.stdout.split()
    )
    done = call("diff", first, last, "--json")
    content = json.loads(done.stdout)
    one, other = json.loads(found[0]), json.loads(found[-1])
    names = {entry["feature"] for snapshot in (one, other) for entry in snapshot["selected"]}
    assert {pair["name"] for pair in content["pairs"]} == names
    assert {"place": "version", "one": one["version"], "other": other["version"]} in content["places"]
    assert call("diff", first, last).code == 0
    assert call("diff", first, last, "--by", "error").code == 2


def test_two_backtests_side_by_side(tmp_path: Path, call: Call) -> None:
    topic_of(tmp_path / "instances", instances(500))
    file = flow(tmp_path, {"name": "ofs", "k": 3})
    one = backtest(file, {"operator.k": [2, 3]}, out=tmp_path / "one").folder
    other = backtest(file, {"operator.k": [3, 4]}, start="-100", out=tmp_path / "other").folder
    content = json.loads(call("diff", one, other, "--json").stdout)
    pairs = {pair["name"]: pair for pair in content["pairs"]}
    assert set(pairs) == {"ofs k=2", "ofs k=3", "ofs k=4"}
    assert pairs["ofs k=2"]["other"] is None
    assert pairs["ofs k=3"]["one"] != pairs["ofs k=3"]["other"]
    assert "source.from[0]" in {place["place"] for place in content["places"]}
    shown = call("diff", one, other, "--by", "stability")
    assert (shown.code, "stability of 1 variants in both" in shown.stdout) == (0, True)
    assert call("diff", one, tmp_path / "flow.toml").code == 2
