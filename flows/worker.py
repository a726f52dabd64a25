"""One worker: the lanes it has, fed in turn, until the run is over or the flow is stopped. No engine in here."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluiceway.errors import FlowError, SluicewayError
from sluiceway.flows.lane_run import Item, LaneRun
from sluiceway.flows.parts import Parts
from sluiceway.topics.members import Membership
from sluiceway.topics.state_records import CommitRecord

logger = logging.getLogger("sluiceway.flow")

STOP_SECONDS = 5.0
"""How long a stop waits for the last commits; what they would have held is read again by whoever goes on."""
IDLE_SECONDS = 0.01
FINISH_SECONDS = 0.3
"""Between two looks whether the lanes of other processes are done."""


class Following(Protocol):
    """The newest commits of all lanes, wherever they run."""

    @property
    def commits(self) -> Mapping[int, CommitRecord | None]: ...

    def poll(self) -> None: ...

    def close(self) -> None: ...


class Finish:
    """Whether a bounded run is over everywhere; looked for by a thread of its own once this process is done."""

    def __init__(self, lanes: int, follow: Callable[[Sequence[int]], Following] | None) -> None:
        self._lanes = set(range(lanes))
        """Those of which it is not known yet that they are done."""
        self._follow = follow
        self._over = threading.Event()
        self._begun = False
        self._number = 0

    def __call__(self, number: int, done: Iterable[int]) -> bool:
        """Asked again and again by a worker without anything left to do; `number` of the run, `done` its own lanes."""
        self._number = max(self._number, number)
        self._lanes -= set(done)
        if self._follow is None or not self._lanes:
            return True
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._look, name="finish", daemon=True).start()
        return self._over.is_set()

    def _look(self) -> None:
        assert self._follow is not None
        following: Following | None = None
        while not self._over.is_set():
            try:
                following = following or self._follow(sorted(self._lanes))
                following.poll()
                commits = following.commits.values()
                if all(commit is not None and commit.ends(self._number) for commit in commits):
                    self._over.set()
            except SluicewayError as problem:
                logger.debug("whether the run is over is not known: %s", problem)
                following = None
            time.sleep(FINISH_SECONDS)


@dataclass
class Process:
    """What the workers of this process share."""

    parts: Parts
    join: Callable[[int, int, Callable[[int], None], Callable[[int, bool], None]], Membership]
    """Of a worker, by its number and how many there are: tells it which lanes it gains and loses."""
    bounded: bool
    stopping: Callable[[], bool]
    finish: Finish
    problems: list[BaseException] = field(default_factory=list)
    """Why lanes are parked, or what ended a worker."""
    unfinished: list[int] = field(default_factory=list)
    """Lanes that were stopped without their last commit."""
    ended: int = 0
    """Workers that have."""


class Worker:
    """Takes lanes as they are handed out, and gives items."""

    def __init__(self, process: Process, index: int, count: int) -> None:
        self._process = process
        self._index, self._count = index, count
        self._membership: Membership | None = None
        self._runs: dict[int, LaneRun] = {}
        self._stopping_since: float | None = None
        self.ended = False

    @property
    def is_last(self) -> bool:
        """Of its process to have ended."""
        return self.ended and self._process.ended == self._count

    def step(self) -> list[Item]:
        """What the lanes have now; at most one item each."""
        if self._membership is None:
            self._membership = self._process.join(self._index, self._count, self._gained, self._lost)
        stopping = self._process.stopping()
        if stopping and self._stopping_since is None:
            self._stopping_since = time.monotonic()
            self._process.parts.progress.stopping = True
        try:
            self._membership.poll()
        except FlowError as problem:
            self._process.problems.append(problem)
            self._leave()
            return []
        runs = list(self._runs.values())
        items = [item for run in runs if (item := run.next(stopping)) is not None]
        if not items and self._is_over(stopping):
            self._leave()
        return items

    def _gained(self, lane: int) -> None:
        if lane >= self._process.parts.wanted.lanes:
            return  # the state topic has grown: this process will be told to look at its topics again
        logger.info("lane %d has come to this process", lane)
        self._runs[lane] = LaneRun(lane, self._process.parts)

    def _lost(self, lane: int, thrown_out: bool) -> None:
        run = self._runs.pop(lane, None)
        if run is not None:
            if thrown_out and self._stopping_since is not None and not run.ended:
                self._process.unfinished.append(lane)  # no broker has heard of its last commit, nor of this process
            logger.info("lane %d leaves this process", lane)
            run.forget()

    def _is_over(self, stopping: bool) -> bool:
        runs = self._runs.values()
        if stopping:
            assert self._stopping_since is not None
            if all(run.ended for run in runs):
                return True
            if time.monotonic() - self._stopping_since < STOP_SECONDS:
                return False
            self._process.unfinished += [run.lane for run in runs if not run.ended]
            return True
        if not all(run.ended for run in runs):
            return False
        if any(run.parked for run in runs):
            return True
        if not self._process.bounded:
            return False
        number = max((run.run for run in runs), default=self._process.parts.wanted.number)
        return self._process.finish(number, [run.lane for run in runs if run.final])

    def _leave(self) -> None:
        self.ended = True
        self._process.ended += 1
        self._process.problems += [run.parked for run in self._runs.values() if run.parked is not None]
        for run in self._runs.values():
            run.close()
        if self._membership is not None:
            self._membership.close()


def raise_problems(process: Process) -> None:
    """What stopped lanes, once all others are at their end."""
    problems = process.problems
    if problems:
        first = problems[0]
        if not isinstance(first, SluicewayError):
            raise first
        others = f" (and {len(problems) - 1} more lanes)" if len(problems) > 1 else ""
        raise type(first)(f"{first}{others}") from first
    if process.unfinished:
        lanes = ", ".join(map(str, sorted(process.unfinished)))
        raise FlowError(
            f"stopped, but the last commit of lane {lanes} did not come to an end: what it would have held is read"
            f" again by whoever goes on"
        )
