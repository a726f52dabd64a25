"""Several processes and workers of one flow on directory topics: starting, stopping, the variables that name them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.crash.harness import free_ports
from tests.flows.test_run import INSTANCES, Flow
from tests.support.flow import Done, Running, sluiceway


class Cluster(Flow):
    """The flow as several processes."""

    def __init__(self, directory: Path, processes: int = 2) -> None:
        super().__init__(directory)
        self._addresses = ";".join(f"127.0.0.1:{port}" for port in free_ports(processes))

    def environment(self, process: int) -> dict[str, str]:
        return {"BYTEWAX_ADDRESSES": self._addresses, "BYTEWAX_PROCESS_ID": str(process)}

    def start(self, process: int) -> Running:
        arguments = ("run", self.file, "--recovery", self.directory / "store", "--checkpoint-every", "0.1")
        return Running(*arguments, env=self.environment(process))

    def predictions(self) -> int:
        return sum(len(self.lines("predictions", lane)) for lane in (0, 1) if self.path("predictions", lane).exists())


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_waits_for_its_peers_can_be_stopped(cluster: Cluster, number: signal.Signals) -> None:
    cluster.feed(INSTANCES, partitions=2)
    with cluster.start(1) as alone:
        alone.until(lambda: "retrying" in alone.stdout + alone.stderr)  # the engine's own word
        alone.send(number)
        done = alone.wait(20)
    assert done.code == 0, done.stderr
    assert "stopped before the flow had begun" in done.stderr
    with cluster.start(0) as first, cluster.start(1) as second:  # nothing of that stop is left
        assert [first.wait().code, second.wait().code] == [0, 0]
    assert cluster.predictions() == len(INSTANCES)


@pytest.mark.parametrize("told", [0, 1])
def test_a_process_whose_lanes_have_ended_passes_a_stop_on(cluster: Cluster, told: int) -> None:
    """One lane reaches `stop`, the other never does: whichever process is told, both stop."""
    cluster.feed(INSTANCES, partitions=2)
    with cluster.path("instances", 1).open("a") as more:
        more.write('{"stream": "s1", "x": {"a": 1}, "y": 1}\n' * 200)
    cluster.write(input={"stop": str(cluster.path("instances", 1).stat().st_size)})
    with cluster.start(0) as first, cluster.start(1) as second:
        processes = first, second
        processes[told].until(lambda: cluster.predictions() == len(INSTANCES) + 200)
        processes[told].send(signal.SIGTERM)
        done = [process.wait(20) for process in processes]
    assert [one.code for one in done] == [0, 0], [one.stderr for one in done]


def test_a_process_that_reads_nothing_finishes_its_work_when_stopped(tmp_path: Path) -> None:
    """With more processes than lanes some only learn or write: they have begun, too."""
    flow = Cluster(tmp_path, processes=3)
    flow.write(input={"stop": None})
    flow.feed(INSTANCES)
    with flow.start(0) as first, flow.start(1) as second, flow.start(2) as third:
        processes = first, second, third
        first.until(lambda: flow.path("predictions").exists() and len(flow.lines("predictions")) == len(INSTANCES))
        second.send(signal.SIGTERM)
        done = [process.wait(30) for process in processes]
    assert [one.code for one in done] == [0, 0, 0], [one.stderr for one in done]
    assert not any("before the flow had begun" in one.stderr for one in done)
    assert not (tmp_path / "store" / "run.json").exists()


def test_a_process_does_not_join_a_run_that_is_being_stopped(cluster: Cluster) -> None:
    cluster.feed(INSTANCES, partitions=2)
    with cluster.start(1) as alone:
        alone.until(lambda: "retrying" in alone.stdout + alone.stderr)
        alone.send(signal.SIGSTOP)  # it holds its lock
        (cluster.directory / "store" / "stop").touch()
        with cluster.start(0) as late:
            refused = late.wait(30)
    assert (refused.code, "is being stopped" in refused.sentence) == (1, True)


def test_two_workers_give_the_same(tmp_path: Path) -> None:
    flows = []
    for workers in ("1", "2"):
        (tmp_path / workers).mkdir()
        flow = Flow(tmp_path / workers)
        flow.feed(INSTANCES * 20, partitions=4)
        arguments = ("run", flow.file, "--recovery", flow.directory / "store", "--checkpoint-every", "0.1")
        with Running(*arguments, env={"BYTEWAX_WORKERS_PER_PROCESS": workers}) as running:
            assert running.wait().code == 0
        flows.append(flow)
    one, two = flows
    for role in ("selections", "predictions", "dead_letters"):
        for lane in range(4):
            assert one.path(role, lane).read_bytes() == two.path(role, lane).read_bytes()


def _run_with(flow: Flow, **environment: str) -> Done:
    with Running("run", flow.file, env=environment) as running:
        return running.wait()


def test_the_store_may_be_named_by_the_engine_s_variables(cluster: Cluster) -> None:
    cluster.feed(INSTANCES)
    store = cluster.directory / "named"
    done = _run_with(cluster, BYTEWAX_RECOVERY_DIRECTORY=str(store), BYTEWAX_SNAPSHOT_INTERVAL="3")
    assert done.code == 0, done.stderr
    assert f"checkpoints every 3 s in {store}" in done.stderr
    assert (store / "sluiceway.json").exists()


def test_variables_that_cannot_be(cluster: Cluster) -> None:
    cluster.feed(INSTANCES, partitions=2)
    without_store = _run_with(cluster, **cluster.environment(0))
    assert (without_store.code, "add --recovery DIR" in without_store.sentence) == (2, True)
    negative = _run_with(cluster, **{**cluster.environment(0), "BYTEWAX_PROCESS_ID": "-1"})
    assert (negative.code, negative.sentence) == (2, "BYTEWAX_PROCESS_ID must not be -1")
    none = _run_with(cluster, BYTEWAX_WORKERS_PER_PROCESS="0")
    assert (none.code, none.sentence) == (2, "BYTEWAX_WORKERS_PER_PROCESS must not be 0")


def test_a_stop_in_the_future_is_refused(cluster: Cluster) -> None:
    cluster.feed(INSTANCES)
    cluster.write(input={"stop": "2099-01-01"})
    refused = sluiceway("run", cluster.file)
    assert refused.code == 2
    assert "lies in the future" in refused.sentence
