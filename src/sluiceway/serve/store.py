"""What has come of every stream: its newest snapshot, and of those before as much as memory is given for.

One thread takes what comes, any may ask. Whoever shows it remembers up to which *revision* it has been told, and asks
for what came since: so nobody has a queue, and one who is slow gets what matters now.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson

from sluiceway.client import StreamName
from sluiceway.schemas.records import Snapshot

HISTORY_BYTES = 64_000_000
"""Of snapshots kept beside the newest of each stream; the oldest go first, whosever they are."""
TOLD_BYTES = 4_000_000
"""Of one stream's history, to somebody who looks at it."""
REMEMBERED_ENDS = 10_000


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest snapshot of a stream."""

    name: StreamName
    generation: int
    version: int
    text: bytes
    """The snapshot as it stands on the topic."""
    summary: dict[str, Any]
    """What a list of streams says of it."""
    revision: int

    @property
    def tag(self) -> str:
        """What changes whenever the snapshot does."""
        return f"{self.generation}-{self.version}" if self.generation else str(self.version)


class Point(NamedTuple):
    """A snapshot in the history."""

    revision: int
    content: bytes
    """JSON, what the page draws: version, ts, generation, metrics, names, weights, when it came."""


@dataclass(slots=True)
class _Place:
    """A stream in a partition."""

    newest: Newest
    points: deque[Point]


@dataclass(frozen=True, slots=True)
class Changes:
    """Of the list of streams."""

    revision: int
    anew: bool
    """Forget what you had."""
    changed: tuple[Newest, ...]
    ended: tuple[StreamName, ...]


class Store:
    """All streams of a topic."""

    def __init__(self, history_bytes: int = HISTORY_BYTES) -> None:
        self._lock = threading.Lock()
        self._history_bytes = history_bytes
        self._kept = 0
        self._order: deque[_Place] = deque()
        """Whose the points are, the oldest first."""
        self._shown: OrderedDict[StreamName, _Place] = OrderedDict()
        """The one that changed last at the end."""
        self._places: dict[StreamName, dict[int, _Place]] = {}
        """By partition: what stands in two is one stream only when it has ended in the other."""
        self._ends: deque[tuple[int, StreamName]] = deque()
        self._ends_from = 0
        self.revision = 0
        """Of the newest change."""
        self.on_change: Callable[[], object] = lambda: None

    def take(self, snapshot: Snapshot, partition: int, *, live: bool) -> None:
        """The next of its stream; `live` if it came just now, and did not stand in the topic before."""
        came = time.time_ns() // 1_000_000 if live else None
        name = StreamName(snapshot.flow, snapshot.stream)
        text = snapshot.model_dump_json(by_alias=True, exclude_unset=True).encode()
        content = _point(snapshot, came)
        with self._lock:
            self.revision += 1
            places = self._places.setdefault(name, {})
            place = places.get(partition)
            summary = _summary(snapshot, came, None if place is None else place.newest.summary)
            newest = Newest(name, snapshot.generation, snapshot.version, text, summary, self.revision)
            if place is None:
                place = places[partition] = _Place(newest, deque())
            place.newest = newest
            place.points.append(Point(self.revision, content))
            self._show(name, place)
            self._keep(place, len(content))
        self.on_change()

    def end(self, name: StreamName, partition: int) -> None:
        """It was retired there."""
        with self._lock:
            self._end(name, partition)
        self.on_change()

    def get(self, flow: str, stream: str) -> Newest | None:
        place = self._shown.get(StreamName(flow, stream))
        return None if place is None else place.newest

    def all(self, flow: str | None = None, stream: str | None = None) -> list[Newest]:
        """By name."""
        with self._lock:
            found = [place.newest for place in self._shown.values()]
        wanted = (each for each in found if flow in (None, each.name.flow) and stream in (None, each.name.stream))
        return sorted(wanted, key=lambda each: each.name)

    def __len__(self) -> int:
        return len(self._shown)

    def since(self, revision: int | None) -> Changes:
        """What has changed after a revision; all there is for one who knows nothing, or has been away for too long."""
        with self._lock:
            anew = revision is None or not self._ends_from <= revision <= self.revision
            after = -1 if revision is None or anew else revision
            changed = tuple(self._newest_first(after))
            ended = () if anew else tuple(name for at, name in self._ends if at > after and name not in self._shown)
            return Changes(self.revision, anew, changed, ended)

    def history(self, name: StreamName, after: int, until: int) -> list[bytes]:
        """The points of a stream that came after a revision, up to another; the newest, if they are many."""
        found: list[bytes] = []
        size = 0
        with self._lock:
            place = self._shown.get(name)
            for point in () if place is None else reversed(place.points):
                size += len(point.content)
                if point.revision <= after or (size > TOLD_BYTES and found):
                    break
                if point.revision <= until:
                    found.append(point.content)
        return found[::-1]

    def _end(self, name: StreamName, partition: int) -> None:
        places = self._places.get(name, {})
        place = places.pop(partition, None)
        if place is None:
            return
        self._kept -= sum(len(point.content) for point in place.points)
        place.points.clear()
        self.revision += 1
        if places:
            other = next(reversed(places.values()))
            other.newest = replace(other.newest, revision=self.revision)
            self._show(name, other)
            return
        del self._places[name], self._shown[name]
        self._ends.append((self.revision, name))
        if len(self._ends) > REMEMBERED_ENDS:
            self._ends_from = self._ends.popleft()[0]

    def _newest_first(self, after: int) -> Iterator[Newest]:
        for place in reversed(self._shown.values()):
            if place.newest.revision <= after:
                return
            yield place.newest

    def _show(self, name: StreamName, place: _Place) -> None:
        self._shown[name] = place
        self._shown.move_to_end(name)

    def _keep(self, place: _Place, size: int) -> None:
        self._order.append(place)
        self._kept += size
        while self._kept > self._history_bytes and self._order:
            oldest = self._order.popleft()
            if len(oldest.points) > 1:  # the newest stays; of a stream that has ended there are none
                self._kept -= len(oldest.points.popleft().content)


def _summary(snapshot: Snapshot, came: int | None, before: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "flow": snapshot.flow,
        "stream": snapshot.stream,
        "operator": snapshot.operator,
        "version": snapshot.version,
        "seen": snapshot.seen,
        "ts": snapshot.ts,
        "n_selected": snapshot.n_selected,
        "entered": len(snapshot.entered),
        "left": len(snapshot.left),
        "mistakes": (mistakes := snapshot.metrics.get("mistakes")),
        "error_rate": snapshot.metrics.get("error_rate"),
        "error_lately": None if before is None else _lately(before, snapshot.version, mistakes),
        "came": came,
    }


def _lately(before: dict[str, Any], version: int, mistakes: float | None) -> float | None:
    """The error rate between two snapshots."""
    earlier, learnt = before["mistakes"], version - before["version"]
    if earlier is None or mistakes is None or learnt <= 0 or mistakes < earlier:
        return None
    return float((mistakes - earlier) / learnt)


def _point(snapshot: Snapshot, came: int | None) -> bytes:
    names = [entry.feature for entry in snapshot.selected]
    weights = [float(f"{entry.weight:.6g}") for entry in snapshot.selected]
    return orjson.dumps([snapshot.version, snapshot.ts, snapshot.generation, snapshot.metrics, names, weights, came])
