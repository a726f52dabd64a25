"""Kill it at any moment, start it again, let it finish: the output is that of a run that was never disturbed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.compare import count, count_wrong, differences, prefix_differences, rewinds
from tests.crash.conftest import Exact, Watched, fast
from tests.crash.harness import Flow, How
from tests.crash.series import (
    PACE,
    Placed,
    die_after_a_while,
    die_at_random,
    die_placed,
    die_unpurged,
    placed_everywhere,
)
from tests.crash.worlds import (
    CARRIES,
    DirectoryToKafkaWorld,
    DirectoryWorld,
    KafkaToDirectoryWorld,
    KafkaWorld,
    LiveKafkaWorld,
    World,
)

full = pytest.mark.crash(full=True)


# -- random and placed, one process ----------------------------------------------------------------------------------


def test_random_moments(world: World, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(world.flow("random", tmp_path))
    die_at_random(world, flow, 25 if crash_full else 2, seed=1)
    flow.finish()
    exact(world, flow)


def test_placed(world: World, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(world.flow("placed", tmp_path))
    die_placed(world, flow, placed_everywhere(world, 5 if crash_full else 1, seed=2), seed=2)
    flow.finish()
    exact(world, flow)
    assert any(death.skipped for death in flow.deaths)


@pytest.mark.parametrize("world", fast("directory"), indirect=True)
def test_the_first_and_the_last_epoch(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """While the store is made, before anything is in it, and with the final snapshots out but not in it, twice."""
    flow = watched(world.flow("first and last", tmp_path))
    die_placed(world, flow, [Placed("creating", 1), Placed("committed", 1), Placed("one-lane", 1)], seed=3)
    for _ in range(2):
        child = flow.start(How(die="end:1"))
        child.ends(-9)
        flow.died("end:1", [child], world.ahead(flow))
    flow.finish()
    exact(world, flow)
    assert flow.deaths[-1].skipped


@full
def test_a_neighbour_on_the_same_topic(broker: KafkaWorld, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """Another flow writes to the same selections topic all the while, its transactions open between ours."""
    flow = watched(broker.flow("beside a neighbour", tmp_path))
    broker.forget_group("neighbour")
    neighbour = watched(broker.named_flow("neighbour", "neighbour", tmp_path, selections=flow.outputs["selections"]))
    busy = neighbour.start(How(pace=1))
    busy.wait_for("committed")
    random_ = random.Random(4)
    for number in range(5):
        die_placed(broker, flow, placed_everywhere(broker, 1, seed=number)[:1], seed=40 + number)
        die_after_a_while(broker, flow, [flow.start(How(pace=PACE, rhythm=number))], random_)
    flow.finish()
    busy.send_stop()
    busy.ends(0)
    exact(broker, flow)
    assert any(broker.read(neighbour)["selections"].values())


# -- the purge -------------------------------------------------------------------------------------------------------


def _leave_unfinished_state_behind(world: World, flow: Flow, *, keep_unfinished: bool) -> None:
    """Two deaths: lanes 0 and 1 learn in an epoch that never closes; when it is redone they sleep."""
    for awake, point in (((0, 1), "committed:3"), ((2, 3), "committed:4")):
        child = flow.start(How(die=point, pace=PACE, awake=awake, keep_unfinished=keep_unfinished))
        child.ends(-9)
        flow.died(f"{point}, lanes {awake}", [child], world.ahead(flow))


@pytest.mark.parametrize("world", fast("directory"), indirect=True)
def test_unfinished_epochs_are_purged(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(world.flow("sleeping lanes", tmp_path))
    _leave_unfinished_state_behind(world, flow, keep_unfinished=False)
    flow.finish()
    exact(world, flow)


@pytest.mark.parametrize("world", fast("kafka"), indirect=True)
def test_without_the_purge_it_goes_wrong(
    world: World, tmp_path: Path, watched: Watched, verdict: Callable[[str], None]
) -> None:
    """What the purge is for: without it the same deaths load models that have learnt what is yet to come.

    The guard sees it: nothing wrong gets out.
    """
    flow = watched(world.flow("unpurged", tmp_path))
    _leave_unfinished_state_behind(world, flow, keep_unfinished=True)
    child = flow.start(How(keep_unfinished=True))
    child.ends(1)
    assert "the lane's store does not fit its input" in child.stderr
    assert not prefix_differences(world.expected, world.read(flow))
    verdict(f"{flow.series}: {len(flow.deaths)} deaths, refused as inconsistent, as it must be")


@full
def test_the_placed_series_without_the_purge(
    world: World, tmp_path: Path, watched: Watched, verdict: Callable[[str], None]
) -> None:
    """The guard ends it before anything wrong is out."""
    flow = watched(world.flow("placed unpurged", tmp_path))
    deaths = placed_everywhere(world, 5, seed=2)
    reason = die_unpurged(world, flow, deaths, seed=2, guarded=True)
    assert reason is not None, "nothing went wrong: the deaths are badly placed"
    assert "the lane's store does not fit its input" in reason
    found = world.read(flow)
    assert not prefix_differences(world.expected, found)
    verdict(
        f"{flow.series}: after {len(flow.deaths)} of {len(deaths)} deaths refused as inconsistent, as it must be;"
        f" {count(found):,} records out till then, equal to the reference's first"
    )


@full
def test_the_placed_series_without_purge_and_guard(
    world: World, tmp_path: Path, watched: Watched, verdict: Callable[[str], None]
) -> None:
    """What they are for: models learn twice what they have learnt, and their output is wrong."""
    flow = watched(world.flow("placed unpurged unguarded", tmp_path))
    deaths = placed_everywhere(world, 5, seed=2)
    reason = die_unpurged(world, flow, deaths, seed=2, guarded=False)
    told = f"{flow.series}: after {len(flow.deaths)} of {len(deaths)} deaths"
    if reason is not None:
        # a directory still holds what was right: the wrong is refused where the two first differ
        assert world.kind == "directory"
        assert "differs from what stands after byte" in reason
        verdict(f"{told} refused, as what came again was not what stood")
    else:
        wrong = count_wrong(world.expected, world.read(flow))
        assert wrong.strange, "nothing went wrong: the deaths are badly placed"
        verdict(f"{told} run to the end: of {count(world.expected):,} records {wrong}, as it must be")


# -- more than one process -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", fast("kafka"), indirect=True)
def test_two_processes(world: World, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """Any of two is killed, the other goes by itself; both are started again."""
    flow = watched(world.flow("two processes", tmp_path))
    die_at_random(world, flow, 6 if crash_full else 1, processes=2, seed=5)
    points = [Placed("committed", 2), Placed("produced" if world.kind == "kafka" else "torn", 2)]
    points += [Placed("soon", 3), Placed("committed", 1), Placed("one-lane", 2), Placed("one-lane", 1, "raise")]
    die_placed(world, flow, points if crash_full else points[:1], processes=2, seed=6)
    flow.finish(processes=2)
    exact(world, flow)


@full
def test_rescaling(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """1 -> 2 -> 1 -> 3 -> 1 processes, deaths in between."""
    flow = watched(world.flow("rescaled", tmp_path))
    for number, processes in enumerate([1, 2, 1, 3]):
        die_placed(world, flow, [Placed("committed", 2)], processes=processes, seed=70 + number)
        die_at_random(world, flow, 1, processes=processes, seed=80 + number)
    flow.finish()
    exact(world, flow)


# -- at least once ---------------------------------------------------------------------------------------------------


def test_at_least_once_repeats_and_nothing_else(
    broker: KafkaWorld, crash_full: bool, tmp_path: Path, watched: Watched, verdict: Callable[[str], None]
) -> None:
    flow = watched(broker.flow("at least once", tmp_path, delivery="at-least-once"))
    die_placed(broker, flow, [Placed("committed", 2)], seed=7)
    die_at_random(broker, flow, 8 if crash_full else 1, seed=8)
    flow.finish()
    found = broker.read(flow)
    back = [
        rewinds(broker.expected[carries][lane], records)
        for carries in CARRIES
        for lane, records in found[carries].items()
    ]
    assert 0 < max(back) <= len(flow.deaths)
    repeats = count(found) - count(broker.expected)
    verdict(f"{flow.series}: {len(flow.deaths)} deaths, {repeats:,} exact repeats, nothing else")


# -- while the input still comes -------------------------------------------------------------------------------------


@full
def test_live_input(kafka: str, tmp_path: Path, watched: Watched, verdict: Callable[[str], None]) -> None:
    """No pace but the producer's: lanes are fed in bursts while the flow runs and dies."""
    live = LiveKafkaWorld(kafka, 6000)
    try:
        flow = watched(live.flow("live input", tmp_path))
        with live.fed():
            random_ = random.Random(9)
            for _ in range(8):
                die_after_a_while(live, flow, [flow.start()], random_)
        flow.finish()
        found = live.read(flow)
        live.take_reference(tmp_path)
        wrong = differences(live.expected, found)
        assert not wrong, "\n".join(wrong)
        verdict(f"{flow.series}: {len(flow.deaths)} deaths, {count(found):,} records equal to the reference")
    finally:
        live.topics.clear()


