"""One stream: its model and what surrounds it, from a batch of instances to snapshots and predictions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.contract import Advancing
from sluiceway.operators.stages.emission import Reason
from sluiceway.operators.stages.pending import Joined, Pending, orphan
from sluiceway.operators.stages.pieces import Pieces, readable
from sluiceway.operators.stages.scale import Scale, scaled
from sluiceway.operators.stages.snapshots import SnapshotConfig, Snapshots
from sluiceway.operators.stages.streams import StreamOutput
from sluiceway.schemas import encode
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.lane import OutRecord, RawRecords
from sluiceway.schemas.state import StreamChange, StreamState

KIND, STATE_VERSION = "instances", 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig(SnapshotConfig):
    """What all streams of a flow of learners share."""

    new_learner: Callable[[], Advancing]
    learner_from_state: Callable[[Mapping[str, Any]], Advancing]
    scored: bool = True
    """Whether the operator scores: without it nothing is judged or predicted."""
    look_every: int = 1
    """A change of the selection is looked for at versions that this divides."""
    scale: Scale = "l2"
    max_pending: int = 10_000
    predictions: bool = False
    classes: tuple[str, str] | None = None
    """Names of the labels -1 and +1 in predictions."""

    def new(self, name: str, lane: int) -> Stream:
        return Stream(name, lane, self)

    def restore(self, name: str, lane: int, state: StreamState) -> Stream:
        return Stream.from_state(name, lane, self, state)


class Stream:
    """One learner and its stages."""

    def __init__(self, name: str, lane: int, config: StreamConfig) -> None:
        self.name = name
        self._lane = lane
        self._config = config
        self._model = config.new_learner()
        self._pieces = Pieces()
        self._pending = Pending(config.max_pending, self._pieces)
        self._seen = 0
        self._mistakes = 0
        self._evicted = 0
        self._ts = 0
        self._snapshots = Snapshots(name, lane, config)

    # -- processing ----------------------------------------------------------------------------------------------

    def process(self, batch: InstanceBatch, raw: RawRecords) -> StreamOutput:
        joined = self._pending.join(batch)
        rows = scaled(joined.batch, self._config.scale)
        scores = np.empty(len(rows))
        seen_before = self._seen
        snapshots = self._learn(joined, rows, scores)
        self._pending.scored(scores)
        predictions = self._predict(joined, scores, seen_before) if self._config.predictions else []
        orphans = [orphan(offset, *raw[offset]) for offset in joined.orphans]
        return StreamOutput(snapshots, predictions=predictions, dead_letters=orphans)

    def _learn(self, joined: Joined, rows: InstanceBatch, scores: NDArray[np.float64]) -> list[OutRecord]:
        """Advance to each row where a snapshot may be due, emit, and go on."""
        emit, model, snapshots = self._config.emit, self._model, []
        learns = np.flatnonzero(rows.y)
        row = learnt = 0
        changed = self._changed()
        while row < len(rows):
            version = model.version
            stop, at_change = emit.until(
                version, self._snapshots.version, changed, learns[learnt:], len(rows), self._config.look_every
            )
            start, row = row, model.advance(rows, row, stop, scores, until_change=at_change)
            learnt += model.version - version
            self._count(joined, scores, start, row)
            if model.version == version:
                continue
            changed = self._changed()
            reason = emit.due(model.version, self._snapshots.version, changed)
            if reason is not None:
                changed = False
                source = int(rows.next_offset[row - 1])
                snapshots.append(self._snapshot(reason, int(rows.offset[row - 1]), source))
        return snapshots

    def _count(self, joined: Joined, scores: NDArray[np.float64], start: int, stop: int) -> None:
        batch = joined.batch
        wrong = batch.y[start:stop] * scores[start:stop] <= 0
        judged = batch.y[start:stop] != 0
        if joined.arrived is None:
            self._seen += stop - start
        else:
            self._seen += int(np.count_nonzero(joined.arrived[start:stop]))
            judged &= joined.arrived[start:stop]
        self._mistakes += int(np.count_nonzero(wrong & judged))
        for row, waiting in joined.labelled_later.items():
            if start <= row < stop:
                score = waiting.score if waiting.row < 0 else float(scores[waiting.row])
                self._mistakes += int(batch.y[row]) * score <= 0
        self._evicted += bisect_left(joined.evictions, stop) - bisect_left(joined.evictions, start)
        if stop > start:
            self._ts = max(self._ts, int(batch.ts[start:stop].max()))

    def _changed(self) -> bool:
        """Whether the selection differs from the last snapshot's; not asked for where nothing depends on it."""
        if not self._config.emit.on_change or self._model.version % self._config.look_every:
            return False
        return self._snapshots.differs(self._model.selected)

    # -- emitting ------------------------------------------------------------------------------------------------

    def final(self, position: int) -> OutRecord | None:
        """The snapshot at the end of bounded input, unless this version has one already."""
        if not self._config.emit.final or self._model.version == self._snapshots.version:
            return None
        return self._snapshot("final", position, position)

    def _snapshot(self, reason: Reason, offset: int, position: int) -> OutRecord:
        model = self._model
        metrics: dict[str, float] = {}
        if self._config.scored:
            metrics |= {"mistakes": self._mistakes, "error_rate": self._mistakes / model.version}
        if self._evicted:
            metrics["pending_evicted"] = self._evicted
        return self._snapshots.make(
            reason,
            offset=offset,
            position=position,
            version=model.version,
            seen=self._seen,
            ts=self._ts,
            selected=model.selected,
            wanted=model.wanted_features(),
            metrics={**metrics, **model.metrics()},
            params=model.params,
        )

    def _predict(self, joined: Joined, scores: NDArray[np.float64], seq: int) -> list[OutRecord]:
        batch = joined.batch
        offsets, ids = batch.offset, batch.ids
        if joined.arrived is not None:
            rows = np.flatnonzero(joined.arrived)
            offsets, scores = offsets[rows], scores[rows]
            ids = None if ids is None else [ids[row] for row in rows.tolist()]
        return encode.predictions(
            flow=self._config.flow,
            stream=self.name,
            ids=ids,
            seq=seq,
            partition=self._lane,
            offsets=offsets,
            scores=scores,
            labels=self._config.classes or (-1, 1),
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
            "model": self._model.state(),
            "seen": self._seen,
            "mistakes": self._mistakes,
            "evicted": self._evicted,
            "ts": self._ts,
            "snapshots": self._snapshots.state(),
        }

    @classmethod
    def from_state(cls, name: str, lane: int, config: StreamConfig, state: StreamState) -> Self:
        head = readable(state, KIND, STATE_VERSION)
        stream = cls(name, lane, config)
        stream._model = config.learner_from_state(head["model"])
        stream._pieces.following = head["next_piece"]
        stream._pending.restore(state.pieces)
        stream._seen = head["seen"]
        stream._mistakes = head["mistakes"]
        stream._evicted = head["evicted"]
        stream._ts = head["ts"]
        stream._snapshots.restore(head["snapshots"])
        return stream
