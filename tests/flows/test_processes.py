"""Workers of one flow on directory topics, and the variables that name what a process is to do."""

from __future__ import annotations

from pathlib import Path

from tests.flows.test_run import INSTANCES, Flow
from tests.support.flow import Done, Running, sluiceway


def _run_with(flow: Flow, **environment: str) -> Done:
    with Running("run", flow.file, env=environment) as running:
        return running.wait()


def test_two_workers_give_the_same(tmp_path: Path) -> None:
    flows = []
    for workers in ("1", "2"):
        (tmp_path / workers).mkdir()
        flow = Flow(tmp_path / workers)
        flow.feed(INSTANCES * 20, partitions=4)
        with Running(*flow.arguments(), env={"BYTEWAX_WORKERS_PER_PROCESS": workers}) as running:
            assert running.wait().code == 0
        flows.append(flow)
    one, two = flows
    for role in ("selections", "predictions", "dead_letters"):
        for lane in range(4):
            assert one.path(role, lane).read_bytes() == two.path(role, lane).read_bytes()


def test_the_interval_may_be_named_by_the_engine_s_variable(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.feed(INSTANCES)
    done = _run_with(flow, BYTEWAX_SNAPSHOT_INTERVAL="3")
    assert done.code == 0, done.stderr
    assert f"a commit every 3 s, state in dir:{flow.store}" in done.stderr


def test_variables_that_cannot_be(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.feed(INSTANCES, partitions=2)
    sentences = {"0": "must not be 0", "-1": "must not be -1", "two": "must be a whole number, not 'two'"}
    for text, sentence in sentences.items():
        refused = _run_with(flow, BYTEWAX_WORKERS_PER_PROCESS=text)
        assert (refused.code, refused.sentence) == (2, f"BYTEWAX_WORKERS_PER_PROCESS {sentence}")
    assert not flow.store.exists()


def test_a_stop_in_the_future_is_refused(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.feed(INSTANCES)
    flow.write(input={"stop": "2099-01-01"})
    refused = sluiceway("run", flow.file)
    assert refused.code == 2
    assert "lies in the future" in refused.sentence
