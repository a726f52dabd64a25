"""Where schedules are played, and how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.crash.nursery import faketime
from tests.crash.worlds import DirectoryWorld, KafkaWorld
from tests.faults.play import Played, Stage
from tests.faults.schedule import FAST
from tests.faults.small_disk import SmallDisk
from tests.faults.worlds import ClusterWorld, RelayedWorld
from tests.support import BrokerUnavailable, Cluster
from tests.support.relay import RelayedBroker

SIZE = 1500
"""Records a lane."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first, number = metafunc.config.getoption("--seed"), metafunc.config.getoption("--schedules")
        chosen = FAST if first is number is None else range(first or 0, (first or 0) + (number or 1))
        metafunc.parametrize("seed", chosen)


@pytest.fixture(scope="session")
def _broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayedBroker]:
    settings = {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "1000"}
    broker = RelayedBroker(tmp_path_factory.mktemp("relayed") / "broker", settings)
    try:
        broker.start()
    except BrokerUnavailable as problem:
        request.getfixturevalue("kafka")  # skips, or fails in CI
        pytest.skip(str(problem))
    yield broker
    broker.kill()
    broker.relay.close()


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    return None if faketime() is None else tmp_path_factory.mktemp("clock") / "moved"


@pytest.fixture(scope="session")
def _relayed(_broker: RelayedBroker, tmp_path_factory: pytest.TempPathFactory) -> KafkaWorld:
    return RelayedWorld(_broker, tmp_path_factory.mktemp("world"), SIZE)


@pytest.fixture(scope="session")
def _embedded(tmp_path_factory: pytest.TempPathFactory) -> DirectoryWorld:
    return DirectoryWorld(tmp_path_factory.mktemp("directories"), SIZE)


@pytest.fixture(scope="session")
def _disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk | None]:
    disk = SmallDisk.mounted(tmp_path_factory.mktemp("disk"))
    yield disk
    if disk is not None:
        disk.unmount()


@pytest.fixture(scope="session")
def _brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, KafkaWorld]]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster, ClusterWorld(cluster.bootstrap, tmp_path_factory.mktemp("world"), SIZE)


@pytest.fixture
def stage_of(request: pytest.FixtureRequest, clock: Path | None) -> Callable[[str], Stage]:
    """The stage of a kind of schedules; made when the first comes."""

    def stage(kind: str) -> Stage:
        if kind == "embedded":
            return Stage(request.getfixturevalue("_embedded"), None, clock, request.getfixturevalue("_disk"))
        if kind == "cluster":
            cluster, world = request.getfixturevalue("_brokers")
            cluster.start()
            return Stage(world, cluster, clock)
        return Stage(request.getfixturevalue("_relayed"), request.getfixturevalue("_broker"), clock)

    return stage


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Callable[[Played], None]:
    """Into the figures at the end of the test run."""
    return lambda played: record_property("faults", asdict(played))
