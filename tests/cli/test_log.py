"""What a run says on standard error where nobody looks on: a log."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.fixture
def handlers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    root.handlers[:] = before
    log._format = None


THE_CLIENT_S = (
    (logging.WARNING, "CONFWARN [rdkafka#producer-1] [thrd:app]: Configuration property x is ignored"),
    (logging.ERROR, "FAIL [sluiceway#consumer-3] [thrd:127.0.0.1:9/bootstrap]: Connect failed"),
)


def tell_both(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    """What is written of the client's own lines and a sentence of ours, by a command that runs until it is stopped."""
    written = io.StringIO()
    monkeypatch.setattr(written, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", written)
    log.begin(log.LogFormat.TEXT)
    log_lines()
    return written.getvalue()


def log_lines() -> None:
    for level, message in (*THE_CLIENT_S, (logging.WARNING, "a sentence")):
        logging.getLogger("sluiceway.kafka").log(level, "%s", message)


@pytest.mark.usefixtures("handlers_as_before")
def test_the_client_s_own_lines_are_for_the_log_and_not_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    logged = tell_both(monkeypatch, terminal=False).splitlines()
    assert [line.partition(" ")[2] for line in logged] == [
        f"WARNING sluiceway.kafka: {THE_CLIENT_S[0][1]}",
        f"ERROR   sluiceway.kafka: {THE_CLIENT_S[1][1]}",
        "WARNING sluiceway.kafka: a sentence",
    ]
    assert tell_both(monkeypatch, terminal=True) == "sluiceway: sluiceway.kafka: a sentence\n"
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    log.begin(log.LogFormat.JSON)
    log_lines()
    assert [json.loads(line)["level"] for line in written.getvalue().splitlines()] == ["warning", "error", "warning"]
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    log.tell_warnings()
    log_lines()
    assert written.getvalue() == "sluiceway: sluiceway.kafka: a sentence\n"


def test_a_command_does_not_speak_like_the_one_before(tmp_path: Path, call: Call) -> None:
    (tmp_path / "flow.toml").write_text("")
    (tmp_path / "mail.jsonl").write_text('{"x": {"a": 1}}\n')
    assert call("run", tmp_path / "flow.toml", "--log-format", "json").code == 2
    done = call("produce", tmp_path / "mail.jsonl", f"dir:{tmp_path}/topic")
    assert done.stderr == f"1 record to dir:{tmp_path}/topic (1 partition)\n"
