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
import threading
import time
import uuid
from collections.abc import Iterator
from functools import partial
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import orjson
from confluent_kafka import Consumer, TopicPartition

from benchmarks.measure import Result, cpu_seconds, median
from tests.support.broker import any_broker
from tests.support.kafka import Topics, produce

PARTITIONS, FEATURES = 4, 100
PLAIN, PREDICTIONS = "flow", "flow, predictions"
BOTH: dict[str, dict[str, Any]] = {PLAIN: {}, PREDICTIONS: {"predictions": True}}
COMMITS: dict[str, dict[str, Any]] = {
    "flow, predictions, a commit every 0.5 s": {"predictions": True, "interval": 0.5},
    "flow, predictions, a commit every 10 s": {"predictions": True, "interval": 10.0},
}


class Input(NamedTuple):
    """What is in a topic, what runs on it, and how fast each must be against the bare loop."""

    what: str
    names: int
    streams: int
    variants: dict[str, dict[str, Any]]
    at_least: dict[str, float]


INPUTS = (
    Input("", FEATURES, 8, BOTH | COMMITS, {PLAIN: 1.0, PREDICTIONS: 0.85}),
    Input(" of 10,000 names", 10_000, 8, BOTH, {PLAIN: 1.0, PREDICTIONS: 0.85}),
    Input(", 10,000 streams", FEATURES, 10_000, BOTH, {PLAIN: 0.7}),
)


