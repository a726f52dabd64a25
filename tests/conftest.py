"""Fixtures for all tests: one real broker for the whole run, topics of their own for each test."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest
from hypothesis import settings

from tests.crash import table
from tests.faults import figures
from tests.support import Broker, BrokerUnavailable, Cluster, Topics
from tests.support.broker import any_broker
from tests.support.browser import Browser, BrowserUnavailable, any_browser
from tests.support.links import links_complaint
from tests.support.markers import LateMarkers
from tests.support.registry import RegistryUnavailable, SchemaRegistry

ROOT = Path(__file__).resolve().parents[1]
Brokers = TypeVar("Brokers", Broker, LateMarkers, Cluster)
MISSING = pytest.StashKey[str]()
NO_REGISTRY = pytest.StashKey[str]()
NO_BROWSER = pytest.StashKey[str]()
NEED_BROKER = {"kafka", "topics", "own_broker", "late_markers", "cluster"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--crash-full",
        action="store_true",
        help="run the whole crash series, also the tests marked crash(full=True)",
    )
    faults = parser.getgroup("faults")
    faults.addoption("--schedules", type=int, help="how many schedules of faults are played; else ten chosen ones")
    faults.addoption("--seed", type=int, help="the seed of the first of them")


# an example may be the first to compile a kernel, or meet a busy machine: times are measured by benchmarks alone
settings.register_profile("no deadline", deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    # a shell starts what it runs in the background deaf to Ctrl-C, and a program's children inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("no deadline")
    config.pluginmanager.register(table)
    config.pluginmanager.register(figures)
    complaint = links_complaint(ROOT)
    if complaint is not None:
        raise pytest.UsageError(complaint)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if NEED_BROKER.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")
    if config.getoption("--crash-full"):
        return
    full = [item for item in items if any(mark.kwargs.get("full") for mark in item.iter_markers("crash"))]
    if full:
        config.hook.pytest_deselected(items=full)
        items[:] = [item for item in items if item not in full]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of a parallel run hands over what it missed."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["missing"] = session.config.stash.get(MISSING, None)
        output["no registry"] = session.config.stash.get(NO_REGISTRY, None)
        output["no browser"] = session.config.stash.get(NO_BROWSER, None)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    reason = getattr(node, "workeroutput", {}).get("missing")
    if reason is not None:
        node.config.stash[MISSING] = reason
    reason = getattr(node, "workeroutput", {}).get("no registry")
    if reason is not None:
        node.config.stash[NO_REGISTRY] = reason
    reason = getattr(node, "workeroutput", {}).get("no browser")
    if reason is not None:
        node.config.stash[NO_BROWSER] = reason


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reason = config.stash.get(MISSING, None)
    if reason is not None:
        terminalreporter.write_line(f"NO KAFKA BROKER, ITS TESTS DID NOT RUN: {reason}", red=True, bold=True)
    reason = config.stash.get(NO_REGISTRY, None)
    if reason is not None:
        terminalreporter.write_line(f"NO SCHEMA REGISTRY, ITS TESTS DID NOT RUN: {reason}", red=True, bold=True)
    reason = config.stash.get(NO_BROWSER, None)
    if reason is not None:
        terminalreporter.write_line(f"NO BROWSER, ITS TESTS DID NOT RUN: {reason}", red=True, bold=True)


def _missing(config: pytest.Config, reason: str) -> NoReturn:
    """Skip, or fail in CI: there a missing broker would hide half of the tests."""
    config.stash[MISSING] = reason.splitlines()[0]
    if os.environ.get("CI") == "true":
        pytest.fail(f"no Kafka broker, and CI=true: {reason}", pytrace=False)
    pytest.skip(f"no Kafka broker: {reason}")


@pytest.fixture(scope="session")
def crash_full(request: pytest.FixtureRequest) -> bool:
    """Whether the whole crash series is wanted rather than the fast subset."""
    return bool(request.config.getoption("--crash-full"))


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap address of the run's one broker."""
    with contextlib.ExitStack() as stack:
        missing = None
        try:
            bootstrap = stack.enter_context(any_broker())
        except BrokerUnavailable as error:
            missing = str(error)
        if missing is not None:
            _missing(request.config, missing)
        yield bootstrap


@pytest.fixture(scope="session")
def registry(request: pytest.FixtureRequest) -> Iterator[SchemaRegistry]:
    """The run's one schema registry."""
    started = SchemaRegistry()
    missing = None
    try:
        started.start()
    except RegistryUnavailable as error:
        missing = str(error)
    if missing is not None:
        request.config.stash[NO_REGISTRY] = missing.splitlines()[0]
        if os.environ.get("CI") == "true":
            pytest.fail(f"no schema registry, and CI=true: {missing}", pytrace=False)
        pytest.skip(f"no schema registry: {missing}")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """The run's one browser, without a screen."""
    with contextlib.ExitStack() as stack:
        missing = None
        try:
            started = stack.enter_context(any_browser())
        except BrowserUnavailable as error:
            missing = str(error)
        if missing is not None:
            request.config.stash[NO_BROWSER] = missing.splitlines()[0]
            if os.environ.get("CI") == "true":
                pytest.fail(f"no browser, and CI=true: {missing}", pytrace=False)
            pytest.skip(f"no browser: {missing}")
        yield started


@pytest.fixture
def topics(kafka: str) -> Iterator[Topics]:
    """A factory of topics on the run's broker, removed afterwards: `topics("instances", partitions=4)`."""
    made = Topics(kafka)
    yield made
    made.clear()


@pytest.fixture
def own_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, running, to be killed and restarted at will."""
    yield from _running(request, Broker(tmp_path / "broker"))


@pytest.fixture(scope="module")
def late_markers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LateMarkers]:
    """A broker whose transactions end as late as a test wants."""
    yield from _running(request, LateMarkers(tmp_path_factory.mktemp("late-markers") / "broker"))


@pytest.fixture(scope="module")
def _module_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from _running(request, Cluster(tmp_path_factory.mktemp("cluster")))


@pytest.fixture
def cluster(_module_cluster: Cluster) -> Cluster:
    """Three brokers for the tests of one module, to be killed and restarted at will: each test finds them whole."""
    _module_cluster.start()
    return _module_cluster


def _running(request: pytest.FixtureRequest, broker: Brokers) -> Iterator[Brokers]:
    missing = None
    try:
        broker.start()
    except BrokerUnavailable as error:
        missing = str(error)
    if missing is not None:
        _missing(request.config, missing)
    yield broker
    broker.kill()
