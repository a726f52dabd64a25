"""A clock that is set back while a flow waits for input."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from tests.crash.nursery import faketime, moved_by
from tests.support.flow import Running, sluiceway

FLOW = """
[flow]
name = "idle"
[topics]
instances = "dir:instances"
selections = "dir:selections"
dead_letters = "dir:dead-letters"
[operator]
name = "ofs"
k = 1
[emit]
every = 1
"""
RECORD = '{{"stream":"one","id":"{0}","x":{{"a":1}},"y":1}}\n'
HOUR = 3600.0


def test_what_comes_after_a_clock_was_set_back_is_read_at_once(tmp_path: Path) -> None:
    if faketime() is None:
        missing = "libfaketime is not installed (Debian: libfaketime)"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)
    flow, clock = tmp_path / "flow.toml", tmp_path / "clock"
    flow.write_text(FLOW)
    clock.write_text("+0")
    _produce(tmp_path, 1)
    written = tmp_path / "selections" / "part-00000.jsonl"
    with Running("run", flow, "--checkpoint-every", "0.1", cwd=tmp_path, env=moved_by(clock)) as running:
        running.until(partial(_has_lines, written, 1))
        for number in range(2, 6):  # the flow has looked for more in vain many times, and looks again
            clock.write_text(f"-{HOUR * number:.0f}s")
            _produce(tmp_path, number)
            running.until(partial(_has_lines, written, number), 60.0)
        assert running.stop().code == 0


def _produce(folder: Path, number: int) -> None:
    record = folder / "record.jsonl"
    record.write_text(RECORD.format(number))
    assert sluiceway("produce", record, "dir:instances", "--partitions", "1", cwd=folder).code == 0


def _has_lines(file: Path, number: int) -> bool:
    return file.exists() and file.read_text().count("\n") == number
