"""Series of deaths: at random moments, and placed where it hurts."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.crash.harness import Child, Flow, How, wait_for_peers
from tests.crash.worlds import World

PACE = 3
"""Records a poll: the input lasts for the whole series."""


class Placed(NamedTuple):
    point: str
    epoch: int
    how: str = "kill"

    def __str__(self) -> str:
        return f"{'exception' if self.how == 'raise' else self.point}:{self.epoch}"


KAFKA_POINTS = (
    ("produced", "kill"),
    ("committed", "kill"),
    ("one-lane", "kill"),
    ("one-lane", "raise"),
    ("soon", "kill"),
)
DIRECTORY_POINTS = (
    ("committed", "kill"),
    ("torn", "kill"),
    ("one-lane", "kill"),
    ("one-lane", "raise"),
    ("soon", "kill"),
)


def placed_everywhere(world: World, rounds: int, seed: int) -> list[Placed]:
    """Each point `rounds` times, shuffled, in the first to the fourth epoch of a run."""
    random_ = random.Random(seed)
    points = KAFKA_POINTS if world.kind == "kafka" else DIRECTORY_POINTS
    deaths = [Placed(point, random_.randint(1, 4), how) for point, how in points for _ in range(rounds)]
    random_.shuffle(deaths)
    return deaths


def die_placed(world: World, flow: Flow, deaths: Sequence[Placed], *, processes: int = 1, seed: int = 0) -> None:
    random_ = random.Random(seed)
    for number, death in enumerate(deaths):
        victim = random_.randrange(processes)
        # with all lanes awake every epoch has several of them
        rhythm = None if death.point == "one-lane" else seed * 1000 + number
        how = How(die=f"{death.point}:{death.epoch}", how=death.how, pace=PACE, rhythm=rhythm)
        children = flow.start_all(how, processes, only=victim)
        code = children[victim].wait()
        stderr = children[victim].stderr
        if death.how == "raise":
            assert code == 1, f"exit code {code}:\n{stderr}"
            assert children[victim].events("placed")
        else:
            assert code == -9, f"it did not die at {death} but ended with {code}:\n{stderr}"
        _record(world, flow, str(death), children)


def die_at_random(world: World, flow: Flow, number: int, *, processes: int = 1, seed: int = 0) -> None:
    random_ = random.Random(seed)
    for death in range(number):
        children = flow.start_all(How(pace=PACE, rhythm=seed * 1000 + death), processes)
        die_after_a_while(world, flow, children, random_)


def die_after_a_while(world: World, flow: Flow, children: Sequence[Child], random_: random.Random) -> None:
    """kill -9 to any process, 0.3 to 2.5 s after it has started or, mostly, after its first commit."""
    victim = random_.choice(children)
    since = random_.choice(["started", "committed", "committed", "committed"])
    pause = random_.uniform(0.3, 2.5)
    victim.wait_for(since)
    time.sleep(pause)
    assert victim.process.poll() is None, f"it ended before it was killed:\n{victim.stderr}"
    victim.kill()
    _record(world, flow, f"{pause:.2f} s after {since}", children)


def _record(world: World, flow: Flow, moment: str, children: Sequence[Child]) -> None:
    peers = wait_for_peers(children) if len(children) > 1 else ""
    flow.died(moment, children, world.ahead(flow), peers)
