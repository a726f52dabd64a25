"""Processes of their own, forked from one that has imported everything: to begin anew costs next to nothing.

A series of deaths is mostly beginnings, and importing takes a second or two of each. `python -m tests.crash.nursery`
reads a request a line (the runner's arguments, its environment, where its output goes), answers with the child's
process id, and tells how each child has ended. Nothing of Kafka or the engine runs in it, so nothing is shared but what
is read.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import SupportsIndex

import orjson

ROOT = Path(__file__).resolve().parents[2]
LOOK_SECONDS = 0.01
BIRTH_SECONDS = 300.0
"""On a busy machine importing everything can take minutes."""
RENEWED_AFTER = 12
"""Children of one nursery hash alike, which could hide an order that depends on it: the next ones are another's."""


class Nursery:
    """The harness's side of it."""

    def __init__(self, clock: Path | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"],
            cwd=ROOT,
            env={**os.environ, **({} if clock is None else moved_by(clock))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._told = threading.Condition()
        self._born: list[int] = []
        self._codes: dict[int, int] = {}
        self.begun = 0
        threading.Thread(target=self._listen, daemon=True).start()
        atexit.register(self.close)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = orjson.loads(line)
            with self._told:
                if told["code"] is None:
                    self._born.append(told["pid"])
                else:
                    self._codes[told["pid"]] = told["code"]
                self._told.notify_all()
        with self._told:
            self._told.notify_all()

    def begin(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> Offspring:
        assert self._process.stdin is not None
        self.begun += 1
        request = {"arguments": arguments, "environment": environment, "output": str(output)}
        with self._told:
            self._process.stdin.write(orjson.dumps(request) + b"\n")
            self._process.stdin.flush()
            self._told.wait_for(lambda: self._born or self._process.poll() is not None, BIRTH_SECONDS)
            assert self._born, "no process was begun"
            return Offspring(self, self._born.pop())

    def code(self, pid: int, timeout: float = 0.0) -> int | None:
        with self._told:
            self._told.wait_for(lambda: pid in self._codes, timeout)
            return self._codes.get(pid)

    def close(self) -> None:
        """It goes when its last child has."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()


class Offspring:
    """One process; what `subprocess.Popen` would be."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid

    @property
    def returncode(self) -> int | None:
        return self._nursery.code(self.pid)

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float) -> int:
        code = self._nursery.code(self.pid, timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a flow", timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


_current: dict[Path | None, Nursery] = {}


def begin(
    arguments: Sequence[str], environment: Mapping[str, str], output: Path, clock: Path | None = None
) -> Offspring:
    """A process of some nursery's; `clock` is a file that says by how much its clock is wrong, at any time."""
    if clock in _current and _current[clock].begun >= RENEWED_AFTER:
        _current.pop(clock).close()
    if clock not in _current:
        _current[clock] = Nursery(clock)
    return _current[clock].begin(arguments, environment, output)


def faketime() -> Path | None:
    """The library that moves clocks, if it is installed (Debian: `libfaketime`)."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def moved_by(clock: Path) -> dict[str, str]:
    """The environment of a process whose clock a file moves: the one that tells dates, not the one that only counts."""
    return {
        "LD_PRELOAD": str(faketime()),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


# -- the process itself ----------------------------------------------------------------------------------------------


def _answer(pid: int, code: int | None) -> None:
    os.write(1, orjson.dumps({"pid": pid, "code": code}) + b"\n")


def _serve() -> Sequence[str] | None:
    """Until nothing more is asked and no child is left; in a child, what it is to run."""
    buffered, open_, children = b"", True, 0
    while open_ or children:
        if open_ and select.select([0], [], [], LOOK_SECONDS)[0]:
            read = os.read(0, 65536)
            open_ = bool(read)
            *lines, buffered = (buffered + read).split(b"\n")
            for line in lines:
                request = orjson.loads(line)
                pid = os.fork()
                if pid == 0:
                    return _become(request)
                children += 1
                _answer(pid, None)
        elif not open_:
            time.sleep(LOOK_SECONDS)
        while children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            children -= 1
            _answer(pid, os.waitstatus_to_exitcode(status))
    return None


def _become(request: Mapping[str, object]) -> Sequence[str]:
    output = os.open(str(request["output"]), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    environment, arguments = request["environment"], request["arguments"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    os.environ.update(environment)
    return arguments


def _sleep_by_select(seconds: SupportsIndex | float, /) -> None:
    """libfaketime takes Python's own sleep, until a time of one clock, for a sleep by the clock that it moves."""
    select.select([], [], [], max(float(seconds), 0.0))


def main() -> None:
    from sluiceway.flows import run as imported_for_its_children  # noqa: F401
    from sluiceway.operators import registry
    from sluiceway.operators.stages import scale
    from sluiceway.schemas import decode
    from tests.crash import runner

    if "FAKETIME_TIMESTAMP_FILE" in os.environ:
        time.sleep = _sleep_by_select
    registry.get("ofs").cls.compile()
    scale.warm_up()
    decode.warm_up()
    arguments = _serve()
    if arguments is not None:
        runner.main(arguments)


if __name__ == "__main__":
    main()
