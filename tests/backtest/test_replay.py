"""A backtest does what the live flow does: same snapshots, whatever stops it in between; and touches nothing live."""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections.abc import Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from sluiceway.backtest.results import RESULTS
from sluiceway.backtest.run import Interrupted, backtest
from sluiceway.backtest.variant_lane import VariantLane, folder_of, selections_of
from sluiceway.flows.run import run
from sluiceway.flows.settings import Settings
from sluiceway.schemas.decode import Decoder
from sluiceway.topics.directory import partition_path
from sluiceway.topics.url import DirectoryTopic
from tests.backtest.worlds import PARTITIONS, columns, flow, instances, topic_of
from tests.support.flow import Running

KINDS: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "learner": ("instances", {"name": "ofs", "k": 3}, {"emit": {"every": 50, "on_change": True}}),
    "instance selector": ("instances", {"name": "saola-stream", "refresh": 40}, {"emit": {"every": 40}}),
    "column selector": ("features", {"name": "saola"}, {"emit": {"every": 10}}),
    "windowed": ("instances", {"name": "saola"}, {"window": {"size": 60}}),
    "joint": ("instances", {"name": "etana", "warm_up": 60, "refit_every": 40}, {"emit": {"every": 40}}),
}


def lines(topic: DirectoryTopic) -> list[list[bytes]]:
    return [partition_path(topic, lane).read_bytes().splitlines() for lane in range(PARTITIONS)]


def without_finals(found: list[list[bytes]]) -> list[list[bytes]]:
    return [[line for line in part if json.loads(line)["reason"] != "final"] for part in found]


@pytest.mark.parametrize("kind", KINDS)
def test_snapshots_are_those_of_the_live_flow(kind: str, tmp_path: Path) -> None:
    source, operator, tables = KINDS[kind]
    topic_of(tmp_path / source, columns(60) if source == "features" else instances(1_000))
    file = flow(tmp_path, operator, source, **tables)
    run(Settings.load(file), checkpoint_seconds=0.2)
    live = lines(DirectoryTopic(tmp_path / "live" / "selections"))
    results = backtest(file, out=tmp_path / "out")
    replayed = lines(selections_of(folder_of(results.folder, 0)))
    assert replayed == without_finals(live)
    assert any(replayed)
    ends = (folder_of(results.folder, 0) / "finals.jsonl").read_bytes().splitlines()
    assert sorted(ends) == sorted(line for part in live for line in part if json.loads(line)["reason"] == "final")


def test_polls_are_decoded_once_for_all_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic_of(tmp_path / "instances", instances(3_000))
    file = flow(tmp_path, {"name": "ofs", "k": 3})
    decoded, polls = [], []
    decode = Decoder.decode

    def counting(self: Decoder, poll: Any) -> Any:
        if poll.values and b"stream" in (poll.values[0] or b""):  # not those that make ready
            polls.append(poll)
            decoded.append(len(poll.values))
        return decode(self, poll)

    monkeypatch.setattr(Decoder, "decode", counting)
    results = backtest(file, {"operator.k": [1, 2, 3, 4, 5, 6]}, out=tmp_path / "out", jobs=2)
    assert len(results.variants) == 6
    assert sum(decoded) == results.content["records"]
    assert len(polls) <= 1 + results.content["records"] // 1000 + PARTITIONS


def test_the_live_flow_is_left_alone(tmp_path: Path) -> None:
    topic_of(tmp_path / "instances", instances(500))
    file = flow(tmp_path, {"name": "ofs", "k": 3})
    run(Settings.load(file), checkpoint_seconds=0.2)
    deadline = time.monotonic() + 20
    while any(tmp_path.rglob("*-wal")) and time.monotonic() < deadline:
        time.sleep(0.05)  # its lanes' threads are closing their stores

    def everything() -> dict[str, str]:
        files = [path for path in tmp_path.rglob("*") if path.is_file() and "out" not in path.parts]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = everything()
    backtest(file, {"operator.k": [1, 2]}, out=tmp_path / "out")
    assert everything() == before


