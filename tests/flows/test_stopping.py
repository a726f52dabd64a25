"""The flag that signals set: what sets it, whom it is passed on to, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.flows.source import Reader, TopicSource
from sluiceway.flows.stopping import Stop


@pytest.fixture
def stop(tmp_path: Path) -> Iterator[Stop]:
    made = Stop(tmp_path)
    made.listen(on_never_begun=lambda: None)
    made()  # the flow has begun
    yield made
    made.close()


def eventually_stopped(stop: Stop, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not stop.stopped and time.monotonic() < deadline:
        time.sleep(0.01)
    return stop.stopped


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_and_is_passed_on(stop: Stop, tmp_path: Path, number: signal.Signals) -> None:
    other = Stop(tmp_path)
    os.kill(os.getpid(), number)
    assert eventually_stopped(stop)
    deadline = time.monotonic() + 10
    while not (tmp_path / "stop").exists():
        assert time.monotonic() < deadline
    assert not other.stopped  # it does not listen yet


def test_a_peer_s_word_stops_too(stop: Stop, tmp_path: Path) -> None:
    assert not stop()
    (tmp_path / "stop").touch()
    assert eventually_stopped(stop)
    assert stop()


def test_other_signals_of_the_program_are_its_own(stop: Stop) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    try:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGUSR1)
        assert not eventually_stopped(stop, 0.5)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert came == [signal.SIGUSR1] * 3


def test_a_store_that_cannot_be_reached_does_not_make_it_deaf(
    stop: Stop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*given: object, **more: object) -> bool:
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "exists", stale)
        broken.setattr(Path, "touch", stale)
        time.sleep(0.3)  # some looks
        os.kill(os.getpid(), signal.SIGTERM)
        assert eventually_stopped(stop)
        time.sleep(0.3)
    deadline = time.monotonic() + 10
    while not (tmp_path / "stop").exists():  # told as soon as it can be
        assert time.monotonic() < deadline


def test_everything_is_as_before_afterwards() -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    earlier = signal.set_wakeup_fd(tell)
    try:
        descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
        for _ in range(3):
            stop = Stop()
            stop.listen(on_never_begun=lambda: None)
            stop.close()
            stop.close()
        assert len(os.listdir("/proc/self/fd")) == descriptors
        assert threading.active_count() == threads
    finally:
        assert signal.set_wakeup_fd(earlier) == tell
        os.close(told)
        os.close(tell)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers


def test_only_the_main_thread_can_run_a_flow() -> None:
    problems: list[BaseException] = []

    def make() -> None:
        try:
            Stop()
        except RuntimeError as problem:
            problems.append(problem)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert "main thread" in str(problems[0])


def test_a_worker_that_reads_no_partition_has_begun_too(tmp_path: Path) -> None:
    """It lists the parts as every worker does, and opens none: a stop that takes its time must not end it as idle."""

    def open_reader(partition: int, position: int | None) -> Reader:
        raise AssertionError("nothing is read here")

    stop = Stop(tmp_path)
    source = TopicSource(1, open_reader, stop)
    assert not stop._begun
    assert source.list_parts() == ["00000"]
    assert stop._begun
