"""Schedules of faults, each drawn from its seed: `make faults`, and ten of them with the other tests.

`make faults ARGS="--seed 17 --schedules 1"` plays one again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.disorder import BUGS
from tests.faults.play import Play, Played, Stage, Wrong
from tests.faults.schedule import FAST, Event, Schedule, draw

StageOf = Callable[[str], Stage]


@pytest.mark.timeout(600)
def test_a_schedule(seed: int, stage_of: StageOf, tmp_path: Path, note: Callable[[Played], None]) -> None:
    schedule = draw(seed)
    print(schedule)
    played = Play(schedule, stage_of(schedule.kind), tmp_path).play()
    note(played)
    if played.skipped and os.environ.get("CI") == "true":
        pytest.fail(f"{played.skipped} faults were skipped for want of a tool (Debian: libfaketime), and CI=true")


def test_the_chosen_ones_cover_what_they_should() -> None:
    drawn = [draw(seed) for seed in FAST]
    assert len(drawn) == 10
    assert {schedule.kind for schedule in drawn} == {"kafka", "embedded", "cluster"}
    befallen = {event.fault for schedule in drawn for event in schedule.events}
    assert befallen >= {"clock", "broker killed", "broker lost", "leader moved", "disk full", "compact"}
    interrupted = {s.kind for s in drawn for event in s.events if event.detail.startswith("restore")}
    assert interrupted == {"kafka", "embedded"}
    assert {s.last for s in drawn} >= {"state topic deleted", "partitions added"}


@pytest.mark.timeout(600)
def test_a_state_is_restored_from_a_compacted_topic(stage_of: StageOf, tmp_path: Path) -> None:
    events = (Event(0.5, "compact", 0.0, "", 0.0), Event(0.5, "kill", 0.0, "", 0.0))
    assert Play(Schedule(0, "kafka", 1, False, events, "nothing"), stage_of("kafka"), tmp_path).play().compacted == 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("topic", ["input", "selections"])
def test_a_topic_that_is_deleted_is_named(topic: str, stage_of: StageOf, tmp_path: Path) -> None:
    schedule = Schedule(0, "kafka", 1, False, (), f"{topic} topic deleted")
    assert Play(schedule, stage_of("kafka"), tmp_path).play().stops == 1


@pytest.mark.timeout(600)
def test_without_a_disk_of_its_own_files_are_limited(stage_of: StageOf, tmp_path: Path) -> None:
    events = (Event(0.5, "disk full", 0.0, "", 0.0),)
    stage = replace(stage_of("embedded"), disk=None)
    assert Play(Schedule(0, "embedded", 1, False, events, "nothing"), stage, tmp_path).play().stops == 1


def test_what_a_tool_is_missing_for_is_counted(stage_of: StageOf, tmp_path: Path) -> None:
    events = (Event(0.0, "clock", 0.0, "+40s", 0.0),)
    stage = replace(stage_of("embedded"), clock=None)
    played = Play(Schedule(0, "embedded", 1, True, events, "nothing"), stage, tmp_path).play()
    assert (played.events, played.skipped) == (0, 1)


def test_a_seed_gives_the_same_again() -> None:
    drawn = [draw(seed) for seed in range(50)]
    assert drawn == [draw(seed) for seed in range(50)]
    assert len({schedule.events for schedule in drawn}) == 50
    befallen = {event.fault for seed in range(200) for event in draw(seed).events}
    assert befallen >= {"kill", "term", "freeze", "cut", "delay", "throttle", "disk full", "clock", "compact"}
    assert befallen >= {"broker killed", "broker frozen", "broker lost", "leader moved"}


def _again_and_again(kind: str) -> Schedule:
    """A process dies, or stops, where another goes on; beside directories what one that dies has written beyond its
    commit is compared by the flow itself, and the bug would not come as far as the output."""
    fault = "kill" if kind == "kafka" else "term"
    events = tuple(Event(0.6 + 0.2 * at, fault, 0.0, "", 0.0) for at in range(3))
    return Schedule(0, kind, 1, False, events, "nothing")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["kafka", "embedded"])
@pytest.mark.parametrize("part", BUGS)
def test_a_planted_bug_is_caught(part: str, kind: str, stage_of: StageOf, tmp_path: Path) -> None:
    """In each part of a flow, one that shows only when a process goes on where another has ended: in the output."""
    with pytest.raises(Wrong, match=r"(?m)^(selections|predictions|dead_letters) \d: \d+ records instead of") as caught:
        Play(_again_and_again(kind), stage_of(kind), tmp_path, bug=part).play()
    print(f"{kind}, {part}: {str(caught.value).splitlines()[1][:200]}")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["kafka", "embedded"])
def test_without_a_bug_nothing_is_caught(kind: str, stage_of: StageOf, tmp_path: Path) -> None:
    """The control: it is the bug that is caught, not the schedule."""
    assert Play(_again_and_again(kind), stage_of(kind), tmp_path).play().records > 0