@pytest.mark.parametrize("delay", [None, 30])
def test_interrupted_and_gone_on_with(tmp_path: Path, delay: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    topic_of(tmp_path / "instances", instances(3_000))
    file = flow(tmp_path, {"name": "ofs", "k": 3}, emit={"every": 100})
    vary: dict[str, list[Any]] = {"operator.k": [2, 5], "input.scale": ["l2", "none"]}
    whole = backtest(file, vary, label_delay=delay, out=tmp_path / "whole")
    monkeypatch.setattr("sluiceway.backtest.replay.COMMIT_SECONDS", 0.0)
    monkeypatch.setattr("sluiceway.topics.directory_reader.RECORDS_A_POLL", 300)
    tries = 0
    while True:
        try:
            asked = iter([False] * (2 + 3 * tries))
            parts = backtest(
                file, vary, label_delay=delay, out=tmp_path / "parts", resume=tries > 0,
                stopping=partial(next, asked, True),
            )  # fmt: skip
            break
        except Interrupted:
            tries += 1
    assert tries > 1
    assert (parts.folder / RESULTS).read_bytes() == (whole.folder / RESULTS).read_bytes()


def test_killed_and_gone_on_with(tmp_path: Path) -> None:
    """Each try is killed soon after its first commit, wherever it is then."""
    topic_of(tmp_path / "instances", instances(2_000))
    file = flow(tmp_path, {"name": "ofs", "k": 3}, emit={"every": 100})
    vary = {"operator.k": [1, 2, 3, 5]}
    whole = backtest(file, vary, out=tmp_path / "whole").folder
    (tmp_path / "slow.py").write_text(
        "import sys, time\n"
        "from sluiceway.backtest import replay, run\n"
        "from sluiceway.topics import directory_reader\n"
        "replay.COMMIT_SECONDS, directory_reader.RECORDS_A_POLL = 0.0, 250\n"
        "run.backtest(sys.argv[1], {'operator.k': [1, 2, 3, 5]}, out=sys.argv[2], resume=True,"
        " tell=lambda progress: time.sleep(0.05))\n"
    )
    rng, out, deaths = random.Random(5), tmp_path / "parts", 0
    while not (out / RESULTS).exists():
        before = _replayed(out)
        with Running(file, out, module="slow", env={"PYTHONPATH": ":".join([str(tmp_path), *sys.path])}) as running:
            running.until(lambda before=before: _replayed(out) > before or (out / RESULTS).exists(), 250)  # type: ignore[misc]
            time.sleep(rng.uniform(0.0, 0.15))
            running.kill()
            deaths += 1
    assert deaths > 2
    assert (out / RESULTS).read_bytes() == (whole / RESULTS).read_bytes()


def test_decisions_noted_beyond_the_commit_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after a poll's judgements had reached the disk and before the commit that they belong to."""
    topic_of(tmp_path / "instances", instances(1_000))
    file = flow(tmp_path, {"name": "etana", "warm_up": 60, "refit_every": 40}, emit={"every": 40})
    vary = {"operator.cost": [0.01, 0.1]}
    whole = backtest(file, vary, out=tmp_path / "whole").folder
    monkeypatch.setattr("sluiceway.backtest.replay.COMMIT_SECONDS", 0.0)
    monkeypatch.setattr("sluiceway.topics.directory_reader.RECORDS_A_POLL", 100)
    monkeypatch.setattr("sluiceway.backtest.judgements.BUFFER", 50)  # no whole number of judgements
    real, out, deaths = VariantLane.commit, tmp_path / "parts", 0

    class Killed(BaseException):
        pass

    def dying(self: VariantLane, *, final: bool) -> None:
        if next(moments):
            raise Killed
        real(self, final=final)

    monkeypatch.setattr(VariantLane, "commit", dying)
    while True:
        moments = chain([False] * (3 + 2 * deaths), [True])
        try:
            parts = backtest(file, vary, out=out, resume=deaths > 0, jobs=1)
            break
        except Killed:
            deaths += 1
    assert deaths > 2
    assert (parts.folder / RESULTS).read_bytes() == (whole / RESULTS).read_bytes()


def _replayed(out: Path) -> int:
    """How far it has come, in bytes."""
    return sum(json.loads(path.read_text())["position"] for path in out.glob("counted-*.json"))


def test_some_streams_alone(tmp_path: Path) -> None:
    topic_of(tmp_path / "instances", instances(500))
    file = flow(tmp_path, {"name": "ofs", "k": 3})
    both = backtest(file, out=tmp_path / "both")
    one = backtest(file, out=tmp_path / "one", streams=["s1"])
    assert set(one.variants[0]["streams"]) == {"s1"}
    assert one.variants[0]["streams"]["s1"] == both.variants[0]["streams"]["s1"]
