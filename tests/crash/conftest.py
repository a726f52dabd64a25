"""The two worlds, each with its reference, and what becomes of flows in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.harness import Flow
from tests.crash.table import DEATHS, VERDICTS
from tests.crash.worlds import DirectoryWorld, KafkaWorld, World, verify

Watched = Callable[[Flow], Flow]
Exact = Callable[[World, Flow], None]
Verdict = Callable[[str], None]
FAST, FULL = 1500, 4000
"""Records a lane."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker("crash")
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory, crash_full: bool) -> DirectoryWorld:
    return DirectoryWorld(tmp_path_factory.mktemp("directories"), FULL if crash_full else FAST)


@pytest.fixture(scope="session")
def broker(kafka: str, tmp_path_factory: pytest.TempPathFactory, crash_full: bool) -> Iterator[KafkaWorld]:
    world = KafkaWorld(kafka, tmp_path_factory.mktemp("kafka"), FULL if crash_full else FAST)
    yield world
    world.topics.clear()


@pytest.fixture(params=["kafka", "directory"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.getfixturevalue("broker" if request.param == "kafka" else "directories")
    return found


@pytest.fixture
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    """Register a flow: its processes are gone after the test, its deaths stand in the table."""
    flows: list[Flow] = []

    def register(flow: Flow) -> Flow:
        flows.append(flow)
        return flow

    yield register
    for flow in flows:
        flow.kill_all()
        flow.settle()
        request.config.stash[DEATHS] += flow.deaths


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """Write a line under the table."""
    return request.config.stash[VERDICTS].append


@pytest.fixture
def exact(verdict: Verdict) -> Exact:
    """Compare a flow's output with the reference, and write the verdict down."""

    def check(world: World, flow: Flow) -> None:
        try:
            found = verify(world, flow)
        except AssertionError:
            verdict(f"{flow.series}: {len(flow.deaths)} deaths, OUTPUT DIFFERS")
            raise
        verdict(f"{flow.series}: {len(flow.deaths)} deaths, {found}")

    return check


def fast(name: str) -> list[object]:
    """Both worlds as parameters, of which the fast subset takes the named one."""
    return [
        world if world == name else pytest.param(world, marks=pytest.mark.crash(full=True))
        for world in ("kafka", "directory")
    ]
