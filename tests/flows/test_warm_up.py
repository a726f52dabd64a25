"""Compiled ahead: a flow that runs after it needs no kernel that was not made ready."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluiceway.flows.warm_up import flows_of
from sluiceway.operators.registry import OPERATORS
from tests.support.flow import toml

ROOT = Path(__file__).parents[2]
SCRIPT = """
import gc, sys
from numba.core.registry import CPUDispatcher
from sluiceway.flows.warm_up import warm_up

def ready():
    kernels = (each for each in gc.get_objects() if isinstance(each, CPUDispatcher))
    return {each.py_func.__qualname__ for each in kernels if each.signatures}

warm_up(sys.argv[1])
before = ready()
"""
LEFT = """
print(sorted(ready() - before))
"""
USE = """
from benchmarks.start import use_once
use_once(sys.argv[1])
"""
COMMAND = """
import os
from sluiceway.cli import main
os._exit = sys.exit
sys.argv = ["sluiceway", *sys.argv[2:]]
try:
    main()
except SystemExit as ended:
    assert not ended.code
"""


def left(use: str, *arguments: str | Path) -> str:
    """The kernels that were compiled, or read from where they are kept, after all had been made ready."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + use + LEFT, *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("operator", ["perceptron-truncated", "pa", "saola", "saola-stream", "etana"])
def test_nothing_is_left_to_compile(operator: str) -> None:
    assert left(USE, operator) == "[]"


@pytest.mark.timeout(900)
def test_nothing_is_left_to_compile_for_what_goes_with_a_flow(tmp_path: Path) -> None:
    """`join`, `run` of what it gives, and `apply`."""
    file = tmp_path / "flow.toml"
    roles = ("instances", "labels", "selections", "dead_letters", "applied", "labelled")
    content: dict[str, dict[str, Any]] = {
        "flow": {"name": "f"},
        "topics": {role: f"dir:{role}" for role in roles},
        "input": {"stop": "end"},
        "operator": {"name": "ofs", "k": 2},
        "emit": {"every": 5},
    }
    file.write_text(toml(content))
    instances = [{"stream": "s", "id": str(at), "x": {"a": at, "b": 1}, "y": at % 2} for at in range(30)]
    labels = [{"stream": "s", "id": each["id"], "y": 1} for each in instances]
    for role, records in (("instances", instances), ("labels", labels)):
        place = tmp_path / role
        place.mkdir()
        (place / "_topic.json").write_text('{"partitions": 1}')
        (place / "part-00000.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    for verb in ("join", "run", "apply"):
        assert left(COMMAND, "ofs", verb, file) == "[]", verb
    assert all((tmp_path / role / "part-00000.jsonl").stat().st_size for role in ("applied", "labelled"))


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_has_flows_to_be_compiled_for(operator: str) -> None:
    flows = list(flows_of(operator))
    assert any(settings.plan.record_map is not None for settings in flows)
    assert {settings.source_role for settings in flows} >= {OPERATORS[operator].kind.reads}
    if OPERATORS[operator].kind.reads == "features":
        assert any(settings.window is not None for settings in flows)
    if OPERATORS[operator].kind.follows_scale:
        assert {settings.scale for settings in flows} == {"l2", "standard"}
