"""A real flow on the broker with a stream a key, as many as a million, with and without `[flow] memory`.

Both must give the same bytes. Each runs in a process of its own, whose resident memory is what the table is about; that
of a flow with few streams says what is there without them. SLUICEWAY_BENCH_STREAMS is the most there are.
Run with `python -m benchmarks streams.million`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson

from benchmarks.measure import Result, cpu_seconds
from benchmarks.streams.lane import FEATURES, KEPT, PRESENT, key, numbered, values
from sluiceway.flows.run import run
from sluiceway.flows.settings import Settings
from tests.support.broker import any_broker
from tests.support.flow import toml
from tests.support.kafka import Topics, produce, read_committed

STREAMS, VISITS = 1_000_000, 2
FEW = 1_000
MEMORY = "64MB"
PARTITIONS = 4
OUTPUTS = ("selections", "predictions", "dead_letters")


def records(streams: int, count: int) -> Iterator[tuple[str, bytes, int]]:
    """Each from a stream chosen at random, whose partition is its number's rest."""
    rng, given = np.random.default_rng(5), values(numbered(FEATURES))
    for start in range(0, count, 10_000):
        for at, stream in enumerate(rng.integers(0, streams, 10_000).tolist()):
            yield key(stream).decode(), given[(start + at) % len(given)], stream % PARTITIONS


def main() -> list[Result]:
    most = int(os.environ.get("SLUICEWAY_BENCH_STREAMS", STREAMS))
    count = VISITS * most
    result = Result(f"Flow on the broker: {count:,} instances, {PRESENT} features of {FEATURES} names, k = {KEPT}")
    digests = []
    with any_broker() as bootstrap, TemporaryDirectory() as place:
        topics = Topics(bootstrap)
        try:
            for number, (streams, memory) in enumerate(((FEW, None), (most, None), (most, MEMORY))):
                flow = f"million-{number}"
                topics.also(groups=(flow, f"{flow}.members"))
                if memory is None:
                    source = topics("instances", PARTITIONS)
                    produce(bootstrap, source, records(streams, count), {"compression.type": "lz4"})
                outputs = {role: topics(role, PARTITIONS) for role in OUTPUTS}
                state = topics("state", PARTITIONS, {"cleanup.policy": "compact"})
                urls = {
                    role: f"kafka://{bootstrap}/{topic}"
                    for role, topic in {"instances": source, **outputs, "state": state}.items()
                }
                found = _run(Path(place) / f"{flow}.toml", flow, urls, memory)
                what = f"{streams:,} streams" + ("" if memory is None else f", memory = {memory}")
                result.rows.append({"what": what, **found})
                if streams == most:
                    digests.append(_digest(bootstrap, outputs, flow.encode()))
        finally:
            topics.clear()
    same = "the same bytes" if digests[0] == digests[1] else "OTHER BYTES"
    result.notes.append(f"with {most:,} streams, with and without a limit: {same}")
    return [result]


def _run(file: Path, flow: str, topics: dict[str, str], memory: str | None) -> dict[str, float]:
    """To the end of the input."""
    content: dict[str, dict[str, Any]] = {
        "flow": {"name": flow, "memory": memory},
        "topics": topics,
        "input": {"stop": "end"},
        "operator": {"name": "ofs", "k": KEPT},
    }
    file.write_text(toml(content))
    command = [sys.executable, "-m", "benchmarks.streams.million", str(file)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = orjson.loads(done.stdout.splitlines()[-1])
    return found


def _digest(bootstrap: str, outputs: dict[str, str], flow: bytes) -> list[str]:
    """Of each partition of each output, in its order; without the flow's name."""
    digests = []
    for topic in outputs.values():
        for partition in range(PARTITIONS):
            digest = hashlib.sha256()
            for record in read_committed(bootstrap, topic, [partition], timeout=600)[partition]:
                line = (record.key or b"") + b" " + (record.value or b"") + b"\n"
                digest.update(line.replace(flow, b""))
            digests.append(digest.hexdigest())
    return digests


def _child(file: Path) -> None:
    settings = Settings.load(file)
    began, used = time.monotonic(), cpu_seconds()
    run(settings)
    print(
        orjson.dumps(
            {
                "s": time.monotonic() - began,
                "CPU s": cpu_seconds() - used,
                "most MB in use": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
            }
        ).decode()
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    _child(parser.parse_args().file)
