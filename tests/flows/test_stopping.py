"""The flag that signals set: what sets it, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from sluiceway.flows.stopping import Stop


@pytest.fixture
def stop() -> Iterator[Stop]:
    made = Stop()
    made.listen()
    made()  # the flow has begun
    yield made
    made.close()


def eventually_stopped(stop: Stop, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not stop.stopped and time.monotonic() < deadline:
        time.sleep(0.01)
    return stop.stopped


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops(stop: Stop, number: signal.Signals) -> None:
    other = Stop()
    assert not stop()
    os.kill(os.getpid(), number)
    assert eventually_stopped(stop)
    assert stop()
    assert not other.stopped  # it does not listen yet


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


def test_everything_is_as_before_afterwards() -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    earlier = signal.set_wakeup_fd(tell)
    try:
        descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
        for _ in range(3):
            stop = Stop()
            stop.listen()
            stop.close()
            stop.close()
        assert len(os.listdir("/proc/self/fd")) == descriptors
        assert threading.active_count() == threads
    finally:
        assert signal.set_wakeup_fd(earlier) == tell
        os.close(told)
        os.close(tell)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers


AFTER_ITS_END = """
import os, signal, sys, time
from sluiceway.flows.stopping import Stop
stop = Stop(leaving=True)
stop.listen()
stop.close()
class Late:
    def __del__(self, kill=os.kill, me=os.getpid(), number=signal.SIGTERM, sleep=time.sleep):
        kill(me, number)
        sleep(0.2)
sys.modules["late"] = late = Late()  # goes when Python itself does
os.kill(os.getpid(), signal.SIGTERM)
raise SystemExit(7)
"""


def test_a_signal_that_comes_when_all_is_committed_changes_no_exit_code() -> None:
    assert subprocess.run([sys.executable, "-c", AFTER_ITS_END]).returncode == 7


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


BEFORE_IT_BEGINS = """
import os, signal, time
from sluiceway.flows.stopping import Stop
stop = Stop()
stop.listen()
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(20)
"""


def test_a_flow_that_has_not_begun_just_ends() -> None:
    """It waits for a broker, say, and has nothing to commit."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", BEFORE_IT_BEGINS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "stopped before the flow had begun\n")
    assert time.monotonic() - began < 15


def test_asked_twice_it_does_not_wait() -> None:
    script = BEFORE_IT_BEGINS.replace("stop.listen()", "stop.listen(); stop()").replace(
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.kill(os.getpid(), signal.SIGTERM); time.sleep(0.5); os.kill(os.getpid(), signal.SIGTERM)",
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 128 + signal.SIGTERM
