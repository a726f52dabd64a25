"""What decoding costs, in CPU time: orjson alone making objects, and the decoder with all that it checks and builds.

Run with `python -m benchmarks decode`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import orjson

from benchmarks.measure import Result, Row, cpu_seconds_of, median
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import RawPoll

RECORDS = 1000
ROUNDS = 15


def values_of(kind: str) -> list[bytes]:
    rng = random.Random(7)
    names = [f"sensor.reading_{i:03d}" for i in range(100)]

    def x() -> object:
        if kind == "named, 100 features":
            return {name: rng.gauss(0, 1) for name in names}
        if kind == "array, 100 features":
            return [rng.gauss(0, 1) for _ in range(100)]
        if kind == "words, 60 of 50,000":
            return {f"word{rng.randrange(50_000)}": rng.randint(1, 9) for _ in range(60)}
        return {name: rng.gauss(0, 1) for name in names[:5]}

    return [
        orjson.dumps({"id": f"e-{i}", "ts": 1763251200000 + i, "x": x(), "y": rng.random() < 0.5})
        for i in range(RECORDS)
    ]


def parse(values: list[bytes]) -> None:
    for value in values:
        orjson.loads(value)


def microseconds(*works: Callable[[], object]) -> list[list[float]]:
    """CPU time a record of each, by rounds in which they take turns."""
    return [[cpu_seconds_of(work) * 1e6 / RECORDS for work in works] for _ in range(ROUNDS)]


def main() -> list[Result]:
    result = Result("Decoding, µs of CPU a record")
    for kind in ("named, 100 features", "array, 100 features", "words, 60 of 50,000", "named, 5 features"):
        values = values_of(kind)
        poll = RawPoll(
            lane=0,
            start=0,
            stop=RECORDS,
            end=False,
            keys=[b"mail"] * RECORDS,
            values=list(values),
            offsets=list(range(RECORDS)),
            next_offsets=list(range(1, RECORDS + 1)),
        )
        parsing, decoding = zip(*microseconds(partial(parse, values), partial(Decoder(1).decode, poll)), strict=True)
        row: Row = {"record": kind, "bytes": sum(map(len, values)) // RECORDS}
        row |= {"orjson alone": median(parsing), "decoder": median(decoding)}
        ratios = [decoded / parsed for parsed, decoded in zip(parsing, decoding, strict=True)]
        result.rows.append({**row, "decoder / orjson": median(ratios)})
    return [result]
