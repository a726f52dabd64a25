"""The final snapshots come once, wherever in their commit a run dies, and however often it is started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.conftest import Exact, Watched, fast
from tests.crash.series import die_at_the_end
from tests.crash.worlds import World

BEFORE = {"kafka": ("final-produced", "final-states", "final-record"), "directory": ("final-synced", "final-in-sql")}


@pytest.mark.parametrize("world", fast("kafka"), indirect=True)
def test_final_snapshots_come_once(world: World, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    flow = watched(world.flow("final", tmp_path))
    for point in BEFORE[world.kind]:
        die_at_the_end(flow, (0,), point)
    die_at_the_end(flow, (0,), "final-in-commit" if world.kind == "kafka" else "end")
    die_at_the_end(flow, (1,), "final-soon")
    die_at_the_end(flow, (2,))
    flow.finish()
    exact(world, flow)
    flow.finish()
    assert "has come to the end of its input already" in flow.children[-1].stderr
    exact(world, flow)