@full
@pytest.mark.parametrize("mixed", [DirectoryToKafkaWorld, KafkaToDirectoryWorld], ids=["to-kafka", "to-directory"])
def test_mixed_topics(
    mixed: type[DirectoryToKafkaWorld | KafkaToDirectoryWorld],
    kafka: str,
    tmp_path: Path,
    watched: Watched,
    exact: Exact,
) -> None:
    world = mixed(kafka, tmp_path, 1200)
    try:
        flow = watched(world.flow("from the other kind", tmp_path))
        die_placed(world, flow, placed_everywhere(world, 1, seed=10), seed=10)
        die_at_random(world, flow, 2, seed=11)
        for _ in range(2):
            child = flow.start(How(die="end:1"))
            child.ends(-9)
            flow.died("end:1", [child], world.ahead(flow))
        flow.finish()
        exact(world, flow)
    finally:
        world.topics.clear()


# -- epochs ----------------------------------------------------------------------------------------------------------


def test_lanes_commit_together_after_a_restart(directories: DirectoryWorld, tmp_path: Path, watched: Watched) -> None:
    flow = watched(directories.flow("together", tmp_path))
    for _ in range(2):
        child = flow.start(How(pace=PACE))
        child.wait_for("committed", 3)
        child.kill()
        assert {event["lanes"] for event in child.events("epoch")} == {4}
