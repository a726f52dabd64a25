"""What an instance costs with many names, and with names that were chosen to hurt.

One stream. Hostile names each have a process of their own, which says how much memory it has come to use more.
Run with `python -m benchmarks streams.names`.
"""

from __future__ import annotations

import gc
import json
import random
import string
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import orjson

from benchmarks.measure import Result, Row, cpu_seconds_of, median
from benchmarks.streams.collisions import colliding
from benchmarks.streams.lane import (
    FEATURES,
    KEPT,
    PRESENT,
    RECORDS,
    Cycle,
    MemoryLane,
    feed,
    microseconds,
    numbered,
    operator,
    resident,
    values,
)
from benchmarks.turns import contender, take_turns
from sluiceway.schemas.lane import RawPoll

NAMES, NON_ZEROS, DIFFERENT = (10_000, 1_000_000), 100, 20_000
AT_MOST = 2.0
ROUNDS = 9
PAIRS = 13
"""So many pairs of words make 8,192 names that collide."""
POLL_BYTES = 2 << 20
"""As many records a poll, if they are long."""


class ManyNames:
    """A lane of one stream with so many names, all of them seen before."""

    about: dict[str, float]

    def __init__(self, names: int) -> None:
        self.about = {}
        self._values, self._lane = Cycle(values(numbered(names), NON_ZEROS, DIFFERENT)), MemoryLane(operator("ofs"))
        for _ in range(0, DIFFERENT, RECORDS):
            self._lane.process(next(self._polls()))

    def turn(self) -> float:
        return microseconds(self._lane, self._polls())

    def _polls(self) -> Iterator[RawPoll]:
        while True:
            yield self._lane.poll([b"mail"] * RECORDS, self._values.take(RECORDS))


def _repeated(names: Sequence[str]) -> list[bytes]:
    return values(names, PRESENT, DIFFERENT)


def _new_names() -> list[bytes]:
    """Each name comes once."""
    names = iter(numbered(1_000_000))
    rng = np.random.default_rng(7)
    given = rng.normal(size=(1_000_000 // PRESENT, PRESENT)).tolist()
    return [orjson.dumps({"x": dict(zip(names, row, strict=False)), "y": at % 2}) for at, row in enumerate(given)]


def _long() -> list[bytes]:
    return values([name.ljust(10_000, "x") for name in numbered(FEATURES)], PRESENT, 500)


def _not_ascii() -> list[str]:
    return [f"признак-特徴-🜚-{number}" for number in range(FEATURES)]


def _escaped() -> list[bytes]:
    """The same, as a sender writes them that trusts nobody with UTF-8."""
    return [json.dumps(orjson.loads(value), separators=(",", ":")).encode() for value in _repeated(_not_ascii())]


def _of_these_letters() -> list[str]:
    """As many names of the same length as those that collide, but chosen at random."""
    rng = random.Random(5)
    return ["".join(rng.choices(string.ascii_letters + string.digits, k=9 * PAIRS)) for _ in range(1 << PAIRS)]


HOSTILE: dict[str, Callable[[], list[bytes]]] = {
    f"{FEATURES} names": lambda: _repeated(numbered(FEATURES)),
    "1,000,000 names, each once": _new_names,
    f"{FEATURES} names of 10,000 letters": _long,
    f"{FEATURES} names, not ASCII": lambda: _repeated(_not_ascii()),
    f"{FEATURES} names, not ASCII, escaped": _escaped,
    f"{1 << PAIRS:,} names of {9 * PAIRS} letters": lambda: _repeated(_of_these_letters()),
    "the same, all with one FNV-1a hash": lambda: _repeated(colliding(PAIRS)),
}


class Hostile:
    """A lane of one stream that gets these names once; there are no turns."""

    def __init__(self, names: str) -> None:
        feed(MemoryLane(operator("ofs")), [0] * 3 * RECORDS, Cycle(values(numbered(FEATURES), count=RECORDS)))
        given, lane = HOSTILE[names](), MemoryLane(operator("ofs"))
        size = sum(map(len, given)) // len(given)
        records = max(1, min(RECORDS, POLL_BYTES // size))
        gc.collect()
        before, spent, most = resident(), 0.0, 0
        for start in range(0, len(given), records):
            part = given[start : start + records]
            poll = lane.poll([b"mail"] * len(part), part)
            spent += cpu_seconds_of(partial(lane.process, poll))
            most = max(most, resident() - before)
        self.about = {"records": len(given), "bytes": size, "µs": spent * 1e6 / len(given), "MB": most / 1e6}

    def turn(self) -> float:
        return self.about["µs"]


def main() -> list[Result]:
    return [_many_names(), _hostile_names()]


def _many_names() -> Result:
    few, many = (f"{names:,}" for names in NAMES)
    costs = take_turns({f"{names:,}": (ManyNames, names) for names in NAMES}, ROUNDS)
    result = Result(f"Names: one stream, ofs, {NON_ZEROS} features, k = {KEPT}, decode and learn")
    for name, taken in costs.items():
        ratio = median([cost / least for cost, least in zip(taken, costs[few], strict=True)])
        row: Row = {"names": name, "CPU µs an instance": median(taken), f"against {few}": ratio}
        row |= {"target": f"at most {AT_MOST:g}", "met": "yes" if ratio <= AT_MOST else "NO"} if name == many else {}
        result.rows.append(row)
    return result


def _hostile_names() -> Result:
    result = Result(f"Hostile names: one stream, ofs, {PRESENT} features a record, k = {KEPT}, decode and learn")
    for name in HOSTILE:
        with contender(Hostile, name) as each:
            found = each.about
        result.rows.append(
            {
                "names": name,
                "records": found["records"],
                "bytes a record": found["bytes"],
                "CPU µs an instance": found["µs"],
                "µs a KB": found["µs"] / found["bytes"] * 1000,
                "MB more in use, at most": found["MB"],
            }
        )
    result.notes.append("all records were accepted")
    return result
