"""Flows as child processes that are killed, stopped, continued and started again; all of it bounded by time-outs."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tests.crash import nursery

CHECKPOINT_SECONDS = 0.2
STOP_SECONDS = 20.0
PATIENCE = 300.0
"""A bound that only failures meet: a busy machine may have to compile first."""


@dataclass(frozen=True)
class How:
    """What a run is told beyond running: see the runner's options."""

    die: str | None = None
    how: str = "kill"
    stall_seconds: float | None = None
    chunk: int | None = None
    pace: int | None = None
    rhythm: int | None = None
    awake: tuple[int, ...] | None = None
    transaction_seconds: float | None = None
    contend: int | None = None
    wrong_order: bool = False
    bug: str | None = None
    workers: int = 1

    def options(self) -> list[str]:
        given = {
            "--die": self.die,
            "--how": self.how,
            "--stall-seconds": self.stall_seconds,
            "--chunk": self.chunk,
            "--pace": self.pace,
            "--rhythm": self.rhythm,
            "--awake": None if self.awake is None else ",".join(map(str, self.awake)),
            "--transaction-seconds": self.transaction_seconds,
            "--contend": self.contend,
            "--bug": self.bug,
        }
        options = [text for name, value in given.items() if value is not None for text in (name, str(value))]
        return options + ["--wrong-order"] * self.wrong_order


WHOLE = How()
"""As fast as it goes, to the end."""


class Child:
    """One process of a flow."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], trace: Path, clock: Path | None = None
    ) -> None:
        self._report = trace.with_suffix(".report")
        self._stderr = trace.with_suffix(".stderr")
        self.process = nursery.begin(["--report", str(self._report), *command], environment, self._stderr, clock)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        if not self._report.exists():
            return []
        wanted = orjson.dumps({"event": name})[:-1] + b","
        lines = self._report.read_bytes().split(b"\n")[:-1]
        return [orjson.loads(line) for line in lines if line.startswith(wanted)]

    @property
    def commits(self) -> int:
        return len(self.events("committed"))

    @property
    def lanes(self) -> set[int]:
        """Those it has, and has committed since it got them."""
        since: dict[int, float] = {event["lane"]: event["at"] for event in self.events("gained")}
        for event in self.events("lost"):
            if since.get(event["lane"], event["at"]) < event["at"]:
                del since[event["lane"]]
        return {e["lane"] for e in self.events("committed") if e["lane"] in since and e["at"] > since[e["lane"]]}

    @property
    def wasted(self) -> int:
        """Records it has read since each lane's last commit: whoever goes on reads them again."""
        committed = {event["lane"]: event["position"] for event in self.events("committed")}
        opened = {event["lane"]: event["position"] for event in self.events("opened")}
        reached = {**opened, **committed}
        return sum(event["records"] for event in self.events("polled") if event["start"] >= reached[event["lane"]])

    def wait(self, timeout: float = PATIENCE) -> int:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end within {timeout:.0f} s:\n{self.stderr}") from None

    def ends(self, code: int, timeout: float = PATIENCE) -> None:
        found = self.wait(timeout)
        assert found == code, f"exit code {found}, not {code}:\n{self.stderr}"

    def wait_for(self, event: str, times: int = 1, timeout: float = PATIENCE) -> None:
        self.wait_until(lambda: len(self.events(event)) >= times, event, timeout)

    def wait_for_lanes(self, count: int, timeout: float = PATIENCE) -> None:
        """Until it has committed so many lanes."""

        def come() -> bool:
            return len({event["lane"] for event in self.events("committed")}) >= count

        self.wait_until(come, f"commits of {count} lanes", timeout)

    def wait_until(self, come: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
        deadline = time.monotonic() + timeout
        while not come():
            assert self.alive, f"ended with {self.process.returncode} before {what}:\n{self.stderr}"
            assert time.monotonic() < deadline, f"no {what} within {timeout:.0f} s:\n{self.stderr}"
            time.sleep(0.02)

    def wait_until_stopped(self, timeout: float = PATIENCE) -> None:
        """Until it has sent itself SIGSTOP."""
        self.wait_for("placed", timeout=timeout)
        status = Path(f"/proc/{self.pid}/stat")
        deadline = time.monotonic() + timeout
        while status.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < deadline, "it does not stop"
            time.sleep(0.01)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """SIGTERM, and a good end."""
        self.send(signal.SIGTERM)
        self.ends(0, STOP_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30.0)


def one_goes(first: Child, second: Child, timeout: float = PATIENCE) -> tuple[Child, Child]:
    """Of two members of one name: they fence each other until either sees that it is not alone; who went, who stays."""
    deadline = time.monotonic() + timeout
    while first.alive and second.alive:
        assert time.monotonic() < deadline, f"both go on:\n{first.stderr}\n{second.stderr}"
        time.sleep(0.02)
    ended, stays = (second, first) if first.alive else (first, second)
    ended.ends(1)
    assert "group.instance.id" in ended.stderr, ended.stderr
    return ended, stays


@dataclass
class Death:
    """What is known of one."""

    series: str
    moment: str
    commits: int
    """By the run that died."""
    again: int
    """Records that it had read since, so that they were read again."""
    at: float
    pause: float | None = None
    """The longest time of a lane from the dead run's last commit to the next owner's first."""


class Move(NamedTuple):
    """A lane that another process has gone on with."""

    lane: int
    at: float
    """The first commit there."""
    pause: float
    """Since the last commit before."""


def moves(children: Sequence[Child]) -> Iterator[Move]:
    commits = sorted(
        (event["at"], event["lane"], number)
        for number, child in enumerate(children)
        for event in child.events("committed")
    )
    last: dict[int, tuple[float, int]] = {}
    for at, lane, owner in commits:
        if lane in last and last[lane][1] != owner:
            yield Move(lane, at, at - last[lane][0])
        last[lane] = at, owner


@dataclass
class Flow:
    """A flow under test: its file, and the runs it has had."""

    file: Path
    name: str
    series: str
    outputs: Mapping[str, str]
    """Topics or directories, by what they carry."""
    verb: str = "run"
    options: tuple[str, ...] = ()
    """Of the command."""
    deaths: list[Death] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    clock: Path | None = None
    """A file that moves the clock of its processes."""

    def start(self, how: How = WHOLE) -> Child:
        run = [self.verb, str(self.file), "--checkpoint-every", str(CHECKPOINT_SECONDS), *self.options]
        trace = self.file.parent / f"{self.file.stem}-{len(self.children):03d}"
        environment = {"BYTEWAX_WORKERS_PER_PROCESS": str(how.workers)}
        child = Child([*how.options(), "--", *run], environment, trace, self.clock)
        self.children.append(child)
        return child

    def finish(self, how: How = WHOLE, processes: int = 1, timeout: float = 500.0) -> None:
        """Stop what runs, then run to the end of the input."""
        for child in self.running:
            child.stop()
        children = [self.start(how) for _ in range(processes)]
        for child in children:
            child.ends(0, timeout)

    @property
    def running(self) -> list[Child]:
        return [child for child in self.children if child.alive]

    def died(self, moment: str, child: Child) -> None:
        self.deaths.append(Death(self.series, moment, child.commits, child.wasted, time.monotonic()))

    def settle(self) -> None:
        """When all is over: how long each death kept lanes waiting."""
        for number, death in enumerate(self.deaths):
            until = self.deaths[number + 1].at if number + 1 < len(self.deaths) else float("inf")
            pauses = [move.pause for move in moves(self.children) if death.at < move.at <= until]
            death.pause = max(pauses, default=None)

    def kill_all(self) -> None:
        for child in self.running:
            child.kill()
