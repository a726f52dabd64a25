"""Series of deaths: at random moments, and placed where it hurts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
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


def _runs(deaths: Sequence[Placed], seed: int) -> Iterator[tuple[Placed, How]]:
    """Each death with what its run is told; the same for the same seed, whatever else is switched off."""
    for number, death in enumerate(deaths):
        # with all lanes awake every epoch has several of them
        rhythm = None if death.point == "one-lane" else seed * 1000 + number
        yield death, How(die=f"{death.point}:{death.epoch}", how=death.how, pace=PACE, rhythm=rhythm)


def die_placed(world: World, flow: Flow, deaths: Sequence[Placed], *, processes: int = 1, seed: int = 0) -> None:
    random_ = random.Random(seed)
    for death, how in _runs(deaths, seed):
        victim = random_.randrange(processes)
        children = flow.start_all(how, processes, only=victim)
        code = children[victim].wait()
        assert _as_placed(death, children[victim]), (
            f"it did not die at {death} but ended with {code}:\n{children[victim].stderr}"
        )
        _record(world, flow, str(death), children)


def _as_placed(death: Placed, ended: Child) -> bool:
    if death.how == "raise":
        return ended.process.returncode == 1 and bool(ended.events("placed"))
    return ended.process.returncode == -9


def die_unpurged(world: World, flow: Flow, deaths: Sequence[Placed], *, seed: int, guarded: bool) -> str | None:
    """`die_placed` and the run after it, without the purge and perhaps the guard; why it was refused, if it was."""
    for death, how in _runs(deaths, seed):
        child = flow.start(replace(how, keep_unfinished=True, unguarded=not guarded))
        child.wait()
        if not _as_placed(death, child):
            return _reason(child)
        _record(world, flow, str(death), [child])
    child = flow.start(How(keep_unfinished=True, unguarded=not guarded))
    if child.wait():
        return _reason(child)
    flow.settle([child])
    return None


def _reason(refused: Child) -> str:
    assert refused.process.returncode == 1, f"exit code {refused.process.returncode}:\n{refused.stderr}"
    assert not refused.events("placed"), f"it was not refused but died as it was told:\n{refused.stderr}"
    return refused.stderr


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
