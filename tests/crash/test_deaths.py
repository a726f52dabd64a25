"""Kill it at any moment, start it again, let it finish: the output is that of a run that was never disturbed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.compare import count, differences
from tests.crash.conftest import Exact, Verdict, Watched, fast
from tests.crash.harness import How
from tests.crash.series import (
    CHUNK,
    PACE,
    SLOW,
    Placed,
    die_after_a_while,
    die_at,
    die_at_random,
    die_at_the_end,
    die_placed,
    placed_everywhere,
)
from tests.crash.worlds import (
    BothOutputsWorld,
    DirectoryToKafkaWorld,
    KafkaToDirectoryWorld,
    KafkaWorld,
    LiveKafkaWorld,
    World,
)

full = pytest.mark.crash(full=True)


def test_random_moments(world: World, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(world.flow("random", tmp_path))
    die_at_random(flow, 25 if crash_full else 4, seed=1)
    flow.finish()
    exact(world, flow)


def test_placed(world: World, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(world.flow("placed", tmp_path))
    die_placed(flow, placed_everywhere(world, 6 if crash_full else 1, seed=2), seed=2)
    flow.finish()
    exact(world, flow)
    assert any(death.again for death in flow.deaths)


@pytest.mark.parametrize("world", fast("kafka"), indirect=True)
def test_first_and_last(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """Before there is a run, while it is begun, in the very first commit, and after final snapshots, twice."""
    flow = watched(world.flow("first and last", tmp_path))
    points = ["fenced", "opened", "run"] if world.kind == "kafka" else ["opened", "run", "first-in-sql", "first-soon"]
    die_placed(flow, [Placed(point, 1) for point in [*points, "committed", "restore", "one-lane"]], seed=3)
    die_at_the_end(flow, (2, 0))
    flow.finish()
    exact(world, flow)


def test_each_chunk(broker: KafkaWorld, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """States in many small chunks: a death after each of the first ones, and between runs that cut differently."""
    flow = watched(broker.flow("chunks", tmp_path))
    for at in range(1, 17 if crash_full else 4):
        death = Placed("chunk", at)
        die_at(flow, death, How(die=str(death), pace=PACE, chunk=CHUNK + 40 * (at % 3)))
    flow.finish()
    exact(broker, flow)


@full
def test_in_the_commit(broker: KafkaWorld, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """Somewhere in the call that commits: it is decided or not, and the next run knows which."""
    flow = watched(broker.flow("in commit", tmp_path))
    die_placed(flow, [Placed("in-commit", number % 5 + 1) for number in range(30)], seed=14)
    flow.finish()
    exact(broker, flow)


@full
def test_a_neighbour_on_the_same_topic(broker: KafkaWorld, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """Another flow writes to the same selections topic all the while, its transactions open between ours."""
    flow = watched(broker.flow("beside a neighbour", tmp_path))
    name = f"neighbour-{broker.name}"
    neighbour = watched(broker.named_flow(name, "neighbour", tmp_path, selections=flow.outputs["selections"]))
    busy = neighbour.start(How(pace=SLOW))
    busy.wait_for("committed")
    random_ = random.Random(4)
    for number in range(6):
        die_placed(flow, placed_everywhere(broker, 1, seed=number)[:1], seed=40 + number)
        die_after_a_while(flow, flow.start(How(pace=PACE, rhythm=number)), random_)
    flow.finish()
    busy.stop()
    exact(broker, flow)
    assert any(broker.read(neighbour)["selections"].values())


@pytest.mark.parametrize("world", fast("directory"), indirect=True)
def test_two_workers(world: World, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """Two workers in a process; on Kafka each is a member of its own."""
    flow = watched(world.flow("two workers", tmp_path))
    die_at_random(flow, 6 if crash_full else 1, seed=5, workers=2)
    die_placed(flow, placed_everywhere(world, 1, seed=6)[: None if crash_full else 2], seed=6, workers=2)
    flow.finish(How(workers=2))
    exact(world, flow)


@full
def test_live_input(kafka: str, tmp_path: Path, watched: Watched, verdict: Verdict) -> None:
    """No pace but the producer's: lanes are fed in bursts while the flow runs and dies."""
    live = LiveKafkaWorld(kafka, 6000)
    try:
        flow = watched(live.flow("live input", tmp_path))
        with live.fed():
            random_ = random.Random(9)
            for _ in range(12):
                die_after_a_while(flow, flow.start(), random_)
        flow.finish()
        live.settle(flow)
        found = live.read(flow)
        live.take_reference(tmp_path)
        wrong = differences(live.expected, found)
        assert not wrong, "\n".join(wrong)
        verdict(f"{flow.series}: {len(flow.deaths)} deaths, {count(found):,} records equal to the reference")
    finally:
        live.topics.clear()


@full
@pytest.mark.parametrize(
    "mixed",
    [DirectoryToKafkaWorld, KafkaToDirectoryWorld, BothOutputsWorld],
    ids=["to-kafka", "to-directory", "to-both"],
)
def test_mixed_topics(
    mixed: type[DirectoryToKafkaWorld | KafkaToDirectoryWorld | BothOutputsWorld],
    kafka: str,
    tmp_path: Path,
    watched: Watched,
    exact: Exact,
) -> None:
    world = mixed(kafka, tmp_path, 2500)
    try:
        flow = watched(world.flow(f"mixed {mixed.__name__}", tmp_path))
        die_placed(flow, placed_everywhere(world, 1, seed=10), seed=10)
        if mixed is BothOutputsWorld:
            die_placed(flow, [Placed("synced", 2), Placed("torn", 2), Placed("synced", 3), Placed("torn", 4)], seed=15)
        die_at_random(flow, 3, seed=11)
        die_at_the_end(flow, (1, 3))
        flow.finish()
        exact(world, flow)
    finally:
        world.topics.clear()
