"""What lanes are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from sluiceway.flows.progress import Progress
from sluiceway.schemas.lane import LaneOutput
from sluiceway.schemas.state import StoredChange
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.reader import Reader
from sluiceway.topics.store import LaneStore, Restored, Wanted


class Processor(Protocol):
    """What a lane does with decoded polls."""

    def process(self, batch: Any) -> LaneOutput: ...

    def changes(self) -> Sequence[StoredChange]:
        """Of the streams touched since the last call."""

    @property
    def wants_commit(self) -> bool:
        """Whether it cannot wait for the next commit's time."""

    @property
    def unfinished(self) -> bool:
        """At the end of the input: whether there is more to be given, after a commit, for another empty poll."""

    def close(self) -> None:
        """The lane is no longer here."""


class Opening(NamedTuple):
    """What a lane's reader goes on from."""

    lane: int
    positions: Mapping[str, int]
    """Of the newest commit, by what is read; empty if there is none."""
    bounds: Bounds
    processor: Processor

    def span(self, reads: str) -> tuple[int, int | None]:
        """From where to where this is read; the first input's bounds are the run's own."""
        bounds = self.bounds.others.get(reads, self.bounds)
        return self.positions.get(reads, bounds.starts[self.lane]), bounds.stops[self.lane]


OpenReader = Callable[[Opening], Reader]


@dataclass(frozen=True, slots=True)
class Parts:
    """The same for all lanes of a process."""

    store: Callable[[int, Callable[[], bool]], LaneStore]
    wanted: Wanted
    reads: str
    """What the flow reads, as commit records name it."""
    reader: OpenReader
    processor: Callable[[int, Restored], Processor]
    interval: float
    """Seconds between commits."""
    progress: Progress
