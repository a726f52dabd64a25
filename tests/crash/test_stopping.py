"""Stops, stalls and second starts: a stop is a pause, and who has lost a lane does no harm."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.crash.compare import count, prefix_differences
from tests.crash.conftest import Exact, Watched, fast
from tests.crash.harness import Flow, How, one_goes
from tests.crash.series import PACE
from tests.crash.workload import LANES
from tests.crash.worlds import DirectoryWorld, KafkaWorld, World

full = pytest.mark.crash(full=True)


def _stop(flow: Flow, number: signal.Signals, rhythm: int) -> None:
    child = flow.start(How(pace=PACE, rhythm=rhythm))
    child.wait_for("committed", 4)
    child.send(number)
    child.ends(0, timeout=20)
    assert "stopped, everything committed" in child.stderr
    assert child.wasted == 0


def test_signals_pause(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """SIGTERM and SIGINT: exit 0, all that was read is committed, nothing final is said, going on is exact."""
    flow = watched(world.flow("signals", tmp_path))
    for number in (signal.SIGTERM, signal.SIGINT):
        _stop(flow, number, rhythm=number)
        world.settle(flow)
        found = world.read(flow)
        assert count(found) > 0
        assert not prefix_differences(world.expected, found)
        assert not any(
            b'"reason":"final"' in (record.value or b"") for lane in found["selections"].values() for record in lane
        )
    flow.finish()
    exact(world, flow)


@full
def test_graceful_restarts(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(world.flow("graceful restarts", tmp_path))
    for number in range(6):
        _stop(flow, signal.SIGTERM, rhythm=number)
    flow.finish()
    flow.finish()  # at the end: nothing is left to say
    exact(world, flow)


def test_a_second_start_is_refused(
    directories: DirectoryWorld, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    """A flow that writes directories is one process: while it lives, even frozen, a second is told who has them."""
    flow = watched(directories.flow("second start", tmp_path))
    sleeper = flow.start(How(pace=PACE))
    sleeper.wait_for("committed")
    for frozen in (False, True):
        if frozen:
            sleeper.send(signal.SIGSTOP)
        second = flow.start()
        second.ends(1)
        assert f"in use by process {sleeper.pid} on" in second.stderr
        assert "Traceback" not in second.stderr
    sleeper.send(signal.SIGCONT)
    sleeper.wait_for("committed", sleeper.commits + 2)
    sleeper.stop()
    flow.finish()
    exact(directories, flow)


@pytest.mark.parametrize("point", ["produced", pytest.param("record", marks=full), pytest.param("idle", marks=full)])
@pytest.mark.parametrize("member", ["one", pytest.param(None, marks=full)], ids=["static", "dynamic"])
def test_a_zombie_does_no_harm(
    broker: KafkaWorld, point: str, member: str | None, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    """Frozen, its lanes go to a successor, by its own name or after its session; then it wakes up."""
    flow = watched(broker.flow(f"zombie {point} {member}", tmp_path, member=member))
    zombie = flow.start(How(pace=PACE) if point == "idle" else How(die=f"{point}:9", how="stop", pace=PACE))
    if point == "idle":
        zombie.wait_for("committed", 9)
        zombie.send(signal.SIGSTOP)
    else:
        zombie.wait_until_stopped()
    successor = flow.start(How(pace=PACE))
    successor.wait_for_lanes(LANES)
    zombie.send(signal.SIGCONT)
    if member is None:
        zombie.wait_for("lost")  # it goes on as one of two
        time.sleep(2.0)
        zombie.stop()
    else:
        one_goes(zombie, successor)
    assert "Traceback" not in zombie.stderr
    flow.finish()
    exact(broker, flow)


@full
def test_a_zombie_that_wakes_after_the_end(
    broker: KafkaWorld, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    flow = watched(broker.flow("late zombie", tmp_path, member=None))
    zombie = flow.start(How(die="produced:9", how="stop", pace=PACE))
    zombie.wait_until_stopped()
    flow.start().ends(0)
    exact(broker, flow)
    zombie.send(signal.SIGCONT)
    zombie.ends(0)
    exact(broker, flow)


def test_a_stall_beyond_the_transaction(
    broker: KafkaWorld, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    """The broker aborts the transaction of a lane that stands still; the lane is opened again, the others go on."""
    flow = watched(broker.flow("stall", tmp_path))
    child = flow.start(How(die="produced:5", how="stall", stall_seconds=20, pace=1, transaction_seconds=6.0))
    child.wait_for("placed")
    child.wait_for("failed")
    [failed] = child.events("failed")
    assert "the transaction timed out" in failed["problem"]
    before = child.commits
    lane = failed["lane"]
    child.wait_until(lambda: any(e["lane"] == lane for e in child.events("committed")[before:]), "the lane's commit")
    [placed] = child.events("placed")
    meanwhile = [event["lane"] for event in child.events("committed") if placed["at"] < event["at"] < failed["at"]]
    assert set(meanwhile) == set(range(LANES)) - {lane}
    assert len(meanwhile) > 2 * LANES
    child.stop()
    flow.finish()
    exact(broker, flow)


@full
def test_a_frozen_process_outlives_its_transactions(
    broker: KafkaWorld, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    """Frozen until broker and group have given it up; woken up it opens its lanes again and goes on."""
    flow = watched(broker.flow("frozen", tmp_path, member=None))
    child = flow.start(How(die="produced:5", how="stop", pace=PACE, transaction_seconds=8.0))
    child.wait_until_stopped()
    assert broker.unfinished(flow)
    deadline = time.monotonic() + 40
    while broker.unfinished(flow):
        assert time.monotonic() < deadline, "the broker does not abort the transaction"
        time.sleep(0.2)
    before = child.commits
    child.send(signal.SIGCONT)
    child.wait_for("committed", before + 8)
    child.stop()
    flow.finish()
    exact(broker, flow)


@pytest.mark.parametrize("world", fast("kafka"), indirect=True)
def test_an_exception_parks_a_lane(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """It is told, the other lanes come to their end, the process ends with 1; the next one makes up for it."""
    flow = watched(world.flow("exception", tmp_path))
    point = "states" if world.kind == "kafka" else "in-sql"
    child = flow.start(How(die=f"{point}:6", how="raise", pace=60))
    child.ends(1)
    assert f"placed at {point}" in child.stderr
    [failed] = child.events("failed")
    assert f"lane {failed['lane']} is parked" in child.stderr
    world.settle(flow)
    found = world.read(flow)
    for carries, lanes in world.expected.items():
        for lane, records in lanes.items():
            if lane == failed["lane"]:
                assert list(found[carries][lane]) == list(records[: len(found[carries][lane])])
            else:
                assert list(found[carries][lane]) == list(records)
    assert len(found["predictions"][failed["lane"]]) < len(world.expected["predictions"][failed["lane"]])
    flow.finish()
    exact(world, flow)
