"""What a newcomer stumbled over, each a test."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import SettingsError, UnreachableError
from sluiceway.flows.settings import Settings
from sluiceway.topics import kafka
from sluiceway.topics.client_settings import FILE, from_environment
from sluiceway.topics.directory import create_directory_topic
from sluiceway.topics.feeds import open_feed
from sluiceway.topics.url import DirectoryTopic
from tests.cli.calling import Call
from tests.cli.test_watch import snapshot
from tests.support.flow import Running, toml

FLOW: dict[str, dict[str, Any]] = {
    "flow": {"name": "f"},
    "topics": {"instances": "dir:in", "selections": "dir:out", "dead_letters": "dir:dead"},
    "operator": {"name": "ofs", "k": 1},
}


@pytest.mark.parametrize(("job", "drawn"), [("wait_for", True), ("wait_for &", False)])
def test_a_job_in_the_background_draws_nothing(tmp_path: Path, job: str, drawn: bool) -> None:
    """On a terminal with a shell that controls its jobs."""
    code = (
        "import sys, time; from rich.text import Text\n"
        "from sluiceway.cli.screen import Drawing, console, may_draw\n"
        "screen = console(stderr=True)\n"
        "print('told', flush=True)\n"
        "if may_draw(screen):\n"
        "    with Drawing(get_renderable=lambda: Text('drawn'), console=screen): time.sleep(0.5)\n"
    )
    (tmp_path / "job.py").write_text(code)
    said = on_a_terminal(f"wait_for() {{ {sys.executable} {tmp_path}/job.py; }}; {job}")
    assert b"told" in said
    assert (b"drawn" in said) == drawn
    assert (b"\x1b[?25l" in said) == drawn, "the cursor"


@pytest.mark.parametrize("job", ["run flow.toml", "demo --instances 10000"])
def test_a_command_in_the_background_says_lines_and_draws_nothing(tmp_path: Path, job: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "_topic.json").write_text('{"partitions": 1}')
    (tmp_path / "in" / "part-00000.jsonl").write_text('{"x": {"a": 1}, "y": 1}\n' * 20_000)
    (tmp_path / "flow.toml").write_text(toml({**FLOW, "input": {"stop": "end"}}))
    command = f"{sys.executable} -m sluiceway {job}"
    for ending, drawn in (("", True), (" &", False)):
        said = on_a_terminal(f"cd {tmp_path}; rm -rf out* dead*; {command}{ending}")
        assert (b"the input has ended" in said) or (b"telling words selected" in said), said.decode()
        assert (b"\x1b[?25l" in said) == drawn, said.decode()


def on_a_terminal(script: str) -> bytes:
    """What a shell that controls its jobs shows until they have ended."""
    script = f"set -m; {script}\nwait\n"
    child, terminal = pty.fork()
    if child == 0:
        os.execvp("bash", ["bash", "-c", script])
    said = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            chunk = os.read(terminal, 65_536)
        except OSError:
            break
        if not chunk:
            break
        said += chunk
    os.waitpid(child, 0)
    os.close(terminal)
    return said


@pytest.mark.parametrize(
    ("address", "cause"),
    [("127.0.0.1:9", "the connection is refused"), ("nosuch.invalid:9092", "the host is not known")],
)
def test_why_no_broker_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, address: str, cause: str
) -> None:
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(kafka, "LISTEN_SECONDS", 0.5)
    with pytest.raises(UnreachableError, match=f"no Kafka broker answers at {address} within 1 s: {cause}"):
        kafka.describe_topics(address, {}, ["t"])
    with pytest.raises(UnreachableError, match=f"no Kafka broker answers at {address} within 1 s: {cause}"):
        open_feed(f"kafka://{address}/t", "beginning", "end")
    first, second = (record.getMessage() for record in caplog.records)
    assert first == second, "said once while it waits, and nothing of the client's own"
    assert first.startswith(f"no answer from {address} yet: {cause}")


@pytest.mark.parametrize("settings", [{}, {"security.protocol": "SSL"}], ids=["plain", "tls"])
def test_an_http_server_is_no_broker(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    """However long it is waited for: so that is said at once."""
    monkeypatch.setattr(kafka, "LISTEN_SECONDS", 0.5)
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address = f"127.0.0.1:{server.stdout.readline().split('port ')[1].split()[0]}"
        try:
            with pytest.raises(UnreachableError) as refused:
                kafka.describe_topics(address, settings, ["t"])
        finally:
            server.kill()
    said = f"no Kafka broker answers at {address}: an HTTP server answers there, which is no Kafka broker"
    assert str(refused.value) == said


def test_a_file_of_client_settings_is_for_all_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# of the platform team\nbootstrap.servers=b:9092\nsecurity.protocol = SASL_SSL\n\nsasl.password=${SECRET}\n"
    )
    monkeypatch.setenv(FILE, str(file))
    monkeypatch.setenv("SECRET", "s=1")
    assert from_environment() == {"security.protocol": "SASL_SSL", "sasl.password": "s=1"}
    parsed = Settings.parse({**FLOW, "kafka": {"security.protocol": "SSL"}})
    assert parsed.kafka == {"security.protocol": "SSL", "sasl.password": "s=1"}, "the flow's file has the last word"
    file.write_text("nonsense\n")
    with pytest.raises(SettingsError, match="line 1: a setting is written NAME=VALUE"):
        from_environment()
    monkeypatch.setenv(FILE, str(tmp_path / "nosuch"))
    with pytest.raises(SettingsError, match=r"SLUICEWAY_KAFKA names the file .*nosuch, which cannot be read"):
        from_environment()


def test_a_stream_that_is_not_there_is_a_mistake(tmp_path: Path, call: Call) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_topic.json").write_text('{"partitions": 1}')
    (tmp_path / "out" / "part-00000.jsonl").touch()
    done = call("watch", f"dir:{tmp_path}/out", "--once", "--stream", "nosuch")
    assert (done.code, done.sentence) == (2, "there is no snapshot of stream 'nosuch'; there are none at all")
    assert call("watch", f"dir:{tmp_path}/out", "--once").code == 0


def test_check_says_how_long(tmp_path: Path, call: Call) -> None:
    (tmp_path / "flow.toml").write_text(toml(FLOW))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "_topic.json").write_text('{"partitions": 1}')
    (tmp_path / "in" / "part-00000.jsonl").touch()
    assert "from beginning on, scale l2" in call("check", tmp_path / "flow.toml").stdout


def test_watch_says_that_it_waits_and_for_what(tmp_path: Path) -> None:
    create_directory_topic(DirectoryTopic(tmp_path / "out"), 1)
    part = tmp_path / "out" / "part-00000.jsonl"
    part.write_bytes(snapshot(5, "a"))
    with Running("watch", f"dir:{tmp_path}/out", "--stream", "mial") as running:
        said = "there is no snapshot of stream 'mial'; did you mean 'mail'?; waiting for one (Ctrl-C ends it)"
        running.until(lambda: said in running.stderr)
        with part.open("ab") as file:
            file.write(snapshot(6, "a", stream="mial"))
        running.until(lambda: "mial" in running.stdout)
