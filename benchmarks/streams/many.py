"""What an instance costs as streams grow in number, and what memory a stream takes.

Each record is of a stream chosen at random; every stream has been there before. Each number of streams has a process of
its own, and they take turns. Without the largest on a machine that is too small for them: SLUICEWAY_BENCH_STREAMS is
the most there are. Run with `python -m benchmarks streams.many`.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.measure import Result, Row, median
from benchmarks.streams.lane import (
    FEATURES,
    KEPT,
    PRESENT,
    RECORDS,
    Cycle,
    MemoryLane,
    feed,
    key,
    learners,
    microseconds,
    numbered,
    operator,
    resident,
    values,
)
from benchmarks.turns import take_turns
from sluiceway.flows.settings import FlowSection
from sluiceway.schemas.lane import RawPoll

STREAMS = (1, 100, 1_000, 10_000, 100_000, 1_000_000)
AT_MOST = {1_000: 1.7, 100_000: 2.5, 1_000_000: 3.0}
"""Times the cost with one stream."""
AT_MOST_OTHERS = 3.0
WARM_RECORDS, VISITS = 20_000, 2
MEASURABLE = 10_000
"""Streams from which on their memory can be told from noise."""
ROUNDS = 9
MEMORY = "64MB"


class Visiting:
    """A lane of many streams; a turn visits some at random."""

    def __init__(self, operator: Mapping[str, Any], streams: int, memory: str | None = None) -> None:
        self._values = Cycle(values(numbered(FEATURES)))
        self._rng = np.random.default_rng(11)
        feed(MemoryLane(operator), range(3 * RECORDS), self._values)  # compiles, and fills what Python keeps for itself
        gc.collect()
        before = resident()
        flow = {} if memory is None else {"memory": memory}
        self._lane, self._streams = MemoryLane(operator, None, flow=flow, emit={"every": 0}), streams
        for _ in range(max(VISITS, WARM_RECORDS // streams)):
            feed(self._lane, self._rng.permutation(streams).tolist(), self._values)
        gc.collect()
        self.about = {"bytes": (resident() - before) / streams, "MB": resident() / 1e6}

    def turn(self) -> float:
        return microseconds(self._lane, self._polls())

    def _polls(self) -> Iterator[RawPoll]:
        while True:
            keys = [key(stream) for stream in self._rng.integers(0, self._streams, RECORDS).tolist()]
            yield self._lane.poll(keys, self._values.take(RECORDS))


def main(most: int | None = None) -> list[Result]:
    most = int(os.environ.get("SLUICEWAY_BENCH_STREAMS", STREAMS[-1])) if most is None else most
    return [_by_streams(most), _every_learner()]


def _by_streams(most: int) -> Result:
    sizes = [streams for streams in STREAMS if streams <= most]
    works: dict[str, tuple[Any, ...]] = {f"{size:,}": (Visiting, operator("ofs"), size) for size in sizes}
    if most == STREAMS[-1] and "memory" in FlowSection.model_fields:
        works[f"{most:,}, memory = {MEMORY}"] = (Visiting, operator("ofs"), most, MEMORY)
    costs = take_turns(works, ROUNDS)
    result = Result(f"Streams: ofs, {PRESENT} features of {FEATURES} names, k = {KEPT}, decode and learn")
    for name, size in zip(works, [*sizes, most], strict=False):
        ratio = median([cost / one for cost, one in zip(costs[name], costs["1"], strict=True)])
        bound = AT_MOST.get(size) if name == f"{size:,}" else None
        row: Row = {"streams": name, "CPU µs an instance": median(costs[name]), "against one stream": ratio}
        row |= {"target": "" if bound is None else f"at most {bound}"}
        row |= {"met": "" if bound is None else "yes" if ratio <= bound else "NO"}
        row |= {"bytes a stream": costs.about[name]["bytes"] if size >= MEASURABLE else ""}
        row |= {"MB in use": costs.about[name]["MB"]}
        result.rows.append(row)
    return result


def _every_learner() -> Result:
    result = Result(f"Every learner with 1,000 streams: {PRESENT} features of {FEATURES} names, decode and learn")
    for name in learners():
        costs = take_turns({"1": (Visiting, operator(name), 1), "1,000": (Visiting, operator(name), 1_000)}, ROUNDS)
        ratio = median([many / one for one, many in zip(costs["1"], costs["1,000"], strict=True)])
        result.rows.append(
            {
                "learner": name,
                "CPU µs an instance, one stream": median(costs["1"]),
                "1,000 streams": median(costs["1,000"]),
                "against one stream": ratio,
                f"at most {AT_MOST_OTHERS:g}": "yes" if ratio <= AT_MOST_OTHERS else "NO",
            }
        )
    return result
