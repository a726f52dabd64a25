"""How a run shows where it is: on a terminal, and nowhere else."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from sluiceway.flows.progress import Progress
from tests.cli.calling import Call, Terminal
from tests.support.flow import Running, sluiceway, toml

RECORDS = 3000


@pytest.fixture
def flow(tmp_path: Path, call: Call) -> Path:
    lines = [f'{{"stream": "s{at % 9}", "x": {{"a": 1, "b": {at}}}, "y": {at % 2}}}\n' for at in range(RECORDS)]
    (tmp_path / "m.jsonl").write_text("".join(lines))
    call("produce", tmp_path / "m.jsonl", f"dir:{tmp_path}/in", "--partitions", "3")
    content: dict[str, dict[str, Any]] = {
        "flow": {"name": "f"},
        "topics": {"instances": "dir:in", "selections": "dir:out", "dead_letters": "dir:dead"},
        "input": {"stop": "end"},
        "operator": {"name": "ofs", "k": 1},
    }
    (tmp_path / "flow.toml").write_text(toml(content))
    (tmp_path / "endless.toml").write_text(toml({**content, "input": {}}))
    return tmp_path


def test_elsewhere_it_says_when_it_starts_and_how_it_ended(flow: Path) -> None:
    done = sluiceway("run", "flow.toml", "--recovery", "store", cwd=flow)
    start, end = [line for line in done.stderr.splitlines() if "compiling" not in line]
    assert start == f"f: ofs on dir:{flow}/in (3 partitions, to the end); checkpoints every 2 s in store"
    assert end.startswith("f: the input has ended; 3,000 records in ")
    assert done.stdout == ""
    again = sluiceway("run", "flow.toml", "--recovery", "store", cwd=flow)
    assert "f: the input has ended; 0 records in " in again.stderr


def test_bounded_input_has_a_bar_a_lane(flow: Path) -> None:
    with Terminal("run", "flow.toml", "--recovery", "store", cwd=flow) as terminal:
        assert terminal.wait() == 0
    for shown in ("input ", "lane 0 ", "lane 2 ", "100 %", "3,000 records, ", " of "):
        assert shown in terminal.text


def test_endless_input_has_a_rate(flow: Path) -> None:
    with Terminal("run", "endless.toml", "--recovery", "store", cwd=flow) as terminal:
        terminal.until("3,000 records, ")
        assert "/s, " in terminal.text
        assert "%" not in terminal.text
        terminal.interrupt()
        assert terminal.wait() == 0
    assert "f: stopped at a checkpoint; 3,000 records in " in terminal.text


def test_a_port_in_use(flow: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        env = {"BYTEWAX_ADDRESSES": f"{address};127.0.0.1:1", "BYTEWAX_PROCESS_ID": "0"}
        with Running("run", "flow.toml", "--recovery", "store", cwd=flow, env=env) as running:
            done = running.wait()
    assert done.code == 2
    usual = ("compiling ", "f: ofs on ")
    assert len([line for line in done.stderr.splitlines() if not line.startswith(usual)]) == 1, done.stderr
    assert f"process 0 cannot listen at {address}, its place in BYTEWAX_ADDRESSES: Address already" in done.sentence
    assert "Traceback" not in done.stderr


def test_shares() -> None:
    progress = Progress()
    assert (progress.records, progress.seconds) == (0, 0.0)
    lane = progress.open(0, 100, 300)
    empty, endless = progress.open(1, 5, 5), progress.open(2, 7, None)
    lane.reached(200, 40)
    assert (lane.share, empty.share, endless.share) == (0.5, 1.0, 0.0)
    lane.reached(310, 60)
    assert (lane.share, progress.records) == (1.0, 100)
