"""The whole flow on a real broker against a bare loop over the same topic, in CPU time.

Every measurement runs in a process of its own; those of one round run one after the other, so that a noisy moment hits
all of them alike, and the ratios are medians over the rounds. Run with `python -m benchmarks flow`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from confluent_kafka import Consumer, TopicPartition

from benchmarks.measure import Result, cpu_seconds, median
from tests.support.broker import any_broker
from tests.support.kafka import Topics, produce

PARTITIONS, STREAMS, FEATURES = 4, 8, 100
VARIANTS: dict[str, dict[str, Any]] = {
    "flow": {},
    "flow, predictions": {"predictions": True},
    "flow, predictions, at least once": {"predictions": True, "delivery": "at-least-once"},
    "flow, predictions, checkpoint every 0.5 s": {"predictions": True, "checkpoint": 0.5},
    "flow, predictions, checkpoint every 10 s": {"predictions": True, "checkpoint": 10.0},
}


def instances() -> Iterator[tuple[str, bytes, int]]:
    """Named-JSON instances of 100 features, for ever: (key, value, partition)."""
    rng = np.random.default_rng(7)
    names = [f"feature-{number:04d}" for number in range(FEATURES)]
    weights = rng.normal(size=FEATURES)
    for number in count():
        x = rng.normal(size=FEATURES)
        record = {
            "id": f"e-{number}",
            "ts": 1763251200000 + number,
            "x": dict(zip(names, x.tolist(), strict=True)),
            "y": 1 if x @ weights > 0 else -1,
        }
        yield f"stream-{number % STREAMS}", orjson.dumps(record), number % PARTITIONS


def main(messages: int = 150_000, rounds: int = 5) -> list[Result]:
    with any_broker() as bootstrap:
        topics = Topics(bootstrap)
        try:
            names = {name: topics(name, PARTITIONS) for name in ("instances", "selections", "predictions", "dead")}
            made = [record for record, _ in zip(instances(), range(messages), strict=False)]
            produce(bootstrap, names["instances"], made, {"compression.type": "lz4"})
            given = {"bootstrap": bootstrap, "topics": names, "messages": messages}
            return [_ratios(given, rounds), _pauses(given, made[:60_000])]
        finally:
            topics.clear()


def _ratios(given: dict[str, Any], rounds: int) -> Result:
    times: dict[str, list[float]] = {"bare loop": [], **{name: [] for name in VARIANTS}}
    commits: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for _ in range(rounds):
        times["bare loop"].append(_child("bare", given)["cpu"])
        for name, variant in VARIANTS.items():
            measured = _child("flow", {**given, **variant})
            times[name].append(measured["cpu"])
            commits[name] += measured["commits"]
    result = Result(
        f"Flow on the broker: {given['messages']:,} named-JSON instances, {FEATURES} features, {PARTITIONS} partitions"
    )
    for name, values in times.items():
        pairs = list(zip(times["bare loop"], values, strict=True))
        result.rows.append(
            {
                "what": name,
                "CPU µs an instance": median(values) * 1e6 / given["messages"],
                "speed against the bare loop": median([bare / value for bare, value in pairs]),
                "ms of commits an epoch": median(commits[name]) * 1000 if commits.get(name) else "",
            }
        )
    result.notes.append("bare loop: confluent-kafka consume(1000) and orjson.loads, nothing else")
    result.notes.append("an epoch's commits run in parallel, a transaction a lane; the time is the wait for the last")
    return result


def _pauses(given: dict[str, Any], records: list[tuple[str, bytes, int]]) -> Result:
    """How long sources stand still at a checkpoint, while records keep coming."""
    feeding = threading.Event()

    def feed() -> None:
        for start in count(0, 500):
            if feeding.is_set():
                return
            chunk = [records[at % len(records)] for at in range(start, start + 500)]
            produce(given["bootstrap"], given["topics"]["instances"], chunk, {"compression.type": "lz4"})
            time.sleep(0.05)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        measured = _child("flow", {**given, "predictions": True, "checkpoint": 10.0, "seconds": 45})
    finally:
        feeding.set()
        feeder.join()
    result = Result("Pauses at a checkpoint every 10 s, records coming all the time")
    pauses = measured["pauses"]
    result.rows.append(
        {
            "checkpoints": len(pauses) / PARTITIONS,
            "median ms": median(pauses) * 1000,
            "longest ms": max(pauses) * 1000,
            "longest, share of the interval": max(pauses) / 10.0,
        }
    )
    return result


def _child(what: str, given: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.flow", what, orjson.dumps(given).decode()],
        check=True,
        stdout=subprocess.PIPE,
    )
    answer: dict[str, Any] = orjson.loads(done.stdout)
    return answer


def bare(given: dict[str, Any]) -> dict[str, Any]:
    settings = {"bootstrap.servers": given["bootstrap"], "group.id": "bare", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    start, ended = cpu_seconds(), 0
    consumer.assign([TopicPartition(given["topics"]["instances"], partition, 0) for partition in range(PARTITIONS)])
    while ended < PARTITIONS:
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                orjson.loads(message.value() or b"")
            else:
                ended += 1
    used = cpu_seconds() - start
    consumer.close()
    return {"cpu": used}


def flow(given: dict[str, Any]) -> dict[str, Any]:
    from sluiceway.flows import run as running
    from sluiceway.flows.settings import Settings
    from sluiceway.flows.sink import LaneSink
    from sluiceway.flows.source import LaneSource

    url = f"kafka://{given['bootstrap']}/"
    topics = {"instances": url + given["topics"]["instances"], "selections": url + given["topics"]["selections"]}
    topics["dead_letters"] = url + given["topics"]["dead"]
    if given.get("predictions"):
        topics["predictions"] = url + given["topics"]["predictions"]
    settings = Settings.parse(
        {
            "flow": {"name": f"bench-{uuid.uuid4().hex[:8]}"},
            "topics": topics,
            "input": {} if "seconds" in given else {"stop": "end"},
            "operator": {"name": "ofs", "k": 10},
            "output": {"delivery": given.get("delivery", "exactly-once")},
        }
    )
    used: list[float] = []
    commits: list[float] = []
    pauses: list[float] = []
    _watch(running, LaneSource, LaneSink, used, commits, pauses)
    if "seconds" in given:
        threading.Timer(given["seconds"], lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    with tempfile.TemporaryDirectory() as store:
        running.run(settings, recovery=Path(store) / "store", checkpoint_seconds=given.get("checkpoint", 2.0))
    return {"cpu": used[0], "commits": commits, "pauses": pauses}


def _watch(
    running: Any, source: Any, sink: Any, used: list[float], commits: list[float], pauses: list[float]
) -> None:
    """Take times at the seams: the engine's whole run, each epoch's commits, each source's pause at an epoch's end."""
    execute, committed, snapshot, next_batch = running.cli_main, sink.snapshot, source.snapshot, source.next_batch

    def timed_execute(*args: Any, **kwargs: Any) -> None:
        start = cpu_seconds()
        execute(*args, **kwargs)
        used.append(cpu_seconds() - start)

    def timed_commit(self: Any) -> Any:
        first = bool(self._epoch._touched)  # noqa: SLF001
        start = time.monotonic()
        state = committed(self)
        commits.append((0.0 if first else commits.pop()) + time.monotonic() - start)
        return state

    def noted_snapshot(self: Any) -> Any:
        self.stands_since = time.monotonic()
        return snapshot(self)

    def timed_next(self: Any) -> Any:
        since = self.__dict__.pop("stands_since", None)
        if since is not None:
            pauses.append(time.monotonic() - since)
        return next_batch(self)

    running.cli_main, source.snapshot, source.next_batch = timed_execute, noted_snapshot, timed_next
    sink.snapshot = timed_commit


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["bare", "flow"])
    parser.add_argument("given", type=orjson.loads)
    arguments = parser.parse_args()
    answer = bare(arguments.given) if arguments.what == "bare" else flow(arguments.given)
    sys.stdout.buffer.write(orjson.dumps(answer))
