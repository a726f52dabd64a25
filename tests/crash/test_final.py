"""The final snapshots come once, wherever in their commit a run dies, and however often it is started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.conftest import Exact, Watched, fast
from tests.crash.harness import How
from tests.crash.series import CHUNK, Placed, die_at
from tests.crash.worlds import World

POINTS = {
    "kafka": ("final-produced", "final-states", "final-record", "final-in-commit", "end", "final-soon", "end"),
    "directory": ("final-synced", "final-in-sql", "end", "final-soon", "end"),
}


@pytest.mark.parametrize("world", fast("kafka"), indirect=True)
def test_final_snapshots_come_once(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    """Each death lets at most one more lane come to its end, so the next still has one to die in."""
    flow = watched(world.flow("final", tmp_path))
    for point in POINTS[world.kind]:
        die_at(flow, Placed(point, 1), How(die=f"{point}:1", chunk=CHUNK))
    flow.finish()
    exact(world, flow)
    flow.finish()
    assert "has come to the end of its input already" in flow.children[-1].stderr
    exact(world, flow)
