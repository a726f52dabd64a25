"""Kernels of all operators in one process, as a backtest has them: none is looked for again once it has been called.

Numba tells arguments apart by their types, but finds a kernel quickly by a short description of them, in which a named
tuple is its class's name and those of its fields. Two that differ by their modules alone take the slow way at every
call, which costs more than most calls do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from numba.core.registry import CPUDispatcher

from sluiceway.operators import registry
from sluiceway.operators.kinds.joint import JOINT
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import RawPoll
from tests.joint.test_stream import CLASSES, plan_of
from tests.operators.streams import batch_of, budget, stream
from tests.stages.lanes import STEP, config, message, new_lane, poll


@pytest.fixture
def looked_for(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each kernel was looked for the slow way since the last `clear`."""
    found: Counter[str] = Counter()
    slow_way = CPUDispatcher._compile_for_args

    def counted(kernel: Any, *arguments: Any, **named: Any) -> Any:
        found[kernel.py_func.__qualname__] += 1
        return slow_way(kernel, *arguments, **named)

    monkeypatch.setattr(CPUDispatcher, "_compile_for_args", counted)
    return found


def learners() -> list[str]:
    return [name for name, entry in registry.OPERATORS.items() if entry.kind is LEARNER]


def poll_of(number: int, labels: Sequence[Any]) -> RawPoll:
    records = [{"x": {"a": row + 1, "b": 1}, "y": labels[row % len(labels)]} for row in range(20)]
    return poll([message("s", record) for record in records], number * len(records) * STEP)


def test_of_models(looked_for: Counter[str]) -> None:
    batch = batch_of(stream("dense", 3))
    models = [registry.learner(name)(**budget(registry.get(name).cls, 3)) for name in learners()]
    for model in models:
        model.prequential(batch)
    looked_for.clear()
    for model in models:
        model.prequential(batch)
    assert not looked_for


def test_of_lanes(looked_for: Counter[str]) -> None:
    lanes = [new_lane(config(name)) for name in learners()]
    for number in range(2):
        looked_for.clear()
        for lane in lanes:
            lane.process(Decoder(8).decode(poll_of(number, [0, 1])))
    assert not looked_for


def test_of_joint_operators(looked_for: Counter[str]) -> None:
    plans = [plan_of(name, {}) for name, entry in registry.OPERATORS.items() if entry.kind is JOINT]
    lanes = [new_lane(JOINT.streams(plan)) for plan in plans]
    decoder = JOINT.decoder(plans[0], 8, "key")
    for number in range(4):
        looked_for.clear()
        for lane in lanes:
            lane.process(decoder.decode(poll_of(number, CLASSES)))
    assert not looked_for
