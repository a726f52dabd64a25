"""How far a running flow has come: written by its lanes poll by poll and commit by commit, read by whoever shows it.

Each lane's numbers are written by that lane alone, so counting needs no lock.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass, field

from sluiceway.flows.dead_letters import DeadLetters
from sluiceway.flows.state_size import StateSize
from sluiceway.flows.tally import Tally

DURATIONS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: commits are counted by the shortest of these that they took at most; those that took longer come last."""


@dataclass(slots=True, eq=False)
class LaneProgress:
    """One lane of this process, in one opening."""

    start: int
    """Where this run began to read; the checkpoint's position after a restart."""
    position: int
    stop: int | None
    state: StateSize = field(default_factory=StateSize)
    records: int = 0
    """Read, whether committed or not."""
    committed: int = 0
    """The newest commit's position."""
    end: int | None = None
    """Where the input ended when it was last looked at."""
    behind_since: float | None = None
    """Since when it has neither read nor committed, though there was something to read."""

    def __post_init__(self) -> None:
        self.committed = self.position

    def reached(self, position: int, records: int) -> None:
        self.position = position
        self.records += records

    @property
    def share(self) -> float:
        """Of what lay before it at the start, between 0 and 1; 0 if there is no end."""
        if self.stop is None:
            return 0.0
        ahead = self.stop - self.start
        return 1.0 if ahead <= 0 else min((self.position - self.start) / ahead, 1.0)

    @property
    def lag(self) -> int | None:
        """What is not committed yet of the input, up to where the run stops; None before the first look at its end."""
        if self.end is None:
            return None
        end = self.end if self.stop is None else min(self.end, self.stop)
        return max(end - self.committed, 0)


@dataclass(slots=True)
class LaneCounts:
    """What this process has committed of a lane, over all its openings."""

    tally: Tally = field(default_factory=Tally)
    commits: list[int] = field(default_factory=lambda: [0] * (len(DURATIONS) + 1))
    """By how long they took, see `DURATIONS`."""
    commit_seconds: float = 0.0
    newest: float = 0.0
    """When the newest commit ended, here or, before the first one, elsewhere; in seconds since 1970, 0 = never."""
    reopened: int = 0

    def committed(self, tally: Tally, seconds: float) -> None:
        self.tally.add(tally)
        self.commits[bisect_left(DURATIONS, seconds)] += 1
        self.commit_seconds += seconds
        self.newest = time.time()


@dataclass(slots=True)
class Progress:
    """All lanes that this process reads."""

    lanes: dict[int, LaneProgress] = field(default_factory=dict)
    counts: dict[int, LaneCounts] = field(default_factory=dict)
    """Of all lanes that were ever this process's."""
    waiting: dict[int, str] = field(default_factory=dict)
    """By lane, what it waits for besides its own input."""
    dead_letters: DeadLetters = field(default_factory=DeadLetters)
    warnings: list[str] = field(default_factory=list)
    """What was said of the input besides."""
    opening: dict[int, float] = field(default_factory=dict)
    """Lanes whose state is being restored, and when there was a sign of life of each, on the monotonic clock."""
    failing: dict[int, float] = field(default_factory=dict)
    """Lanes that must be opened again and again, and since when."""
    parked: dict[int, str] = field(default_factory=dict)
    """Lanes that cannot go on, and why."""
    heard: float = 0.0
    """When a commit or a look at the input was last answered, on the monotonic clock."""
    began: float = 0.0
    """When this process could begin to read, on the same clock; 0 = it has not come to that yet."""
    stopping: bool = False
    _before: int = 0
    """Records read of lanes, or openings of lanes, that are over."""

    def begin(self) -> None:
        self.began = self.heard = time.monotonic()

    def await_opening(self, lane: int) -> None:
        """The lane has come to this process, or must be opened again."""
        self.counts.setdefault(lane, LaneCounts())
        self.parked.pop(lane, None)
        self.opening[lane] = time.monotonic()

    def open(
        self, lane: int, position: int, stop: int | None, state: StateSize | None = None, committed_at: float = 0.0
    ) -> LaneProgress:
        """A source begins to read; `committed_at`: when the commit was made that it goes on from."""
        before = self.lanes.get(lane)
        self._before += 0 if before is None else before.records
        counts = self.counts.setdefault(lane, LaneCounts())
        counts.newest = max(counts.newest, committed_at)
        self.waiting.pop(lane, None)
        self.opening.pop(lane, None)
        opened = self.lanes[lane] = LaneProgress(position, position, stop, state or StateSize())
        return opened

    def committed(self, lane: int, position: int, tally: Tally, seconds: float) -> None:
        """Output, states and position are durable."""
        counts = self.counts.setdefault(lane, LaneCounts())
        counts.committed(tally, seconds)
        self.heard = time.monotonic()
        self.failing.pop(lane, None)
        if lane in self.lanes:
            self.lanes[lane].committed = position

    def failed(self, lane: int) -> None:
        """The lane must be opened again."""
        self.counts.setdefault(lane, LaneCounts()).reopened += 1
        now = time.monotonic()
        self.failing.setdefault(lane, min(now, self.opening.get(lane, now)))
        self.waiting[lane] = "opening the lane again"

    def park(self, lane: int, reason: str) -> None:
        self.opening.pop(lane, None)
        self.parked[lane] = reason
        self.waiting[lane] = f"parked: {reason}"

    def forget(self, lane: int) -> None:
        """The lane is another process's now; what was read of it here still counts."""
        self.waiting.pop(lane, None)
        self.failing.pop(lane, None)
        self.parked.pop(lane, None)
        self.opening.pop(lane, None)
        gone = self.lanes.pop(lane, None)
        self._before += 0 if gone is None else gone.records

    def tell(self, lane: int, waiting: str | None) -> None:
        """What a lane waits for; None for nothing any more."""
        if waiting is None:
            self.waiting.pop(lane, None)
        else:
            self.waiting[lane] = waiting

    @property
    def records(self) -> int:
        return self._before + sum(lane.records for lane in self.lanes.copy().values())

    @property
    def total(self) -> Tally:
        """What this process has committed, of all lanes."""
        total = Tally()
        for counts in self.counts.copy().values():
            total.add(counts.tally)
        return total

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began if self.began else 0.0
