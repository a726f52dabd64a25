"""Whether a flow says that it is alive while one of its lanes hangs: a real process, a call that does not end soon."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.harness import Child, Flow, How
from tests.crash.worlds import CARRIES, write_all, write_settings

LIMIT, HANGS = 10.0, 27.0
LOOKS = 6.0
"""Seconds by which it may be later: two looks."""
BUSY = 5.0
"""And a machine with other things to do."""


def asked(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def until(child: Child, condition: Callable[[], bool], seconds: float) -> None:
    child.wait_until(condition, "what is waited for", seconds)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("synced:9", r"lane \d has stood still for \d+ s at \d+, with \d+ to go"),
        ("opened:1", r"lane \d is being opened, without a sign of life for \d+ s"),
    ],
)
def test_a_lane_that_hangs_makes_it_red(tmp_path: Path, place: str, sentence: str) -> None:
    file, outputs = tmp_path / "flow.toml", {name: str(tmp_path / name) for name in CARRIES}
    topics = {"instances": write_all(tmp_path / "instances", 2500)}
    write_settings(file, "hanging", topics | {name: f"dir:{path}" for name, path in outputs.items()})
    options = ("--listen", "127.0.0.1:0", "--unhealthy-after", f"{LIMIT:g}")
    flow = Flow(file, "hanging", "health", outputs, options=options)
    child = flow.start(How(die=place, how="stall", stall_seconds=HANGS, pace=1))
    try:
        child.wait_for("placed", timeout=300)
        began = time.monotonic()
        found = re.search(r"metrics and health are at (http://\S+)", child.stderr)
        assert found is not None
        url = found[1]
        assert asked(url)[0] == 200
        until(child, lambda: asked(url)[0] == 503, LIMIT + LOOKS + BUSY)
        assert re.search(sentence, asked(url)[1])
        until(child, lambda: asked(url)[0] == 200, began + HANGS + LOOKS + BUSY - time.monotonic())
    finally:
        flow.kill_all()
