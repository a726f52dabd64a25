"""Processes that share nothing: they join, leave, freeze and die under load, and lanes move between them."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.crash.compare import count_wrong, differences
from tests.crash.conftest import Exact, Verdict, Watched
from tests.crash.harness import Child, Flow, How, moves, one_goes
from tests.crash.series import PACE, SLOW, lose_any_of
from tests.crash.workload import LANES
from tests.crash.worlds import DirectoryToKafkaWorld, KafkaWorld

full = pytest.mark.crash(full=True)
UNDER_LOAD = How(pace=SLOW)
"""Every lane has something to read all the time, so pauses can be seen."""


def _rescale(flow: Flow, processes: int) -> None:
    while len(flow.running) > processes:
        flow.running[0].stop()
    while len(flow.running) < processes:
        flow.start(UNDER_LOAD)
    _settle(flow, min(processes, LANES))


def _settle(flow: Flow, owners: int, timeout: float = 90.0) -> None:
    """Until all lanes have been committed by those who have them now, which are so many processes."""
    deadline = time.monotonic() + timeout
    while True:
        held = [child.lanes for child in flow.running]
        if sorted(lane for lanes in held for lane in lanes) == list(range(LANES)) and sum(map(bool, held)) == owners:
            return
        assert time.monotonic() < deadline, f"lanes are shared out as {held}, {owners} owners were wanted"
        time.sleep(0.2)


class Pauses:
    """The longest time between a lane's commits at two owners, by what made it move."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._began = 0.0
        self.longest: dict[str, float] = {}

    def begin(self) -> None:
        self._began = time.monotonic()

    def end(self, cause: str) -> None:
        pauses = [move.pause for move in moves(self._flow.children) if move.at > self._began]
        assert pauses, f"no lane has moved by {cause}"
        self.longest[cause] = max(*pauses, self.longest.get(cause, 0.0))

    def __str__(self) -> str:
        told = ", ".join(f"{cause} {seconds:.1f} s" for cause, seconds in self.longest.items())
        return f"{self._flow.series}: longest pause of a lane: {told}"


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=full)])
def test_join_leave_kill_and_freeze(
    broker: KafkaWorld, rounds: int, tmp_path: Path, watched: Watched, exact: Exact, verdict: Verdict
) -> None:
    flow = watched(broker.flow(f"members {rounds}", tmp_path, member=None))
    pauses = Pauses(flow)
    first = flow.start(UNDER_LOAD)
    first.wait_for_lanes(LANES)
    for _ in range(rounds):
        pauses.begin()
        second = flow.start(UNDER_LOAD)
        _settle(flow, 2)
        pauses.end("join")
        pauses.begin()
        second.stop()
        _settle(flow, 1)
        pauses.end("leave")
        victim = flow.start(UNDER_LOAD)
        _settle(flow, 2)
        pauses.begin()
        victim.kill()
        flow.died("one of two", victim)
        _settle(flow, 1)
        pauses.end("kill")
        if rounds > 1:
            frozen = flow.start(UNDER_LOAD)
            _settle(flow, 2)
            pauses.begin()
            frozen.send(signal.SIGSTOP)
            first.wait_until(lambda: len(first.lanes) == LANES, "all lanes back")
            pauses.end("freeze")
            frozen.send(signal.SIGCONT)
            _settle(flow, 2)
            frozen.stop()
            _settle(flow, 1)
    flow.finish()
    exact(broker, flow)
    verdict(str(pauses))
    assert pauses.longest["join"] < 10
    assert pauses.longest["leave"] < 10
    assert pauses.longest["kill"] < 20


@full
def test_rescaling_under_load(
    broker: KafkaWorld, tmp_path: Path, watched: Watched, exact: Exact, verdict: Verdict
) -> None:
    """1 -> 3 -> 2 -> 5 processes: more than lanes, so one stands by; nothing is shared between them."""
    flow = watched(broker.flow("rescaled", tmp_path, member=None))
    pauses = Pauses(flow)
    _rescale(flow, 1)
    for processes in (3, 2, 5):
        pauses.begin()
        _rescale(flow, processes)
        pauses.end(f"to {processes}")
    victim = next(child for child in flow.running if child.lanes)
    victim.kill()
    flow.died("one of five", victim)
    _settle(flow, LANES)
    for child in flow.running:
        child.stop()
    flow.finish(processes=2)
    exact(broker, flow)
    verdict(str(pauses))


