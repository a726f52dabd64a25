"""Compiled ahead: a flow that runs after it needs no kernel that was not made ready."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.flows.warm_up import flows_of
from sluiceway.operators.registry import OPERATORS

ROOT = Path(__file__).parents[2]
SCRIPT = """
import gc, sys
from numba.core.registry import CPUDispatcher
from benchmarks.start import use_once
from sluiceway.flows.warm_up import warm_up

def ready():
    kernels = (each for each in gc.get_objects() if isinstance(each, CPUDispatcher))
    return {each.py_func.__qualname__ for each in kernels if each.signatures}

warm_up(sys.argv[1])
before = ready()
use_once(sys.argv[1])
print(sorted(ready() - before))
"""


@pytest.mark.parametrize("operator", ["perceptron-truncated", "pa", "saola", "saola-stream"])
def test_nothing_is_left_to_compile(operator: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, operator], cwd=ROOT, capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_has_flows_to_be_compiled_for(operator: str) -> None:
    flows = list(flows_of(operator))
    assert any(settings.plan.record_map is not None for settings in flows)
    assert {settings.source_role for settings in flows} >= {OPERATORS[operator].kind.reads}
    if OPERATORS[operator].kind.reads == "features":
        assert any(settings.window is not None for settings in flows)
    if OPERATORS[operator].kind.follows_scale:
        assert {settings.scale for settings in flows} == {"l2", "standard"}
