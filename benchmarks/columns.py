"""The features flow on a real broker, columns as JSON and as Arrow, against a bare loop over the same JSON topic.

CPU time of the flow's process, threads of the client and the engine included. Every measurement runs in a process of
its own; those of one round run one after the other, and the ratios are medians over the rounds. The two flows must
agree on what they select. Run with `python -m benchmarks columns`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from numpy.typing import NDArray

from benchmarks.measure import Result, cpu_seconds, median
from tests.columns.messages import CONTENT_TYPE, stream, table
from tests.support.broker import any_broker
from tests.support.kafka import Topics, produce, read_committed

ROWS = 1000
TELLING = 60
A_MESSAGE = 100
"""Columns in a message of Arrow: 800 kB, below a topic's usual limit."""
ARROW_TARGET = 5
"""Times as fast as JSON, end to end."""
VARIANTS: dict[str, dict[str, Any]] = {
    "JSON": {"input": "json"},
    "Arrow": {"input": "arrow"},
    "JSON, verdicts": {"input": "json", "verdicts": True},
    "Arrow, verdicts": {"input": "arrow", "verdicts": True},
}


def columns(count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """A target, and columns of which some dozens tell something of it."""
    rng = np.random.default_rng(7)
    target = rng.integers(0, 2, size=ROWS)
    values = rng.normal(size=(count, ROWS))
    telling = rng.choice(count, size=TELLING, replace=False)
    values[telling] += target * rng.uniform(0.1, 0.5, size=(len(telling), 1))
    return target, values


def as_json(target: NDArray[np.int64], values: NDArray[np.float64]) -> Iterator[tuple[str, bytes, int]]:
    yield "s", orjson.dumps({"target": target.tolist()}), 0
    for number, column in enumerate(values):
        yield "s", orjson.dumps({"name": f"feature-{number:06d}", "values": column.tolist()}), 0


def as_arrow(target: NDArray[np.int64], values: NDArray[np.float64]) -> Iterator[tuple[str, bytes, int]]:
    for start in range(0, len(values), A_MESSAGE):
        part = range(start, min(start + A_MESSAGE, len(values)))
        fields = [(f"feature-{number:06d}", pa.array(values[number])) for number in part]
        if start:
            yield "s", stream(table(fields)), 0
        else:
            yield "s", stream(table([("y", pa.array(target)), *fields], {"sluiceway.target": "y"})), 0


def main(count: int = 20_000, rounds: int = 5) -> list[Result]:
    with any_broker() as bootstrap:
        topics = Topics(bootstrap)
        try:
            names = {name: topics(name) for name in ("json", "arrow", "verdicts", "dead_letters")}
            made = columns(count)
            produce(bootstrap, names["json"], as_json(*made), {"compression.type": "lz4"})
            produce(bootstrap, names["arrow"], as_arrow(*made), {"compression.type": "lz4"}, [CONTENT_TYPE])
            del made
            return [_measured(topics, names, count, rounds)]
        finally:
            topics.clear()


def _measured(topics: Topics, names: dict[str, str], count: int, rounds: int) -> Result:
    given = {"bootstrap": topics.bootstrap, "topics": names}
    times: dict[str, list[float]] = {"bare loop, JSON": [], **{name: [] for name in VARIANTS}}
    fixed: list[float] = []
    selected: set[bytes] = set()
    for _ in range(rounds):
        times["bare loop, JSON"].append(_child("bare", given)["cpu"])
        for name, variant in VARIANTS.items():
            selections = topics("selections")
            times[name].append(_child("flow", {**given, **variant, "selections": selections})["cpu"])
            selected.add(_last_selected(topics.bootstrap, selections, count))
        one = {**given, **VARIANTS["Arrow"], "stop": "1", "selections": topics("selections")}
        fixed.append(_child("flow", one)["cpu"])
    if len(selected) != 1:
        raise SystemExit("the flows do not agree on what they select")
    result = Result(f"Features flow on the broker: {count:,} columns of {ROWS:,} rows, saola (Fisher-Z)")
    for name, values in times.items():
        json = times["JSON, verdicts" if "verdicts" in name else "JSON"]
        result.rows.append(
            {
                "what": name,
                "CPU µs a column": median(values) * 1e6 / count,
                "columns a CPU second": count / median(values),
                "speed against JSON": median([one / value for one, value in zip(json, values, strict=True)]),
            }
        )
    arrow = next(float(row["speed against JSON"]) for row in result.rows if row["what"] == "Arrow")
    met = "met" if arrow >= ARROW_TARGET else "NOT MET"
    result.notes.append(f"Arrow at least {ARROW_TARGET} times JSON: {met} ({arrow:.1f})")
    share = median([start / whole for start, whole in zip(fixed, times["Arrow"], strict=True)])
    result.notes.append(
        f"In these times: {median(fixed):.2f} s for a run of one Arrow message, which is start, transactions and end:"
        f" {share:.0%} of Arrow's"
    )
    result.notes.append(f"{len(orjson.loads(selected.pop()))} columns selected, by all flows the same")
    result.notes.append(f"Arrow: {A_MESSAGE} columns a message; JSON: one; bare loop: consume(1000) and orjson.loads")
    return result


def _last_selected(bootstrap: str, topic: str, count: int) -> bytes:
    last = orjson.loads(read_committed(bootstrap, topic)[0][-1].value or b"")
    if last["version"] != count:
        raise SystemExit(f"the last snapshot is of version {last['version']}, not {count}")
    return orjson.dumps(last["selected"])


def _child(what: str, given: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.columns", what, orjson.dumps(given).decode()],
        check=True,
        stdout=subprocess.PIPE,
    )
    answer: dict[str, Any] = orjson.loads(done.stdout)
    return answer


def bare(given: dict[str, Any]) -> dict[str, Any]:
    settings = {"bootstrap.servers": given["bootstrap"], "group.id": "bare", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    start, ended = cpu_seconds(), False
    consumer.assign([TopicPartition(given["topics"]["json"], 0, 0)])
    while not ended:
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                orjson.loads(message.value() or b"")
            else:
                ended = True
    used = cpu_seconds() - start
    consumer.close()
    return {"cpu": used}


def flow(given: dict[str, Any]) -> dict[str, Any]:
    from sluiceway.flows import run as running
    from sluiceway.flows.settings import Settings
    from sluiceway.operators.selectors.saola import Saola

    url = f"kafka://{given['bootstrap']}/"
    topics = {"features": url + given["topics"][given["input"]], "selections": url + given["selections"]}
    topics["dead_letters"] = url + given["topics"]["dead_letters"]
    if given.get("verdicts"):
        topics["verdicts"] = url + given["topics"]["verdicts"]
    settings = Settings.parse(
        {
            "flow": {"name": f"bench-{uuid.uuid4().hex[:8]}"},
            "topics": topics,
            "input": {"stop": given.get("stop", "end")},
            "operator": {"name": "saola"},
        }
    )
    Saola.compile()
    used: list[float] = []
    _watch(running, used)
    running.run(settings, create_topics=True)
    return {"cpu": used[0]}


def _watch(running: Any, used: list[float]) -> None:
    """Take the time of the engine's whole run."""
    execute = running.cli_main

    def timed_execute(*args: Any, **kwargs: Any) -> None:
        start = cpu_seconds()
        execute(*args, **kwargs)
        used.append(cpu_seconds() - start)

    running.cli_main = timed_execute


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["bare", "flow"])
    parser.add_argument("given", type=orjson.loads)
    arguments = parser.parse_args()
    answer = bare(arguments.given) if arguments.what == "bare" else flow(arguments.given)
    sys.stdout.buffer.write(orjson.dumps(answer))
