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


class LaneLogic(StatefulBatchLogic[LaneBatch, LaneOutput, dict[str, Any]]):
    """Holds one lane; an input item gives an output item, even an empty one, so that positions travel on."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    @noted
    def on_batch(self, values: list[LaneBatch]) -> tuple[Iterable[LaneOutput], bool]:
        return [self._lane.process(batch) for batch in values], StatefulBatchLogic.RETAIN

    @noted
    def snapshot(self) -> dict[str, Any]:
        return self._lane.state()


@operator
def select(step_id: str, up: KeyedStream[LaneBatch], kind: StreamKind, topic: str) -> KeyedStream[LaneOutput]:
    """Learn and select, lane by lane: `LaneBatch` keyed by lane in, `LaneOutput` keyed by lane out."""

    @noted
    def build(state: dict[str, Any] | None) -> LaneLogic:
        return LaneLogic(Lane(kind, topic) if state is None else Lane.from_state(kind, topic, state))

    return op.stateful_batch("lanes", up, build)
