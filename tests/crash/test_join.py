"""A join that is killed at any moment: id by id what an undisturbed one gives, and with a limit each record once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.compare import Output, count
from tests.crash.conftest import Verdict, Watched, fast
from tests.crash.harness import Flow, How
from tests.crash.join_worlds import (
    DirectoryJoinWorld,
    JoinWorld,
    KafkaJoinWorld,
    by_id,
    labelled_of,
    pairs,
    parsed,
    refused,
)
from tests.crash.series import (
    DIRECTORY_POINTS,
    KAFKA_POINTS,
    Placed,
    die_at_random,
    die_at_the_end,
    die_placed,
    placed_everywhere,
)
from tests.crash.workload import LANES

full = pytest.mark.crash(full=True)
FAST, FULL = 350, 900
"""Instances a lane."""


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory, crash_full: bool) -> JoinWorld:
    return DirectoryJoinWorld(tmp_path_factory.mktemp("join"), FULL if crash_full else FAST)


@pytest.fixture(scope="module")
def broker(kafka: str, crash_full: bool) -> Iterator[JoinWorld]:
    world = KafkaJoinWorld(kafka, FULL if crash_full else FAST)
    yield world
    world.topics.clear()


@pytest.fixture
def joined(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("broker" if request.param == "kafka" else "directories")


def dying(world: JoinWorld, flow: Flow, crash_full: bool, *, seed: int) -> None:
    """Twenty-five times, at random and placed moments; in the fast subset three times."""
    points = KAFKA_POINTS if world.kind == "kafka" else DIRECTORY_POINTS
    if not crash_full:
        die_at_random(flow, 1, seed=seed)
        die_placed(flow, [Placed(point, 2) for point in (points[0], "committed")], seed=seed)
        return
    die_placed(flow, placed_everywhere(world, 1, seed=seed, points=points), seed=seed)  # type: ignore[arg-type]
    die_at_random(flow, 23 - len(points), seed=seed)
    die_at_the_end(flow, (1, 3))


@pytest.mark.parametrize("joined", fast("kafka"), indirect=True)
def test_without_a_limit(
    joined: JoinWorld, crash_full: bool, tmp_path: Path, watched: Watched, verdict: Verdict
) -> None:
    """Every id once, as an undisturbed run has it, which is as the slow oracle has it."""
    calm, flow = joined.flow("calm", tmp_path), watched(joined.flow("unlimited", tmp_path))
    calm.finish()
    dying(joined, flow, crash_full, seed=21)
    flow.finish()
    for which in (calm, flow):
        joined.settle(which)
        found = joined.read(which)
        for lane, given in enumerate(joined.given):
            assert by_id(labelled_of(found, lane)) == pairs(given)
            bad = sum(len(records) - len(list(parsed(records))) for records in given)
            assert refused(found, lane).total() == bad
            assert refused(found, lane) == refused(joined.read(calm), lane)
    verdict(f"{flow.series}: {len(flow.deaths)} deaths, {count(found):,} records equal by id to an undisturbed run")


@pytest.mark.parametrize("joined", fast("directory"), indirect=True)
@pytest.mark.parametrize("unlabelled", [pytest.param("keep", marks=full), "dead-letters"])
def test_with_a_limit(
    joined: JoinWorld, unlabelled: str, crash_full: bool, tmp_path: Path, watched: Watched, verdict: Verdict
) -> None:
    """Each instance goes on with a label or is given up: never both, never neither. So does each label."""
    limit = f'max_waiting = 12\nmax_wait_seconds = 300\nunlabelled = "{unlabelled}"'
    flow = watched(joined.flow(f"limit {unlabelled}", tmp_path, limit=limit))
    dying(joined, flow, crash_full, seed=22)
    flow.finish()
    flow.file.write_text(flow.file.read_text().replace("max_waiting = 12", "max_waiting = 0"))
    flow.options = ("--again",)  # what still waits comes out too
    flow.finish()
    joined.settle(flow)
    found = joined.read(flow)
    told: Counter[str] = Counter()
    for lane, given in enumerate(joined.given):
        told += _account(found, lane, given, unlabelled)
    assert all(told[what] > LANES for what in ("labelled", "given up")), told
    counted = ", ".join(f"{number:,} {what}" for what, number in sorted(told.items()))
    verdict(f"{flow.series}: {len(flow.deaths)} deaths, each record once ({counted})")


def _account(found: Output, lane: int, given: Any, unlabelled: str) -> Counter[str]:
    """All of a lane's records have come out, each once."""
    came, letters = labelled_of(found, lane), refused(found, lane)
    assert set(letters.values()) <= {1}
    classes = Counter(name for name, _, _ in letters)
    instances = {record["x"]["number"]: record for record in parsed(given.instances)}
    numbers = Counter(record["x"]["number"] for record in came)
    assert set(numbers.values()) <= {1}
    labelled = [record for record in came if "y" in record]
    for record in came:
        was = instances[record["x"]["number"]]
        assert {name: value for name, value in record.items() if name != "y"} == was
    if unlabelled == "keep":
        assert numbers.keys() == instances.keys()
        given_up = len(came) - len(labelled)
        assert not classes["unlabelled"]
    else:
        assert len(came) == len(labelled)
        given_up = classes["unlabelled"]
        assert len(labelled) + given_up == len(instances)
    labels = list(parsed(given.labels))
    lost = classes["late-label"] + classes["orphan-label"]
    assert len(labelled) + lost == len(labels)
    had = Counter((record["stream"], record["id"], record["y"]) for record in labels)
    assert not Counter((record["stream"], record["id"], record["y"]) for record in labelled) - had
    return Counter({"labelled": len(labelled), "given up": given_up, "labels lost": lost})


@full
def test_two_processes(broker: KafkaJoinWorld, tmp_path: Path, watched: Watched, verdict: Verdict) -> None:
    """Lanes move from one to the other, and what waits with them."""
    flow = watched(broker.flow("two processes", tmp_path, member=None))
    for _ in range(2):
        first, second = (flow.start(How(pace=3)) for _ in range(2))
        first.wait_for("committed")
        second.wait_for("committed", timeout=120)
        first.kill()
        flow.died("one of two", first)
        second.wait_for_lanes(LANES, timeout=120)
        second.stop()
    flow.finish(processes=2)
    broker.settle(flow)
    found = broker.read(flow)
    for lane, given in enumerate(broker.given):
        assert by_id(labelled_of(found, lane)) == pairs(given)
    verdict(f"{flow.series}: {len(flow.deaths)} deaths, {count(found):,} records equal by id to an undisturbed run")
