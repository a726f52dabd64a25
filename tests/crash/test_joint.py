"""The joint flow: what is asked for, decided and selected is the same whatever dies, in the warm-up and after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.crash.conftest import Exact, Watched
from tests.crash.series import Placed, die_at_random, die_placed, placed_everywhere
from tests.crash.worlds import CARRIES, KafkaWorld, Learns

SIZE = 1000
"""Records a lane."""
PARAMS = {"warm_up": 80, "refit_every": 50, "cost": 0.005, "absent": "missing", "explore": 0.1, "budget": 6}
ETANA = Learns("etana", PARAMS, writes=(*CARRIES, "requests"))


@pytest.fixture
def world(kafka: str, tmp_path: Path) -> Iterator[KafkaWorld]:
    world = KafkaWorld(kafka, tmp_path, SIZE, ETANA)
    yield world
    world.topics.clear()


def test_the_joint_flow(world: KafkaWorld, crash_full: bool, tmp_path: Path, watched: Watched, exact: Exact) -> None:
    predictions = [orjson.loads(record.value or b"") for record in world.expected["predictions"][0]]
    assert {True, False} == {one["label"] is None for one in predictions}
    assert len({one["features_used"] for one in predictions}) > 3
    flow = watched(world.flow("joint", tmp_path))
    die_placed(flow, placed_everywhere(world, 2, seed=21) if crash_full else [Placed("committed", 3)], seed=21)
    die_at_random(flow, 25 if crash_full else 1, seed=22)
    flow.finish()
    exact(world, flow)