@pytest.mark.parametrize("processes", [3])
def test_any_of_several(
    broker: KafkaWorld, processes: int, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    """Any one is killed, at any moment; the others go on, and one more is started."""
    flow = watched(broker.flow(f"any of {processes}", tmp_path, member=None))
    lose_any_of(flow, processes, 24 if crash_full else 2, seed=21, how=UNDER_LOAD)
    flow.finish(processes=2)
    exact(broker, flow)


@full
@pytest.mark.parametrize("point", ["produced", "record", "in-commit", "committed", "fenced", "opened", "restore"])
def test_one_of_two_dies_placed(
    broker: KafkaWorld, point: str, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    flow = watched(broker.flow(f"one of two {point}", tmp_path, member=None))
    flow.start(UNDER_LOAD).wait_for_lanes(LANES)
    for at in (1, 2):
        victim = flow.start(How(die=f"{point}:{at}", pace=PACE))
        victim.ends(-9)
        flow.died(f"{point}:{at}", victim)
    flow.finish()
    exact(broker, flow)


def test_take_over_of_a_running_owner(
    broker: KafkaWorld, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    """A second process of the same name takes the lanes of the first while it runs; one of them ends, and says why."""
    flow = watched(broker.flow("take-over", tmp_path))
    owner = flow.start(How(pace=PACE))
    for _ in range(8 if crash_full else 2):
        owner.wait_for_lanes(LANES)
        ended, owner = one_goes(owner, flow.start(How(pace=PACE)))
        assert "Traceback" not in ended.stderr
    owner.wait_for_lanes(LANES)
    flow.finish()
    exact(broker, flow)


def _contend(flow: Flow, contenders: int, seconds: float, how: How) -> list[Child]:
    """Processes that all take all lanes, whoever has them, as if the group had gone mad."""
    children = [flow.start(how) for _ in range(contenders)]
    for child in children:
        child.wait_for("opened", LANES)
    time.sleep(seconds)
    return children


def test_contenders_fence_each_other(
    broker: KafkaWorld, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact, verdict: Verdict
) -> None:
    """No group keeps them apart: fencing alone does."""
    flow = watched(broker.flow("contenders", tmp_path))
    children = _contend(flow, 3, 25 if crash_full else 6, How(pace=PACE, contend=LANES))
    for child in children:
        child.stop()
    flow.finish()
    exact(broker, flow)
    fenced = sum("another process has opened" in e["problem"] for child in children for e in child.events("failed"))
    assert fenced > 5
    verdict(f"{flow.series}: {fenced} times fenced, {sum(child.commits for child in children)} commits")


def test_reading_before_fencing_is_caught(
    broker: KafkaWorld, tmp_path: Path, watched: Watched, verdict: Verdict
) -> None:
    """The control: in the wrong order the same contention gives wrong output, and the comparison finds it."""
    flow = watched(broker.flow("wrong order", tmp_path))
    children = _contend(flow, 2, 6, How(pace=PACE, contend=LANES, wrong_order=True))
    for child in children:
        child.send(signal.SIGTERM)
        child.wait()
    last = flow.start()
    refused = last.wait() != 0
    broker.settle(flow)
    found = broker.read(flow)
    assert differences(broker.expected, found), "nothing went wrong: the control shows nothing"
    assert count_wrong(broker.expected, found).repeated
    end = "refused in the end" if refused else "run to the end"
    verdict(f"{flow.series}: {count_wrong(broker.expected, found)}, {end}, as it must be")


def test_a_bounded_run_over_three_processes(
    broker: KafkaWorld, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    """One is killed before its first commit, one comes late, one after the end: all others exit 0, all is said once."""
    flow = watched(broker.flow("bounded", tmp_path, member=None))
    hasty = flow.start(How(die="opened:1"))
    hasty.ends(-9)
    flow.died("opened:1, alone", hasty)
    first = [flow.start(How(pace=20)) for _ in range(2)]
    victim = flow.start(How(die="produced:1", pace=20))
    victim.ends(-9)
    flow.died("produced:1, one of three", victim)
    late = flow.start(How(pace=20))
    for child in (*first, late):
        child.ends(0)
        assert "the input has ended" in child.stderr or "to the end of its input already" in child.stderr
    exact(broker, flow)
    over = flow.start()
    over.ends(0)
    assert "has come to the end of its input already" in over.stderr
    exact(broker, flow)


@full
def test_several_processes_from_directories(
    kafka: str, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    """The input may lie in directories that all can read: lanes move all the same."""
    world = DirectoryToKafkaWorld(kafka, tmp_path, 2500)
    try:
        flow = watched(world.flow("several from directories", tmp_path, member=None))
        lose_any_of(flow, 2, 6, seed=random.Random(31).randrange(1000), how=UNDER_LOAD)
        flow.finish(processes=2)
        exact(world, flow)
    finally:
        world.topics.clear()
