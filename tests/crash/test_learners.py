"""Learners whose state is of another kind than OFS's: it grows, it draws at random, it holds every weight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.crash.conftest import Exact, Watched, fast
from tests.crash.harness import Flow, How
from tests.crash.series import Placed, die_at_random, die_placed, placed_everywhere
from tests.crash.workload import Width
from tests.crash.worlds import DirectoryWorld, KafkaWorld, Learns, World

SIZE = 1000
"""Records a lane."""
GROWN = 800
"""Records in all lanes."""
KINDS = {
    "growing": Learns("stsd", {"proportion": 0.3, "lam": 10.0}, Width(features=6000, present=120)),
    "random": Learns("ofs-partial", {"k": 5, "epsilon": 0.4, "seed": 3}),
    "dense": Learns("pa-l2", {"k": 5, "beta": 2.0, "trigger": "hinge"}),
}


@pytest.fixture
def world_of(request: pytest.FixtureRequest, tmp_path: Path, learns: Learns) -> Iterator[World]:
    if request.param == "directory":
        yield DirectoryWorld(tmp_path, SIZE, learns)
        return
    world = KafkaWorld(request.getfixturevalue("kafka"), tmp_path, SIZE, learns)
    yield world
    world.topics.clear()


def _die_grown(flow: Flow) -> None:
    """With so much behind it that what grows has grown."""
    child = flow.start(How(pace=10))
    child.wait_until(lambda: sum(event["records"] for event in child.events("polled")) > GROWN, "growth")
    commits = child.commits
    child.wait_for("committed", commits + 8)
    child.kill()
    flow.died("grown", child)


@pytest.mark.parametrize("world_of", fast("directory"), indirect=True)
@pytest.mark.parametrize("learns", KINDS.values(), ids=KINDS.keys())
def test_learners_of_each_kind(
    world_of: World, learns: Learns, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact
) -> None:
    world = world_of
    flow = watched(world.flow(learns.operator, tmp_path))
    die_placed(flow, placed_everywhere(world, 1, seed=12) if crash_full else [Placed("committed", 3)], seed=12)
    die_at_random(flow, 3 if crash_full else 1, seed=13)
    _die_grown(flow)
    kept = [orjson.loads(record.value or b"")["n_selected"] for record in world.read(flow)["selections"][0]]
    flow.finish()
    exact(world, flow)
    if learns.operator == "stsd":
        assert max(kept) > 512, "it was killed before it had grown"
