"""Kernels as the image has them: compiled for every CPU of its kind, carried elsewhere, found there."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest

from tests.docker.test_files import DOCKERFILE
from tests.flows.test_run import INSTANCES, Flow
from tests.support.flow import Running, sluiceway

START_CPU_SECONDS = 5.0
"""Until a process has learnt its first instance; wall-clock time depends on what else the machine does."""


def image(kernels: Path) -> dict[str, str]:
    """The variables that the image sets for it."""
    given = dict(re.findall(r'(NUMBA_CPU_\w+)="?(\w*)"?', DOCKERFILE))
    assert set(given) == {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"}
    return {**given, "NUMBA_CACHE_DIR": str(kernels)}


@pytest.mark.crash(full=True)
@pytest.mark.timeout(900)
def test_a_flow_begins_with_what_the_image_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built, mounted = tmp_path / "built", tmp_path / "mounted"
    for name, value in image(built).items():
        monkeypatch.setenv(name, value)
    done = sluiceway("warm-up", "ofs", timeout=600)
    assert done.code == 0, done.stderr
    shutil.copytree(built, mounted)  # what the chart's first container does
    before = {path: path.stat().st_mtime_ns for path in mounted.rglob("*.nb?")}
    assert before
    flow = Flow(tmp_path)
    flow.write(input={"stop": None})
    flow.feed(INSTANCES)
    predictions = flow.path("predictions")
    began = time.monotonic()
    with Running(*flow.arguments(), env=image(mounted)) as running:
        running.until(lambda: predictions.exists() and predictions.stat().st_size > 0, 120)
        took, used = time.monotonic() - began, running.cpu_seconds()
        done = running.stop()
    assert done.code == 0, done.stderr
    assert "compiling" not in done.stderr
    assert {path: path.stat().st_mtime_ns for path in mounted.rglob("*.nb?")} == before
    print(f"the first instance was learnt {took:.1f} s after the start, with {used:.1f} s of CPU")
    assert used < START_CPU_SECONDS


@pytest.mark.timeout(900)
def test_a_start_costs_little_once_all_is_compiled(tmp_path: Path) -> None:
    """With this machine's own kernels, as the image's take minutes to compile."""
    assert sluiceway("warm-up", "ofs", timeout=600).code == 0
    flow = Flow(tmp_path)
    flow.write(input={"stop": None})
    flow.feed(INSTANCES)
    predictions = flow.path("predictions")
    with Running(*flow.arguments()) as running:
        running.until(lambda: predictions.exists() and predictions.stat().st_size > 0)
        used = running.cpu_seconds()
        done = running.stop()
    assert done.code == 0, done.stderr
    print(f"the first instance was learnt with {used:.1f} s of CPU")
    assert used < START_CPU_SECONDS
