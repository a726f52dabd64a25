"""One stream of instances and its instance selector, from a batch of instances to snapshots."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.contract import InstanceSelector
from sluiceway.operators.stages.emission import Reason
from sluiceway.operators.stages.lane import Lane
from sluiceway.operators.stages.pending import Joined, Pending, orphan
from sluiceway.operators.stages.pieces import Pieces, readable
from sluiceway.operators.stages.scale import Scale, scaled
from sluiceway.operators.stages.snapshots import SnapshotConfig, Snapshots
from sluiceway.operators.stages.streams import StreamOutput
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.lane import OutRecord, RawRecords
from sluiceway.schemas.state import StreamChange, StreamState

KIND, STATE_VERSION = "instance-selector", 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorStreamConfig(SnapshotConfig):
    """What all streams of a flow of instance selectors share."""

    new_selector: Callable[[], InstanceSelector]
    selector_from_state: Callable[[Mapping[str, Any]], InstanceSelector]
    scale: Scale = "none"
    max_pending: int = 10_000

    def lane(self, topic: str, number: int) -> Lane:
        return Lane(self, topic)

    def new(self, name: str, lane: int) -> SelectorStream:
        return SelectorStream(name, lane, self)

    def restore(self, name: str, lane: int, state: StreamState) -> SelectorStream:
        return SelectorStream.from_state(name, lane, self, state)


class SelectorStream:
    """One selector of instances and its stages. A later label's instance is learnt when the label comes."""

    def __init__(self, name: str, lane: int, config: SelectorStreamConfig) -> None:
        self.name = name
        self._config = config
        self._selector = config.new_selector()
        self._pieces = Pieces()
        self._pending = Pending(config.max_pending, self._pieces)
        self._seen = 0
        self._evicted = 0
        self._ts = 0
        self._snapshots = Snapshots(name, lane, config)

    # -- processing ----------------------------------------------------------------------------------------------

    def process(self, batch: InstanceBatch, raw: RawRecords) -> StreamOutput:
        joined = self._pending.join(batch)
        rows = scaled(joined.batch, self._config.scale)
        snapshots = self._learn(joined, rows)
        return StreamOutput(snapshots, dead_letters=[orphan(offset, *raw[offset]) for offset in joined.orphans])

    def _learn(self, joined: Joined, rows: InstanceBatch) -> list[OutRecord]:
        """Advance to each row where a snapshot may be due, emit, and go on."""
        emit, selector, snapshots = self._config.emit, self._selector, []
        learns = np.flatnonzero(rows.y)
        row = 0
        while row < len(rows):
            version = selector.version
            start, row = row, self._stop(learns[np.searchsorted(learns, row) :], len(rows))
            selector.advance(rows, start, row)
            self._count(joined, start, row)
            if selector.version == version:
                continue
            reason = emit.due(selector.version, self._snapshots.version, self._changed())
            if reason is not None:
                source = int(rows.next_offset[row - 1])
                snapshots.append(self._snapshot(reason, int(rows.offset[row - 1]), source))
        return snapshots

    def _stop(self, learns: NDArray[np.int64], rows: int) -> int:
        """The row to stop before: after the next version that may call for a snapshot. `learns`: labelled rows."""
        emit, version = self._config.emit, self._selector.version
        steps = len(learns) + 1
        if emit.every:
            steps = min(steps, emit.every - version % emit.every)
        if emit.on_change:
            steps = min(steps, self._selector.refresh - version % self._selector.refresh)
        return int(learns[steps - 1]) + 1 if steps <= len(learns) else rows

    def _count(self, joined: Joined, start: int, stop: int) -> None:
        if joined.arrived is None:
            self._seen += stop - start
        else:
            self._seen += int(np.count_nonzero(joined.arrived[start:stop]))
        self._evicted += bisect_left(joined.evictions, stop) - bisect_left(joined.evictions, start)
        if stop > start:
            self._ts = max(self._ts, int(joined.batch.ts[start:stop].max()))

    def _changed(self) -> bool:
        """Whether the selection differs from the last snapshot's; not asked for where nothing depends on it."""
        if not self._config.emit.on_change or self._selector.version % self._selector.refresh:
            return False
        return self._snapshots.differs(self._selector.selected)

    # -- emitting ------------------------------------------------------------------------------------------------

    def final(self, position: int) -> OutRecord | None:
        """The snapshot at the end of bounded input, unless this version has one already."""
        if not self._config.emit.final or self._selector.version == self._snapshots.version:
            return None
        return self._snapshot("final", position, position)

    def _snapshot(self, reason: Reason, offset: int, position: int) -> OutRecord:
        selector = self._selector
        evicted = {"pending_evicted": self._evicted} if self._evicted else {}
        return self._snapshots.make(
            reason,
            offset=offset,
            position=position,
            version=selector.version,
            seen=self._seen,
            ts=self._ts,
            selected=selector.selected,
            metrics={**evicted, **selector.metrics()},
            params=selector.params,
        )

    # -- state ---------------------------------------------------------------------------------------------------

    def state(self) -> StreamState:
        return StreamState(self._head(), self._pending.pieces())

    def changes(self) -> StreamChange:
        return StreamChange(self._head(), *self._pieces.changes())

    def _head(self) -> dict[str, Any]:
        return {
            "stream": KIND,
            "state_version": STATE_VERSION,
            "pieces": len(self._pending),
            "next_piece": self._pieces.following,
            "model": self._selector.state(),
            "seen": self._seen,
            "evicted": self._evicted,
            "ts": self._ts,
            "snapshots": self._snapshots.state(),
        }

    @classmethod
    def from_state(cls, name: str, lane: int, config: SelectorStreamConfig, state: StreamState) -> Self:
        head = readable(state, KIND, STATE_VERSION)
        stream = cls(name, lane, config)
        stream._selector = config.selector_from_state(head["model"])
        stream._pieces.following = head["next_piece"]
        stream._pending.restore(state.pieces)
        stream._seen = head["seen"]
        stream._evicted = head["evicted"]
        stream._ts = head["ts"]
        stream._snapshots.restore(head["snapshots"])
        return stream
