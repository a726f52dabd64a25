"""Flows with more streams than `[flow] memory` has room for: streams come, sleep and wake up while processes die."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.conftest import Exact, Watched
from tests.crash.harness import How
from tests.crash.series import die_after_a_while, die_placed, placed_everywhere
from tests.crash.workload import LANES, Width
from tests.crash.worlds import DirectoryWorld, KafkaWorld, Learns, World

FEW, MANY = Learns(width=Width(20, 6, 2_000)), Learns(width=Width(20, 6, 100_000))
SIZE, MANY_SIZE = 1_500, 75_000
"""Records a lane."""


@pytest.fixture(params=["kafka", "directory"])
def crowded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """2,000 streams; the reference was made without a limit."""
    if request.param == "directory":
        directories = DirectoryWorld(tmp_path, SIZE, FEW)
        directories.memory = "1MB"
        yield directories
        return
    world = KafkaWorld(request.getfixturevalue("kafka"), tmp_path, SIZE, FEW)
    world.memory = "1MB"
    yield world
    world.topics.clear()


def test_little_memory(crowded: World, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(crowded.flow("little memory", tmp_path))
    random_ = random.Random(21)
    for number in range(8 if crash_full else 2):
        die_after_a_while(flow, flow.start(How(pace=20, rhythm=number)), random_, longest=0.6)
    if crash_full:
        die_placed(flow, placed_everywhere(crowded, 1, seed=22), seed=22)
    flow.finish()
    exact(crowded, flow)


@pytest.mark.crash(full=True)
def test_a_hundred_thousand_streams(kafka: str, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """Killed ten times, under a limit that a fifth of the streams would fill."""
    world = KafkaWorld(kafka, tmp_path, MANY_SIZE, MANY)
    try:
        world.memory = "16MB"
        flow = watched(world.flow("100,000 streams", tmp_path))
        random_ = random.Random(23)
        for _ in range(10):
            die_after_a_while(flow, flow.start(How(pace=200)), random_)
        flow.finish(timeout=1800.0)  # 300,000 records, most of which wake a stream
        exact(world, flow)
        streams = {record.key for lane in range(LANES) for record in world.expected["selections"][lane]}
        assert len(streams) > 80_000
    finally:
        world.topics.clear()
