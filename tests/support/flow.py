"""Flows as a user runs them: a TOML file, a child process, its exit code and what it says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import psutil  # type: ignore[import-untyped]  # it has no types

from tests.support.kafka import Record, Topics, read_committed

OUTPUTS = ("selections", "predictions", "dead_letters")
STATE = {"cleanup.policy": "compact", "delete.retention.ms": "86400000"}
"""What a state topic must be like."""
RUN_SECONDS = 300.0
"""A bound that only failures meet: on a busy machine that has to compile first, minutes may go by."""


def toml(content: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of plain values; JSON writes strings, numbers, booleans and lists as TOML reads them."""
    tables = []
    for name, table in content.items():
        lines = [f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in table.items() if value is not None]
        tables.append(f"[{name}]\n{''.join(lines)}")
    return "\n".join(tables)


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def sentence(self) -> str:
        """The last line on stderr, which must be the command's own."""
        last = self.stderr.strip().splitlines()[-1] if self.stderr.strip() else ""
        assert last.startswith("sluiceway: "), self.stderr
        return last.removeprefix("sluiceway: ")


def sluiceway(*arguments: str | Path, cwd: Path | None = None, timeout: float = RUN_SECONDS) -> Done:
    """Run the command to its end."""
    with Running(*arguments, cwd=cwd) as running:
        return running.wait(timeout)


class Running:
    """The command as a child process; killed at the end of the block if it still runs."""

    def __init__(
        self,
        *arguments: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        module: str = "sluiceway",
        inherit: Mapping[str, str] = os.environ,
    ) -> None:
        command = [sys.executable, "-m", module, *map(str, arguments)]
        # files, not pipes: a flow that says more than a pipe holds must not wait for us
        self._said = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**inherit, "PYTHONUNBUFFERED": "1", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=self._said[0],
            stderr=self._said[1],
        )

    def until(self, condition: Callable[[], bool], timeout: float = RUN_SECONDS) -> None:
        """Wait for something in the world; a flow that ends before it came is a failure."""
        deadline = time.monotonic() + timeout
        while not condition():
            if self._process.poll() is not None:
                raise AssertionError(f"the flow ended too early: {self.wait(1.0)}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"what was waited for did not come within {timeout:.0f} s; it said:\n{self.stderr}")
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def cpu_seconds(self) -> float:
        """What it has used so far."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def stop(self, timeout: float = RUN_SECONDS) -> Done:
        """SIGTERM to a flow that has begun, and wait; before that there is nothing to finish, and it just ends."""
        self.until(lambda: re.search(r" partitions?, ", self.stderr) is not None, timeout)
        self.send(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> Done:
        self._process.kill()
        return self.wait(20.0)

    def wait(self, timeout: float = RUN_SECONDS) -> Done:
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise TimeoutError(f"the flow did not end within {timeout:.0f} s; it said:\n{self.stderr}") from None
        return Done(code, _all_of(self._said[0]), self.stderr)

    @property
    def stdout(self) -> str:
        """What it has written so far."""
        return _all_of(self._said[0])

    @property
    def stderr(self) -> str:
        """What it has said so far."""
        return _all_of(self._said[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for file in self._said:
            file.close()


def _all_of(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


class KafkaFlow:
    """A flow of its own on topics of its own, with a state topic.

    One process at a time runs it, as the same member of its group: a killed one's lanes are the next one's at once.
    Where several run, `kafka={"group.instance.id": None}`.
    """

    def __init__(
        self,
        topics: Topics,
        directory: Path,
        *,
        partitions: int = 1,
        configs: Mapping[str, Mapping[str, str]] | None = None,
        name: str = "flow",
        **sections: Mapping[str, Any],
    ) -> None:
        self.topics = topics
        self.bootstrap = topics.bootstrap
        self.address = self.bootstrap
        """Where the flow itself finds the broker."""
        self.name = topics.group(name)
        self.directory = directory
        self.file = directory / f"{self.name}.toml"
        given = configs or {}
        self.topic = {
            role: topics(role, partitions=partitions, config=given.get(role)) for role in ("instances", *OUTPUTS)
        }
        self.state = topics.make(f"{self.name}.state", partitions, {**STATE, **given.get("state", {})})
        applying = f"{self.name}-apply"
        topics.also(f"{applying}.state", groups=[f"{self.name}.members", applying, f"{applying}.members"])
        self.sections: dict[str, dict[str, Any]] = {
            "kafka": {"session.timeout.ms": 6000, "group.instance.id": "only"},
            "input": {"stop": "end"},
            "operator": {"name": "ofs", "k": 3},
            "emit": {"every": 5},
        }
        self.write(**sections)

    @property
    def instances(self) -> str:
        return self.topic["instances"]

    def write(self, **sections: Mapping[str, Any]) -> None:
        """Write the flow's file, with changes to its tables; they last."""
        for table, changes in sections.items():
            self.sections[table] = {**self.sections.get(table, {}), **changes}
        urls = {role: f"kafka://{self.address}/{name}" for role, name in self.topic.items()}
        self.file.write_text(toml({"flow": {"name": self.name}, "topics": urls, **self.sections}))

    def arguments(self, *more: str) -> Sequence[str | Path]:
        return ("run", self.file, "--checkpoint-every", "0.2", *more)

    def run(self, *more: str, timeout: float = RUN_SECONDS) -> Done:
        return sluiceway(*self.arguments(*more), timeout=timeout)

    def start(self, *more: str, env: Mapping[str, str] | None = None) -> Running:
        return Running(*self.arguments(*more), env=env)

    def ends(self, *more: str, timeout: float = RUN_SECONDS) -> None:
        """Run to a good end."""
        done = self.run(*more, timeout=timeout)
        assert done.code == 0, done.stderr
        assert "the input has ended; " in done.stderr, done.stderr

    def out(self, role: str, *, partition: int = 0) -> list[Record]:
        """What readers of committed records see."""
        return read_committed(self.bootstrap, self.topic[role], [partition])[partition]

    def values(self, role: str, *, partition: int = 0) -> list[Any]:
        return [json.loads(record.value or b"null") for record in self.out(role, partition=partition)]
