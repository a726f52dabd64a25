"""Schedules of faults, each drawn from its seed: `make faults`, and ten of them with the other tests.

`make faults ARGS="--seed 17 --schedules 1"` plays one again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.disorder import BUGS
from tests.faults.play import Play, Played, Stage, Wrong
from tests.faults.schedule import Event, Schedule, draw

StageOf = Callable[[str], Stage]
CLUSTER_EVERY = 20


@pytest.mark.timeout(600)
def test_a_schedule(seed: int, stage_of: StageOf, tmp_path: Path, note: Callable[[Played], None]) -> None:
    schedule = draw(seed, kind="cluster" if seed % CLUSTER_EVERY == CLUSTER_EVERY - 1 else None)
    print(schedule)
    note(Play(schedule, stage_of(schedule.kind), tmp_path).play())


def test_a_seed_gives_the_same_again() -> None:
    drawn = [draw(seed) for seed in range(50)]
    assert drawn == [draw(seed) for seed in range(50)]
    assert len({schedule.events for schedule in drawn}) == 50
    befallen = {event.fault for seed in range(200) for event in draw(seed).events}
    befallen |= {event.fault for seed in range(200) for event in draw(seed, kind="cluster").events}
    assert befallen >= {"kill", "term", "freeze", "cut", "delay", "throttle", "disk full", "clock", "compact"}
    assert befallen >= {"broker killed", "broker frozen", "broker lost", "leader moved"}


def _deaths(number: int) -> tuple[Event, ...]:
    return tuple(Event(0.6 + 0.2 * at, "kill", 0.0, "", 0.0) for at in range(number))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", BUGS)
def test_a_planted_bug_is_caught(part: str, stage_of: StageOf, tmp_path: Path) -> None:
    """In each part of a flow, one that shows only when a process goes on where another has died."""
    schedule = Schedule(0, "kafka", 1, False, _deaths(3), "nothing")
    with pytest.raises(Wrong) as caught:
        Play(schedule, stage_of("kafka"), tmp_path, bug=part).play()
    print(f"{part}: {str(caught.value).splitlines()[1][:200]}")
