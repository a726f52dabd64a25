"""What a run says on standard error where nobody looks on: a log."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

from sluiceway.cli import log
from tests.cli.calling import Call
from tests.flows.test_run import INSTANCES, Flow
from tests.support.flow import sluiceway

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) +\S.*")


def test_a_line_an_event_with_time_and_level(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.feed(INSTANCES, partitions=2)
    done = sluiceway("run", flow.file)
    assert done.code == 0
    lines = done.stderr.splitlines()
    assert all(map(LINE.fullmatch, lines)), done.stderr
    opened = sorted(line.partition("sluiceway.lane: ")[2] for line in lines if " is open at " in line)
    assert [re.sub(r"[\d.]+ s$", "... s", line) for line in opened] == [
        f"lane {lane} is open at 0 with 0 streams; it took ... s" for lane in (0, 1)
    ]


def test_json_down_to_the_last_line(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.feed(INSTANCES)
    done = sluiceway("run", flow.file, "--log-format", "json")
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert {frozenset(event) for event in events} == {frozenset({"time", "level", "logger", "message"})}
    assert events[-1]["message"].startswith("f: the input has ended; 40 records in ")
    flow.file.write_text("")
    refused = sluiceway("run", flow.file, "--log-format", "json")
    [last] = map(json.loads, refused.stderr.splitlines())
    assert (refused.code, last["level"]) == (2, "critical")
    assert "setting" in last["message"]


def test_fields_and_tracebacks_in_both_forms() -> None:
    record = logging.LogRecord("sluiceway.flow", logging.INFO, "", 0, "%s records\nmore", (3,), None)
    record.created, record.msecs, record.fields = 0.0, 7.0, {"lag": 4}
    head = "1970-01-01T00:00:00.007Z INFO    sluiceway.flow: "
    assert log._Text().format(record) == f"{head}3 records\n{head}more"
    assert json.loads(log._Json().format(record)) == {
        "time": "1970-01-01T00:00:00.007Z",
        "level": "info",
        "logger": "sluiceway.flow",
        "message": "3 records\nmore",
        "lag": 4,
    }


def test_a_command_does_not_speak_like_the_one_before(tmp_path: Path, call: Call) -> None:
    (tmp_path / "flow.toml").write_text("")
    (tmp_path / "mail.jsonl").write_text('{"x": {"a": 1}}\n')
    assert call("run", tmp_path / "flow.toml", "--log-format", "json").code == 2
    done = call("produce", tmp_path / "mail.jsonl", f"dir:{tmp_path}/topic")
    assert done.stderr == f"1 record to dir:{tmp_path}/topic (1 partition)\n"
