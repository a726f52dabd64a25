"""How `sluiceway serve` begins and ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.snapshots import directory_topic
from tests.serve.serving import serving
from tests.support.flow import Running, sluiceway


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_also_while_somebody_looks(topic: str, number: signal.Signals) -> None:
    with serving(topic) as served:
        looking = served.events()
        next(looking)
        served.process.send(number)
        done = served.process.wait(20)
        assert done.code == 0, done.stderr
        assert done.stderr.splitlines()[-1].endswith("stopped")
        assert len(done.stderr.splitlines()) == 2, done.stderr
        assert {name for name, _ in looking} <= {"status"}


def test_an_address_that_is_taken(topic: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = sluiceway("serve", topic, "--listen", address)
    assert (done.code, done.stdout) == (2, "")
    assert done.sentence == f"--listen {address}: nothing can listen there: Address already in use"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("dir:nowhere",), "nowhere/_topic.json does not exist"),
        (("nowhere",), "'nowhere' is no topic"),
        (("dir:t", "--listen", "9465"), "--listen takes HOST:PORT"),
        (("dir:t", "--host", "http://x"), "--host takes a name"),
        (("dir:t", "--token-file", "none"), "--token-file none cannot be read: No such file or directory"),
        (("dir:t", "--token-file", "empty"), "the token in empty must be"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    (tmp_path / "empty").touch()
    done = sluiceway("serve", *arguments, cwd=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert sentence in done.sentence
    assert "Traceback" not in done.stderr


def test_whoever_can_be_reached_by_all_is_told_so(topic: str) -> None:
    with serving(topic) as local, serving(topic, "--listen", "0.0.0.0:0") as open_to_all:
        assert "can read all selections" not in local.process.stderr
        assert "whoever reaches this address can read all selections" in open_to_all.process.stderr
        port = open_to_all.url.rpartition(":")[2]
        open_to_all.url = f"http://127.0.0.1:{port}"
        assert open_to_all.ask("/v1/selections", {"Host": "any.example"}).status == 200


def test_something_else_than_selections_ends_it_with_a_sentence(tmp_path: Path) -> None:
    url = directory_topic(tmp_path / "t", [b'{"flow": "f", "stream": "s"}'])
    with Running("serve", url, "--listen", "127.0.0.1:0") as process:
        done = process.wait(30)
    assert done.code == 2
    assert "is it a selections topic?" in done.sentence


@pytest.mark.parametrize(
    ("absent", "sentence"),
    [
        (("starlette",), "serve needs starlette and uvicorn: pip install 'sluiceway[serve]'"),
        (("bytewax", "numba", "scipy", "prometheus_client"), "there is no topic dir:"),
    ],
    ids=["its libraries", "the engine"],
)
def test_what_it_needs_and_what_it_does_not(tmp_path: Path, absent: tuple[str, ...], sentence: str) -> None:
    code = (
        f"import sys\nfor name in {absent}: sys.modules[name] = None\n"
        "sys.argv = ['sluiceway', 'serve', 'dir:x', '--listen', '127.0.0.1:0']\n"
        "from sluiceway.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"sluiceway: {sentence}")
