"""A lane as a stateful step of Bytewax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import operator
from bytewax.operators import KeyedStream, StatefulBatchLogic

from sluiceway.operators.adapters.failure import noted
from sluiceway.operators.stages.lane import Lane
from sluiceway.operators.stages.streams import StreamKind
from sluiceway.schemas.lane import LaneBatch, LaneOutput
from sluiceway.schemas.state import StoredStream

Snapshot = dict[str, Any]
"""The position, and by name of each stream its birth, head and pieces."""


class LaneLogic(StatefulBatchLogic[LaneBatch, LaneOutput, Snapshot]):
    """Holds one lane; an input item gives an output item, even an empty one, so that positions travel on."""

    def __init__(self, lane: Lane, snapshot: Snapshot | None) -> None:
        self._lane = lane
        self._stored: dict[str, StoredStream] = {}
        if snapshot is not None:
            self._stored = {name: StoredStream(*stored) for name, stored in snapshot["streams"].items()}
            lane.restore(snapshot["position"], self._stored)

    @noted
    def on_batch(self, values: list[LaneBatch]) -> tuple[Iterable[LaneOutput], bool]:
        return [self._lane.process(batch) for batch in values], StatefulBatchLogic.RETAIN

    @noted
    def snapshot(self) -> Snapshot:
        for name, birth, head, added, dropped in self._lane.changes():
            before = self._stored.get(name)
            pieces = {} if before is None else before.pieces
            gone = set(dropped)
            kept = {number: piece for number, piece in pieces.items() if number not in gone}
            self._stored[name] = StoredStream(birth, head, {**kept, **added})
        streams = {name: (stored.birth, stored.head, stored.pieces) for name, stored in self._stored.items()}
        return {"position": self._lane.position, "streams": streams}


@operator
def select(step_id: str, up: KeyedStream[LaneBatch], kind: StreamKind, topic: str) -> KeyedStream[LaneOutput]:
    """Learn and select, lane by lane: `LaneBatch` keyed by lane in, `LaneOutput` keyed by lane out."""

    @noted
    def build(snapshot: Snapshot | None) -> LaneLogic:
        return LaneLogic(Lane(kind, topic), snapshot)

    return op.stateful_batch("lanes", up, build)
