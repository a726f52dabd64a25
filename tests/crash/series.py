"""Series of deaths: at random moments, and placed where it hurts."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.crash.harness import Child, Flow, How
from tests.crash.worlds import World

PACE = 3
"""Records a poll: the input lasts for the whole series."""
SLOW = 1
CHUNK = 150
"""Bytes: even the smallest state takes several."""


class Placed(NamedTuple):
    point: str
    at: int
    how: str = "kill"

    def __str__(self) -> str:
        return f"{self.point}:{self.at}"


KAFKA_POINTS = (
    "produced",
    "chunk",
    "states",
    "record",
    "in-commit",
    "committed",
    "soon",
    "one-lane",
    "fenced",
    "opened",
    "restore",
)
DIRECTORY_POINTS = ("synced", "in-sql", "torn", "committed", "soon", "one-lane", "opened", "restore")
OPENING = ("fenced", "opened", "restore", "run")


def placed_everywhere(world: World, rounds: int, seed: int, *, points: Sequence[str] = ()) -> list[Placed]:
    """Each point `rounds` times, shuffled, in the first to the fifth commit of a run, or the opening of any lane."""
    random_ = random.Random(seed)
    points = points or (KAFKA_POINTS if world.kind == "kafka" else DIRECTORY_POINTS)
    deaths = [
        Placed(point, random_.randint(1, {"chunk": 12, "restore": 2}.get(point, 3 if point in OPENING else 5)))
        for point in points
        for _ in range(rounds)
    ]
    random_.shuffle(deaths)
    while deaths[0].point == "restore":  # of nothing
        deaths.append(deaths.pop(0))
    return deaths


def told(death: Placed, rhythm: int, workers: int = 1) -> How:
    """A run that dies there. With all lanes awake each has something to commit."""
    quiet = None if "one-lane" in death.point else rhythm
    chunk = CHUNK if death.point == "chunk" else None
    return How(die=str(death), how=death.how, pace=PACE, rhythm=quiet, chunk=chunk, workers=workers)


def die_placed(flow: Flow, deaths: Sequence[Placed], *, seed: int = 0, workers: int = 1) -> None:
    for number, death in enumerate(deaths):
        die_at(flow, death, told(death, seed * 1000 + number, workers=workers))


def die_at(flow: Flow, death: Placed, how: How) -> None:
    child = flow.start(how)
    code = child.wait()
    assert code == -9, f"it did not die at {death} but ended with {code}:\n{child.stderr}"
    flow.died(str(death), child)


def die_at_the_end(flow: Flow, lanes: Sequence[int], point: str = "end") -> None:
    """Each time one lane alone comes to its end: the others are still to come to theirs."""
    for lane in lanes:
        die_at(flow, Placed(point, 1), How(die=f"{point}:1", pace=1000, awake=(lane,)))


def die_at_random(flow: Flow, number: int, *, seed: int = 0, workers: int = 1) -> None:
    random_ = random.Random(seed)
    for death in range(number):
        child = flow.start(How(pace=PACE, rhythm=seed * 1000 + death, workers=workers))
        die_after_a_while(flow, child, random_)


def die_after_a_while(flow: Flow, victim: Child, random_: random.Random, longest: float = 1.5) -> None:
    """kill -9 some time after it has started or, mostly, after its first commit."""
    since = random_.choice(["started", "committed", "committed", "committed"])
    pause = random_.uniform(0.05, longest)
    victim.wait_for(since)
    time.sleep(pause)
    assert victim.alive, f"it ended before it was killed:\n{victim.stderr}"
    victim.kill()
    flow.died(f"{pause:.2f} s after {since}", victim)


def lose_any_of(flow: Flow, processes: int, number: int, *, seed: int, how: How) -> None:
    """So many processes at a time; now and then one is killed, and another is started."""
    random_ = random.Random(seed)
    for _ in range(number):
        while len(flow.running) < processes:
            flow.start(how)
        victim = random_.choice(flow.running)
        die_after_a_while(flow, victim, random_)
