"""The chart's pods at work: their very command lines on the real broker, more and fewer of them under load."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docker.pods import Pod, Release
from tests.kafka.expected import assert_exact, instances
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow

LANES = 6
RECORDS = 3000
"""A lane."""
BATCH = 20
SECRET = "nobody-may-read-this"


@contextmanager
def fed(flow: KafkaFlow) -> Iterator[list[list[tuple[str, str]]]]:
    """Records for every lane as long as the block runs; at its end what is left."""
    lanes = [instances(RECORDS, stream=f"stream-{lane}") for lane in range(LANES)]
    ending = threading.Event()

    def feed() -> None:
        for first in range(0, RECORDS, BATCH):
            batch = [(*record, lane) for lane, sent in enumerate(lanes) for record in sent[first : first + BATCH]]
            produce(flow.bootstrap, flow.instances, batch)
            ending.wait(0.4)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    yield lanes
    ending.set()
    feeder.join(120)
    assert not feeder.is_alive()


def seen(flow: KafkaFlow) -> list[int]:
    return [len(flow.out("predictions", partition=lane)) for lane in range(LANES)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("workload", ["Deployment", pytest.param("StatefulSet", marks=pytest.mark.crash(full=True))])
def test_more_and_fewer_pods_under_load(topics: Topics, tmp_path: Path, workload: str) -> None:
    flow = KafkaFlow(
        topics,
        tmp_path,
        partitions=LANES,
        input={"stop": None},
        kafka={"session.timeout.ms": None, "group.instance.id": None, "client.id": "${SECRET}"},
    )
    values = {
        "flow": flow.file.read_text(),
        "workload": workload,
        "checkpointEvery": 0.3,
        "sessionTimeoutMs": 6000,
        "kafka": {"session.timeout.ms": 6000} if workload == "Deployment" else {},
        "environment": {"STAGE": "test"},
        "secrets": [{"name": "SECRET", "secret": "kafka-user", "key": "password"}],
    }
    release = Release(values, tmp_path / "pods", {"kafka-user": {"password": SECRET}})
    steps = []
    try:
        with fed(flow) as sent:
            for replicas in (3, 5, 2):
                began = time.monotonic()
                release.scale(replicas)
                check_probes(release)
                had = seen(flow)
                release.until(lambda had=had: all(now > then for now, then in zip(seen(flow), had, strict=True)))  # type: ignore[misc]
                steps.append(f"{replicas} after {time.monotonic() - began:.1f} s")
        release.until(lambda: seen(flow) == [RECORDS] * LANES)
        said = [pod.running.stderr for pod in release.pods]
        release.scale(0)
    finally:
        release.close()
    for lane in range(LANES):
        assert_exact(flow, sent[lane], partition=lane, end=False)
    for text in said:
        assert SECRET not in text
        for line in text.splitlines():
            assert {"time", "level", "message"} <= set(json.loads(line))
    print(f"{workload}: every lane goes on with {', '.join(steps)}; {LANES * RECORDS:,} predictions exact")


def check_probes(release: Release) -> None:
    """What the kubelet would ask of each pod."""
    for pod in release.pods:
        for path in ("healthz", "readyz"):
            release.until(lambda pod=pod, path=path: answers(pod, path))  # type: ignore[misc]


def answers(pod: Pod, path: str) -> bool:
    found = re.search(r"metrics and health are at (http://[^\"\s]+)", pod.running.stderr)
    if found is None:
        return False
    url = f"{found[1]}/{path}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
