"""What a touched stream costs when a lane commits, and what it costs to wake one that was restored.

A commit: the states of all streams touched since the last one, as bytes for the store. Waking: decoding and learning
from one record for each of the restored streams, less the same where they are awake.
Run with `python -m benchmarks streams.commits`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from benchmarks.measure import Result, cpu_seconds, cpu_seconds_of, median
from benchmarks.streams.lane import (
    FEATURES,
    KEPT,
    PRESENT,
    Cycle,
    MemoryLane,
    feed,
    learners,
    numbered,
    operator,
    stored,
    values,
)

STREAMS, VISITS, ROUNDS = 10_000, 3, 7
AT_MOST = 3.0
LIMITED = ("ofs", "perceptron-truncated")
"""Learners whose state k limits."""

T = TypeVar("T")


def main(streams: int = STREAMS) -> list[Result]:
    result = Result(f"Commits: {streams:,} streams touched, {PRESENT} features of {FEATURES} names, k = {KEPT}")
    for name in learners():
        touched, waking, restoring, size = _measured(name, streams)
        result.rows.append(
            {
                "learner": name,
                "CPU µs a touched stream": touched,
                "µs to wake one": waking,
                "µs to restore one asleep": restoring,
                "bytes of a state": size,
                "µs a KB, both": (touched + waking) / size * 1000,
                f"at most {AT_MOST:g} µs": _verdict(name, max(touched, waking)),
            }
        )
    result.notes.append(
        f"the target is for models that are their {KEPT} features; the others keep every feature they have met, which"
        " k does not limit: what they cost follows the bytes"
    )
    return [result]


def _verdict(name: str, microseconds: float) -> str:
    if name not in LIMITED:
        return ""
    return "yes" if microseconds <= AT_MOST else "NO"


def _measured(name: str, streams: int) -> tuple[float, float, float, float]:
    """Medians, by stream: packing, waking, restoring; and the bytes."""
    given, awake = Cycle(values(numbered(FEATURES))), MemoryLane(operator(name))
    order = np.random.default_rng(3)
    for _ in range(VISITS):
        feed(awake, order.permutation(streams).tolist(), given)
    awake.changes()
    packing, waking, restoring, size = [], [], [], 0.0
    for _ in range(ROUNDS):
        visited = order.permutation(streams).tolist()
        usual = cpu_seconds_of(partial(feed, awake, visited, given))
        seconds, changes = _timed(awake.changes)
        packing.append(seconds)
        assert len(changes) == streams
        size = sum(change.size for change in changes) / streams
        seconds, woken_up = _timed(partial(MemoryLane, operator(name), stored(changes)))
        restoring.append(seconds)
        waking.append(cpu_seconds_of(partial(feed, woken_up, visited, given)) - usual)
    packed, woken, restored = (median(seconds) * 1e6 / streams for seconds in (packing, waking, restoring))
    return packed, woken, restored, size


def _timed(run: Callable[[], T]) -> tuple[float, T]:
    start = cpu_seconds()
    given = run()
    return cpu_seconds() - start, given
