"""Kill it at any moment, start it again, let it finish: the output is that of a run that was never disturbed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.crash.harness import Flow, How
from tests.crash.series import PACE, die_at_random, die_placed, placed_everywhere
from tests.crash.worlds import DirectoryWorld, World

Watched = Callable[[Flow], Flow]
Exact = Callable[[World, Flow], None]


def test_random_moments(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(world.flow("random", tmp_path))
    die_at_random(world, flow, 3, seed=1)
    flow.finish()
    exact(world, flow)


def test_placed(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(world.flow("placed", tmp_path))
    die_placed(world, flow, placed_everywhere(world, 1, seed=2), seed=2)
    flow.finish()
    exact(world, flow)


def test_lanes_commit_together_after_a_restart(directories: DirectoryWorld, tmp_path: Path, watched: Watched) -> None:
    flow = watched(directories.flow("together", tmp_path))
    for _ in range(2):
        child = flow.start(How(pace=PACE))
        child.wait_for("committed", 3)
        child.kill()
        assert {event["lanes"] for event in child.events("epoch")} == {4}
