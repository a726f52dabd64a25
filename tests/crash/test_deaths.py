"""Kill it at any moment, start it again, let it finish: the output is that of a run that was never disturbed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.crash.harness import Flow
from tests.crash.series import die_at_random, die_placed, placed_everywhere
from tests.crash.worlds import World

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
