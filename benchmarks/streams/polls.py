"""What an instance costs in small and in large polls, one stream. Run with `python -m benchmarks streams.polls`."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Result, median
from benchmarks.streams.lane import FEATURES, KEPT, PRESENT, Cycle, MemoryLane, microseconds, numbered, operator, values
from benchmarks.turns import take_turns
from sluiceway.schemas.lane import RawPoll

SIZES = (1, 3, 10, 100, 1_000, 10_000)
ROUNDS = 9


class OneStream:
    """A lane of one stream; a turn brings polls of one size."""

    about: dict[str, float]

    def __init__(self, records: int) -> None:
        self.about = {}
        self._values = Cycle(values(numbered(FEATURES)))
        self._lane, self._records = MemoryLane(operator("ofs")), records
        self.turn()

    def turn(self) -> float:
        return microseconds(self._lane, self._polls())

    def _polls(self) -> Iterator[RawPoll]:
        while True:
            yield self._lane.poll([b"mail"] * self._records, self._values.take(self._records))


def main() -> list[Result]:
    result = Result(f"Polls: one stream, ofs, {PRESENT} features of {FEATURES} names, k = {KEPT}, decode and learn")
    costs = take_turns({str(size): (OneStream, size) for size in SIZES}, ROUNDS)
    for size in SIZES:
        cost = median(costs[str(size)])
        result.rows.append({"records a poll": size, "CPU µs an instance": cost, "µs a poll": cost * size})
    return [result]