def instances(names: int, streams: int) -> Iterator[tuple[str, bytes, int]]:
    """Named-JSON instances of 100 features, for ever: (key, value, partition). Each has one of 100 equal parts of the
    names."""
    rng = np.random.default_rng(7)
    named = [f"feature-{number:04d}" for number in range(names)]
    weights = rng.normal(size=names)
    first, width = np.arange(FEATURES) * (names // FEATURES), names // FEATURES
    for number in count():
        x, present = rng.normal(size=FEATURES), first
        if width > 1:
            present = first + rng.integers(0, width, FEATURES)
        record = {
            "id": f"e-{number}",
            "ts": 1763251200000 + number,
            "x": dict(zip([named[at] for at in present.tolist()], x.tolist(), strict=True)),
            "y": 1 if x @ weights[present] > 0 else -1,
        }
        yield f"stream-{number % streams}", orjson.dumps(record), number % PARTITIONS


def main(messages: int = 150_000, rounds: int = 5, visible_seconds: int = 30) -> list[Result]:
    results = []
    with any_broker() as bootstrap:
        for given in INPUTS:
            topics = Topics(bootstrap)
            try:
                names = {name: topics(name, PARTITIONS) for name in ("instances", "selections", "predictions", "dead")}
                made = islice(instances(given.names, given.streams), messages)
                produce(bootstrap, names["instances"], made, {"compression.type": "lz4"})
                about = {"bootstrap": bootstrap, "topics": names, "messages": messages}
                results.append(_ratios(given, about, rounds))
                if given is INPUTS[0]:
                    records = list(islice(instances(given.names, given.streams), min(messages, 60_000)))
                    results.append(_visible({**about, "seconds": visible_seconds}, records))
            finally:
                topics.clear()
    return results


def _ratios(input_: Input, given: dict[str, Any], rounds: int) -> Result:
    times: dict[str, list[float]] = {"bare loop": [], **{name: [] for name in input_.variants}}
    commits: dict[str, list[float]] = {name: [] for name in input_.variants}
    for _ in range(rounds):
        times["bare loop"].append(_child("bare", given)["cpu"])
        for name, variant in input_.variants.items():
            measured = _child("flow", {**given, **variant})
            times[name].append(measured["cpu"])
            commits[name] += measured["commits"]
    result = Result(
        f"Flow on the broker: {given['messages']:,} named-JSON instances, {FEATURES} features{input_.what},"
        f" {PARTITIONS} partitions"
    )
    for name, values in times.items():
        pairs = list(zip(times["bare loop"], values, strict=True))
        ratio = median([bare / value for bare, value in pairs])
        result.rows.append(
            {
                "what": name,
                "CPU µs an instance": median(values) * 1e6 / given["messages"],
                "speed against the bare loop": ratio,
                "ms a commit": median(commits[name]) * 1000 if commits.get(name) else "",
            }
        )
        if name in input_.at_least:
            bound = input_.at_least[name]
            met = "met" if ratio >= bound else "NOT met"
            result.notes.append(f"{name}, at least {bound:g} times the bare loop: {met} ({ratio:.2f})")
    if input_ is INPUTS[0]:
        result.notes.append("bare loop: confluent-kafka consume(1000) and orjson.loads, nothing else")
        result.notes.append("each lane commits by itself, in a thread of its own, while the next records are read")
    return result


def _visible(given: dict[str, Any], records: list[tuple[str, bytes, int]]) -> Result:
    """How long it takes from a record's sending until readers see its prediction, while records keep coming."""
    fresh = Topics(given["bootstrap"])
    topics = {**given["topics"], **{role: fresh(role, PARTITIONS) for role in ("instances", "predictions")}}
    over = threading.Event()
    delays: list[float] = []

    def feed() -> None:
        for start in count(0, 100):
            if over.is_set():
                return
            chunk = [records[at % len(records)] for at in range(start, start + 100)]
            produce(given["bootstrap"], topics["instances"], chunk)
            time.sleep(0.05)

    follow = partial(_follow, given["bootstrap"], topics["instances"], topics["predictions"], over, delays)
    threads = [threading.Thread(target=target) for target in (feed, follow)]
    for thread in threads:
        thread.start()
    try:
        measured = _child("flow", {**given, "topics": topics, "predictions": True, "interval": 0.2})
    finally:
        over.set()
        for thread in threads:
            thread.join()
        fresh.clear()
    took = sorted(delays[len(delays) // 3 :])  # the first had to wait until the flow had begun
    result = Result("Time to visible, records coming all the time")
    result.rows.append(
        {
            "what": "a commit every 0.2 s",
            "records": len(took),
            "median ms": median(took),
            "99 of 100 within ms": took[len(took) * 99 // 100],
            "ms a commit": median(measured["commits"]) * 1000,
            "longest ms a commit": max(measured["commits"]) * 1000,
        }
    )
    return result


def _follow(bootstrap: str, instances: str, predictions: str, over: threading.Event, delays: list[float]) -> None:
    """Milliseconds from the sending of each instance to the sight of its prediction, as a plain reader gets it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "visible", "enable.auto.commit": False})
    places = [TopicPartition(topic, lane, 0) for topic in (instances, predictions) for lane in range(PARTITIONS)]
    consumer.assign(places)
    sent: dict[tuple[int, int], int] = {}
    seen: list[tuple[tuple[int, int], float]] = []
    while not over.is_set():
        for message in consumer.consume(1000, 0.01):
            if message.error() is not None:
                continue
            if message.topic() == instances:
                sent[message.partition() or 0, message.offset() or 0] = message.timestamp()[1]
            else:
                at = orjson.loads(message.value() or b"")["at"]
                seen.append(((at["partition"], at["offset"]), time.time() * 1000))
    consumer.close()
    delays += [at - sent[place] for place, at in seen if place in sent]


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
    from sluiceway.topics.kafka_store import KafkaLane

    url, name = f"kafka://{given['bootstrap']}/", f"bench-{uuid.uuid4().hex[:8]}"
    topics = {"instances": url + given["topics"]["instances"], "selections": url + given["topics"]["selections"]}
    topics["dead_letters"] = url + given["topics"]["dead"]
    if given.get("predictions"):
        topics["predictions"] = url + given["topics"]["predictions"]
    settings = Settings.parse(
        {
            "flow": {"name": name},
            "topics": topics,
            "input": {} if "seconds" in given else {"stop": "end"},
            "operator": {"name": "ofs", "k": 10},
        }
    )
    used: list[float] = []
    commits: list[float] = []
    _watch(running, KafkaLane, used, commits)
    if "seconds" in given:
        threading.Timer(given["seconds"], lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    own = Topics(given["bootstrap"])
    own.also(f"{name}.state", groups=[name, f"{name}.members"])
    try:
        running.run(settings, checkpoint_seconds=given.get("interval", 2.0), create_topics=True)
    finally:
        own.clear()
    return {"cpu": used[0], "commits": commits}


def _watch(running: Any, lane: Any, used: list[float], commits: list[float]) -> None:
    """Take times at the seams: the engine's whole run, and each lane's wait for a commit."""
    execute, commit = running.cli_main, lane.commit

    def timed_execute(*args: Any, **kwargs: Any) -> None:
        start = cpu_seconds()
        execute(*args, **kwargs)
        used.append(cpu_seconds() - start)

    def timed_commit(self: Any, *args: Any, **kwargs: Any) -> None:
        start = time.monotonic()
        commit(self, *args, **kwargs)
        commits.append(time.monotonic() - start)

    running.cli_main, lane.commit = timed_execute, timed_commit


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["bare", "flow"])
    parser.add_argument("given", type=orjson.loads)
    arguments = parser.parse_args()
    answer = bare(arguments.given) if arguments.what == "bare" else flow(arguments.given)
    sys.stdout.buffer.write(orjson.dumps(answer))
