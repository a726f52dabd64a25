"""Flows as child processes that are killed, stopped, continued and started again; all of it bounded by time-outs."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINT_SECONDS = 0.2
PEER_GRACE = 10.0
"""How long a process may outlive its killed peer before the harness kills it too."""


@dataclass(frozen=True)
class How:
    """What a run is told beyond running: see the runner's options."""

    die: str | None = None
    how: str = "kill"
    pace: int | None = None
    rhythm: int | None = None
    awake: tuple[int, ...] | None = None
    keep_unfinished: bool = False
    unguarded: bool = False
    transaction_seconds: float | None = None
    adopt: bool = False

    def options(self) -> list[str]:
        given = {
            "--die": self.die,
            "--how": self.how,
            "--pace": self.pace,
            "--rhythm": self.rhythm,
            "--awake": None if self.awake is None else ",".join(map(str, self.awake)),
            "--transaction-seconds": self.transaction_seconds,
        }
        options = [text for name, value in given.items() if value is not None for text in (name, str(value))]
        return options + ["--keep-unfinished"] * self.keep_unfinished + ["--unguarded"] * self.unguarded


WHOLE = How()
"""As fast as it goes, to the end."""


class Child:
    """One process of a flow."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], trace: Path) -> None:
        self._report = trace.with_suffix(".report")
        self._stderr = trace.with_suffix(".stderr")
        full = [sys.executable, "-m", "tests.crash.runner", "--report", str(self._report), *command]
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                full,
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        if not self._report.exists():
            return []
        lines = self._report.read_bytes().split(b"\n")[:-1]
        return [event for event in map(orjson.loads, lines) if event["event"] == name]

    @property
    def skipped(self) -> int:
        """Output records it did not write because they were out already."""
        return sum(event["records"] for event in self.events("skipped"))

    def wait(self, timeout: float = 90.0) -> int:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end within {timeout:.0f} s:\n{self.stderr}") from None

    def ends(self, code: int, timeout: float = 90.0) -> None:
        found = self.wait(timeout)
        assert found == code, f"exit code {found}, not {code}:\n{self.stderr}"

    def wait_for(self, event: str, times: int = 1, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while len(self.events(event)) < times:
            assert self.process.poll() is None, f"ended with {self.process.returncode} before {event}:\n{self.stderr}"
            assert time.monotonic() < deadline, f"no {event} within {timeout:.0f} s:\n{self.stderr}"
            time.sleep(0.01)

    def wait_until_stopped(self, timeout: float = 60.0) -> None:
        """Until it has sent itself SIGSTOP."""
        self.wait_for("placed", timeout=timeout)
        status = Path(f"/proc/{self.pid}/stat")
        deadline = time.monotonic() + timeout
        while status.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < deadline, "it does not stop"
            time.sleep(0.01)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def send_stop(self) -> None:
        self.send(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Death:
    """What is known of one."""

    series: str
    moment: str
    closed: int = 0
    """Epochs closed by the run that died."""
    ahead: int = 0
    """Input positions by which the output is ahead of the store (records, or bytes of a directory topic's output)."""
    skipped: int | None = None
    """Output records that the next run did not write again."""
    peers: str = ""


@dataclass
class Flow:
    """A flow under test: its file, its store, and the runs it has had."""

    file: Path
    store: Path
    name: str
    series: str
    outputs: Mapping[str, str]
    """Topics or directories, by what they carry."""
    deaths: list[Death] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    addresses: tuple[str, ...] = ()
    _runs: int = 0
    _closed: int = 0

    def start(self, how: How = WHOLE, *, process: int = 0, of: int = 1, store: Path | None = None) -> Child:
        self._runs += 1
        run = ["run", str(self.file), "--recovery", str(store or self.store)]
        run += ["--checkpoint-every", str(CHECKPOINT_SECONDS)] + ["--adopt"] * how.adopt
        environment = {}
        if of > 1:
            environment["BYTEWAX_ADDRESSES"] = ";".join(self._cluster(of))
            environment["BYTEWAX_PROCESS_ID"] = str(process)
        trace = self.file.parent / f"{self.file.stem}-{self._runs:03d}"
        child = Child([*how.options(), "--", *run], environment, trace)
        self.children.append(child)
        return child

    def start_all(self, how: How, processes: int, only: int | None = None) -> list[Child]:
        """All processes of the flow; a death placed by `how` belongs to `only` one of them."""
        spared = How(pace=how.pace, rhythm=how.rhythm, awake=how.awake, adopt=how.adopt)
        return [
            self.start(how if only in (None, process) else spared, process=process, of=processes)
            for process in range(processes)
        ]

    def _cluster(self, processes: int) -> tuple[str, ...]:
        if len(self.addresses) != processes:
            self.addresses = tuple(f"127.0.0.1:{port}" for port in free_ports(processes))
        return self.addresses

    def finish(self, how: How = WHOLE, processes: int = 1) -> None:
        """Run to the end of the input."""
        children = self.start_all(how, processes)
        for child in children:
            child.ends(0)
        self.settle(children)

    def settle(self, children: Sequence[Child]) -> None:
        """Write down what the runs after the last death have skipped."""
        if self.deaths and self.deaths[-1].skipped is None:
            self.deaths[-1].skipped = sum(child.skipped for child in children)

    def died(self, moment: str, children: Sequence[Child], ahead: int, peers: str = "") -> Death:
        self.settle(children)
        closed = closed_epochs(self.store)
        death = Death(self.series, moment, closed - self._closed, ahead, peers=peers)
        self._closed = closed
        self.deaths.append(death)
        return death

    @property
    def is_clean(self) -> bool:
        return not (self.store / "run.json").exists()

    def kill_all(self) -> None:
        for child in self.children:
            if child.process.poll() is None:
                child.kill()


def wait_for_peers(children: Sequence[Child]) -> str:
    """After the death of one process its peers go by themselves, or are killed after a grace; how many went."""
    deadline = time.monotonic() + PEER_GRACE
    by_themselves = 0
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(max(deadline - time.monotonic(), 0.01))
            by_themselves += 1
        child.kill()
    return f"{by_themselves - 1} of {len(children) - 1}"


def free_ports(count: int) -> list[int]:
    """Below the range that the system gives to clients."""
    found: list[int] = []
    while len(found) < count:
        port = random.randint(15000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


# -- the store, read without Sluiceway's help ------------------------------------------------------------------------


@contextlib.contextmanager
def store_partitions(store: Path) -> Iterator[list[sqlite3.Connection]]:
    """None of a store that was still being made when its maker died: the next run makes it anew."""
    paths = [] if (store / "creating").exists() else sorted(store.glob("part-*.sqlite3"))
    opened = [sqlite3.connect(path) for path in paths]
    try:
        yield opened
    finally:
        for partition in opened:
            partition.close()


def store_rows(partitions: Sequence[sqlite3.Connection], query: str) -> list[tuple[Any, ...]]:
    return [row for partition in partitions for row in partition.execute(query)]


def resume_epoch(store: Path) -> int:
    """The first epoch that the next run does: what the slowest worker of the last execution had not closed."""
    with store_partitions(store) as partitions:
        executions = store_rows(partitions, "select ex_num, worker_count, resume_epoch from exs")
        fronts = store_rows(partitions, "select ex_num, worker_index, worker_frontier from fronts")
    if not executions:
        return 1
    number, workers, begun = max(executions)
    reached = {worker: frontier for ex, worker, frontier in fronts if ex == number}
    slowest: int = min(max(begun, reached.get(worker, begun)) for worker in range(workers))
    return slowest


def closed_epochs(store: Path) -> int:
    return resume_epoch(store) - 1


def positions(store: Path, flow: str) -> dict[int, int]:
    """Where the next run goes on reading, by lane."""
    before = resume_epoch(store)
    with store_partitions(store) as partitions:
        rows = store_rows(partitions, "select step_id, state_key, snap_epoch, ser_change from snaps")
    newest: dict[int, tuple[int, int]] = {}
    for step, key, epoch, state in rows:
        if step == f"{flow}.source" and epoch < before and state is not None:
            newest[int(key)] = max(newest.get(int(key), (-1, -1)), (epoch, pickle.loads(state)))
    return {lane: position for lane, (_, position) in newest.items()}
