"""How a run shows where it is: on a terminal, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluiceway.flows.progress import Progress
from tests.cli.calling import Call, Terminal
from tests.support.flow import Done, sluiceway, toml

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


def said(done: Done) -> list[str]:
    """The command's own lines in the log, without time and level; those of its parts say whose they are."""
    lines = [line.split(" INFO    ")[1] for line in done.stderr.splitlines()]
    return [line for line in lines if "compiling" not in line and not line.startswith("sluiceway.")]


def test_elsewhere_it_says_when_it_starts_and_how_it_ended(flow: Path) -> None:
    done = sluiceway("run", "flow.toml", cwd=flow)
    start, end = said(done)
    state = f"state in dir:{flow}/out.state"
    assert start == f"f: ofs on dir:{flow}/in (3 partitions, to the end); a commit every 2 s, {state}"
    assert end.startswith("f: the input has ended; 3,000 records in ")
    assert done.stdout == ""
    over = sluiceway("run", "flow.toml", cwd=flow)
    assert (over.code, said(over)) == (
        0,
        [
            "f: this flow has come to the end of its input already; `sluiceway run flow.toml --again` reads on to where"
            " the input ends now, `sluiceway reset flow.toml` begins anew"
        ],
    )
    again = sluiceway("run", "flow.toml", "--again", cwd=flow)
    assert "f: the input has ended; 0 records in " in again.stderr


def test_bounded_input_has_a_bar_a_lane(flow: Path) -> None:
    with Terminal("run", "flow.toml", cwd=flow) as terminal:
        assert terminal.wait() == 0
    for shown in ("input ", "lane 0 ", "lane 2 ", "100 %", "3,000 records, ", " of "):
        assert shown in terminal.text


def test_endless_input_has_a_rate(flow: Path) -> None:
    with Terminal("run", "endless.toml", cwd=flow) as terminal:
        terminal.until("3,000 records, ")
        assert "/s, " in terminal.text
        assert "%" not in terminal.text
        terminal.interrupt()
        assert terminal.wait() == 0
    assert "f: stopped, everything committed; 3,000 records in " in terminal.text


def test_shares() -> None:
    progress = Progress()
    assert (progress.records, progress.seconds) == (0, 0.0)
    lane = progress.open(0, 100, 300)
    empty, endless = progress.open(1, 5, 5), progress.open(2, 7, None)
    lane.reached(200, 40)
    assert (lane.share, empty.share, endless.share) == (0.5, 1.0, 0.0)
    lane.reached(310, 60)
    assert (lane.share, progress.records) == (1.0, 100)
