"""How far a running flow has come: written by its sources poll by poll, read by whoever shows it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class LaneProgress:
    """One lane of this process. Only its own source writes here, so counting needs no lock."""

    start: int
    """Where this run began to read; the checkpoint's position after a restart."""
    position: int
    stop: int | None
    records: int = 0

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


@dataclass(slots=True)
class Progress:
    """All lanes that this process reads."""

    lanes: dict[int, LaneProgress] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)
    """By lane, what it waits for besides its own input."""
    _began: float = 0.0
    _before: int = 0
    """Records read of lanes, or openings of lanes, that are over."""

    def begin(self) -> None:
        self._began = time.monotonic()

    def open(self, lane: int, position: int, stop: int | None) -> LaneProgress:
        """A source begins to read."""
        before = self.lanes.get(lane)
        self._before += 0 if before is None else before.records
        opened = self.lanes[lane] = LaneProgress(position, position, stop)
        return opened

    def forget(self, lane: int) -> None:
        """The lane is another process's now; what was read of it here still counts."""
        self.waiting.pop(lane, None)
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
    def seconds(self) -> float:
        return time.monotonic() - self._began if self._began else 0.0
