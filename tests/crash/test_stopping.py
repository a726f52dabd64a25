"""Stops, pauses and second starts: a stop is a pause, a zombie is harmless, and one store serves one running flow."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.crash.compare import count, prefix_differences
from tests.crash.conftest import Exact, Watched, fast
from tests.crash.harness import Flow, How
from tests.crash.series import PACE
from tests.crash.worlds import NAME, DirectoryWorld, KafkaWorld, World

full = pytest.mark.crash(full=True)


def _stop(flow: Flow, processes: int, told: int, number: signal.Signals, rhythm: int) -> None:
    children = flow.start_all(How(pace=PACE, rhythm=rhythm), processes)
    children[told].wait_for("committed", 2)
    children[told].send(number)
    for child in children:
        child.ends(0, timeout=20)
    assert "stopped at a checkpoint" in children[told].stderr
    assert flow.is_clean


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=full)])
def test_signals_pause(world: World, processes: int, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """SIGTERM and SIGINT to any process: all exit 0, nothing final is said, and going on gives the same output."""
    flow = watched(world.flow(f"signals {processes}", tmp_path))
    for number in (signal.SIGTERM, signal.SIGINT):
        for told in range(processes):
            _stop(flow, processes, told, number, rhythm=told)
            found = world.read(flow)
            assert count(found) > 0
            assert not prefix_differences(world.expected, found)
            assert not any(
                b'"reason":"final"' in (record.value or b"") for lane in found["selections"].values() for record in lane
            )
    flow.finish(processes=processes)
    assert flow.is_clean
    exact(world, flow)


@full
def test_graceful_restarts(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(world.flow("graceful restarts", tmp_path))
    for number, processes in enumerate([1, 2, 2, 1]):
        _stop(flow, processes, number % processes, signal.SIGTERM, rhythm=number)
    flow.finish()
    flow.finish()  # at the end: nothing is left to say
    exact(world, flow)


@pytest.mark.parametrize("world", fast("directory"), indirect=True)
def test_a_second_start_is_refused(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """While a flow is stopped by SIGSTOP its successor on the same store is told who holds it; then it goes on."""
    flow = watched(world.flow("second start", tmp_path))
    sleeper = flow.start(How(pace=PACE))
    sleeper.wait_for("committed")
    sleeper.send(signal.SIGSTOP)
    second = flow.start()
    second.ends(1)
    assert f"in use by process {sleeper.pid} on" in second.stderr
    sleeper.send(signal.SIGCONT)
    time.sleep(0.5)
    sleeper.send(signal.SIGTERM)
    sleeper.ends(0, timeout=20)
    flow.finish()
    exact(world, flow)


@pytest.mark.parametrize("point", ["produced", pytest.param("committed", marks=full), pytest.param("idle", marks=full)])
def test_a_zombie_is_fenced(broker: KafkaWorld, point: str, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """With another store a successor may take over (`--adopt`); what the zombie does after that is never seen."""
    flow = watched(broker.flow(f"zombie {point}", tmp_path))
    zombie = flow.start(How(pace=PACE) if point == "idle" else How(die=f"{point}:3", how="stop", pace=PACE))
    if point == "idle":
        zombie.wait_for("committed", 3)
        zombie.send(signal.SIGSTOP)
    else:
        zombie.wait_until_stopped()
    other = tmp_path / "other.store"
    refused = flow.start(store=other)
    refused.ends(1)
    assert "--adopt" in refused.stderr
    assert "is new" in refused.stderr
    successor = flow.start(How(adopt=True), store=other)
    successor.ends(0)
    exact(broker, flow)
    zombie.send(signal.SIGCONT)
    zombie.ends(1, timeout=60)
    assert f"another process has taken over the flow {NAME!r}" in zombie.stderr
    assert "Traceback" not in zombie.stderr
    exact(broker, flow)


def test_a_stall_says_that_the_transaction_timed_out(
    broker: KafkaWorld, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    flow = watched(broker.flow("stall", tmp_path))
    child = flow.start(How(die="produced:3", how="stop", pace=PACE, transaction_seconds=8.0))
    child.wait_until_stopped()
    assert broker.unfinished(flow)
    deadline = time.monotonic() + 40
    while broker.unfinished(flow):
        assert time.monotonic() < deadline, "the broker does not abort the transaction"
        time.sleep(0.2)
    child.send(signal.SIGCONT)
    child.ends(1, timeout=60)
    assert "the transaction timed out" in child.stderr
    assert "Traceback" not in child.stderr
    flow.finish()
    exact(broker, flow)


@pytest.mark.parametrize("processes", [1, 2])
def test_an_exception_is_told(directories: DirectoryWorld, processes: int, tmp_path: Path, watched: Watched) -> None:
    flow = watched(directories.flow(f"exception {processes}", tmp_path))
    children = flow.start_all(How(die="one-lane:2", how="raise", pace=PACE), processes, only=0)
    for child in children:
        child.ends(1)
    assert "placed at one-lane" in children[0].stderr
