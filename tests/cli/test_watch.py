"""`sluiceway watch` on directories, as a person and as a program."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from sluiceway.schemas import encode
from tests.cli.calling import Call, Terminal
from tests.support.flow import Running


def snapshot(version: int, *features: str, flow: str = "spam", stream: str = "mail", **changes: Any) -> bytes:
    made = encode.snapshot(
        offset=version,
        flow=flow,
        stream=stream,
        operator="ofs",
        version=version,
        seen=version + 5,
        generation=0,
        ts=1_767_225_600_000,
        reason="interval",
        n_selected=len(features),
        selected=[(name, 2.0 / place, 10 * place) for place, name in enumerate(features, 1)],
        entered=changes.get("entered", []),
        left=changes.get("left", []),
        metrics={"mistakes": changes.get("mistakes", 0), "error_rate": changes.get("mistakes", 0) / version},
        params={"k": 3},
        source={"instances": (0, version)},
    ).value
    assert made is not None
    return made + b"\n"


def topic(path: Path, *partitions: bytes) -> Path:
    path.mkdir()
    for number, content in enumerate(partitions):
        (path / f"part-{number:05d}.jsonl").write_bytes(content)
    (path / "_topic.json").write_text(json.dumps({"partitions": len(partitions)}))
    return path


HISTORY = snapshot(100, "free", "len", mistakes=30) + snapshot(
    200, "free", "prize", mistakes=40, entered=["prize"], left=["len"]
)


def test_once_shows_the_newest(tmp_path: Path, call: Call) -> None:
    made = topic(tmp_path / "t", HISTORY)
    said = call("watch", f"dir:{made}", "--once").stdout.splitlines()
    assert said[0] == "spam/mail  ofs (k=3)"
    assert said[1] == "version 200, seen 205, 2026-01-01 00:00:00Z, interval"
    assert said[2] == "error 20.0 %; 2 selected, 1 entered (+), 1 left (-)"
    rows = [line.split() for line in said[5:]]
    assert [row[0] for row in rows] == ["free", "+", "-"]
    assert rows[0][1:] == ["2.000", "█" * 16, "10"]
    assert rows[1][:3] == ["+", "prize", "1.000"]
    assert rows[2] == ["-", "len", "left"]


def test_once_for_programs(tmp_path: Path, call: Call) -> None:
    made = topic(tmp_path / "t", HISTORY, snapshot(7, "a", stream="news"))
    done = call("watch", f"dir:{made}", "--once", "--json")
    lines = done.stdout.encode().splitlines(keepends=True)
    assert lines == [HISTORY.splitlines(keepends=True)[1], snapshot(7, "a", stream="news")]
    [line] = call("watch", f"dir:{made}", "--once", "--json", "--stream", "news").stdout.splitlines()
    assert json.loads(line)["version"] == 7
    other = call("watch", f"dir:{made}", "--once", "--flow", "other")
    assert (other.code, other.stdout) == (2, "")


def test_many_streams_have_a_row_each(tmp_path: Path, call: Call) -> None:
    many = b"".join(
        snapshot(1_000_000 + at, "free", "prize", stream=f"s-{at}", mistakes=99, entered=["free"]) for at in range(3)
    )
    said = call("watch", f"dir:{topic(tmp_path / 't', many)}", "--once").stdout.splitlines()
    assert said[0].rstrip() == "flow spam"
    assert said[1].split() == ["stream", "version", "error", "lately", "n", "+in", "-out", "top"]
    assert said[3].split() == ["s-0", "1,000,000", "0.0", "%", "-", "2", "+free", "free,", "prize"]
    assert len(said) == 6
    assert max(map(len, said)) <= 80


@pytest.mark.parametrize("flows", [1, 2])
def test_long_names_can_be_told_apart(tmp_path: Path, call: Call, flows: int) -> None:
    """Names that begin alike differ at their ends; a wide character takes two columns."""
    names = [
        (f"recommendations-of-europe-{('west', 'east')[at % flows]}", f"customer-segment-語-{at // flows:03d}")
        for at in range(6)
    ]
    content = b"".join(snapshot(1_000_000, *"abcdefghijkl", flow=flow, stream=stream) for flow, stream in names)
    said = call("watch", f"dir:{topic(tmp_path / 't', content)}", "--once").stdout.splitlines()
    assert max(map(cell_len, said)) <= 80
    rows = said[-6:]
    assert len({row.partition("1,000,000")[0] for row in rows}) == 6
    assert said[-8].rstrip().endswith("+in -out top")  # no heading is cut


def test_lines_and_json_where_there_is_no_terminal(tmp_path: Path) -> None:
    made = topic(tmp_path / "t", HISTORY)
    with Running("watch", f"dir:{made}", "--start", "beginning") as running:
        part = made / "part-00000.jsonl"
        running.until(lambda: running.stdout.count("\n") == 2)
        with part.open("ab") as more:
            more.write(snapshot(300, "free"))
        running.until(lambda: running.stdout.count("\n") == 3)
        running.send(signal.SIGINT)
        done = running.wait()
    assert done.code == 0
    assert done.stdout.splitlines() == [
        "spam/mail  version 100  2 selected  error 30.0 %",
        "spam/mail  version 200  2 selected  error 20.0 % (lately 10.0 %)  +prize -len",
        "spam/mail  version 300  1 selected  error 0.0 % (lately -40.0 %)",
    ]
    assert done.stderr == ""


def test_on_a_terminal_the_table_follows(tmp_path: Path) -> None:
    made = topic(tmp_path / "t", b"")
    with (
        Terminal("watch", f"dir:{made}", cwd=tmp_path, env={"NO_COLOR": "1"}) as terminal,
        (made / "part-00000.jsonl").open("ab", buffering=0) as more,
    ):
        terminal.until("waiting for a snapshot in")
        more.write(HISTORY)
        terminal.until("version 200")
        terminal.until("error 20.0 %, lately 10.0 %; 2 selected, 1 entered (+), 1 left (-)")
        more.write(snapshot(7, "a", stream="news"))
        terminal.until("flow spam")
        terminal.interrupt()
        assert terminal.wait() == 0
        assert not terminal.coloured
        assert "Traceback" not in terminal.text


def test_a_long_selection_is_cut_to_the_screen(tmp_path: Path) -> None:
    names = [f"feature-with-a-rather-long-name-{at}-" + "x" * 60 for at in range(100)]
    made = topic(tmp_path / "t", snapshot(5, *names, left=["gone"], entered=names[:1]))
    with Terminal("watch", f"dir:{made}", cwd=tmp_path) as terminal:
        terminal.until("... and ")
        terminal.interrupt()
        terminal.wait()
        assert terminal.coloured
        lines = list(filter(None, terminal.text.splitlines()))
        assert max(map(len, lines)) <= 80
        shown = lines[max(at for at, line in enumerate(lines) if line.startswith("spam/mail")) :]
        assert len(shown) <= 24
        assert shown[-1].split() == ["...", "and", str(100 - len(shown) + 7), "more"]
        assert shown[-2].split() == ["-", "gone", "left"]


def test_a_topic_of_something_else(demo: Path, call: Call) -> None:
    for name in ("predictions", "instances"):
        done = call("watch", f"dir:{demo / name}", "--once")
        assert (done.code, done.stderr.count("\n")) == (2, 1)
        assert "is it a selections topic?" in done.sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--start", "99999999"], "start 99999999 lies beyond the end of"),
        (["--start", "5"], "start 5 is not where a line of"),
        (["--start", "nonsense"], "'nonsense' is no position in a topic"),
        (["--once", "--start", "nonsense"], "--once shows what is current: it does not go with --start nonsense"),
    ],
)
def test_a_start_that_cannot_be(tmp_path: Path, call: Call, arguments: list[str], sentence: str) -> None:
    done = call("watch", f"dir:{topic(tmp_path / 't', HISTORY)}", *arguments)
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert sentence in done.sentence


def test_a_file_is_no_topic(tmp_path: Path, call: Call) -> None:
    file = topic(tmp_path / "t", HISTORY) / "part-00000.jsonl"
    done = call("watch", f"dir:{file}")
    assert (done.code, done.sentence) == (2, f"dir:{file} is a file; a topic is the directory that holds _topic.json")
