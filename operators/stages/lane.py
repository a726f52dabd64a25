"""One lane: the streams of one input partition, their models kept apart, their output put back into input order."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, Self

from sluiceway.errors import FlowError
from sluiceway.operators.stages.streams import AnyStream, StreamKind
from sluiceway.schemas import encode
from sluiceway.schemas.lane import DeadLetter, LaneBatch, LaneOutput, OutRecord


class Lane:
    """All streams of one partition. Only streams touched since the last `state()` are serialised anew."""

    def __init__(self, kind: StreamKind, topic: str) -> None:
        self._kind = kind
        self._topic = topic
        self._position: int | None = None
        self._streams: dict[str, AnyStream] = {}
        self._asleep: dict[str, bytes] = {}
        """Every stream's state as of the last checkpoint; a touched stream's entry is out of date until the next."""
        self._touched: set[str] = set()

    def process(self, batch: LaneBatch) -> LaneOutput:
        if self._position is not None and batch.start != self._position:
            raise FlowError(
                f"lane {batch.lane}: input goes on at {batch.start}, but the model stands at {self._position};"
                f" the recovery store is inconsistent, nothing was learnt from it"
            )
        output = LaneOutput(batch.lane, batch.start, batch.stop, batch.end)
        dead = list(batch.dead_letters)
        for name, rows in batch.streams:
            given = self._stream(name, batch.lane).process(rows, batch.raw)
            output.selections += given.snapshots
            output.predictions += given.predictions
            output.verdicts += given.verdicts
            dead += given.dead_letters
        if len(batch.streams) > 1:
            for records in (output.selections, output.predictions, output.verdicts):
                records.sort(key=_offset)
        dead.sort(key=_offset)
        output.dead_letters = [encode.dead_letter(letter, self._topic, batch.lane) for letter in dead]
        if batch.end:
            output.finals = self._finals(batch)
        self._position = batch.stop
        return output

    def _finals(self, batch: LaneBatch) -> list[OutRecord]:
        finals = []
        for name in [*self._asleep, *(name for name in self._streams if name not in self._asleep)]:
            record = self._stream(name, batch.lane).final(batch.stop)
            if record is not None:
                finals.append(record)
        return finals

    def _stream(self, name: str, lane: int) -> AnyStream:
        self._touched.add(name)
        if name not in self._streams:
            if name in self._asleep:
                state = pickle.loads(self._asleep[name])
                try:
                    self._streams[name] = self._kind.restore(name, lane, state)
                except ValueError as problem:
                    raise FlowError(f"the checkpoint of stream {name!r} cannot be used: {problem}") from problem
            else:
                self._streams[name] = self._kind.new(name, lane)
        return self._streams[name]

    def state(self) -> dict[str, Any]:
        for name in self._streams:
            if name in self._touched or name not in self._asleep:
                self._asleep[name] = pickle.dumps(self._streams[name].state(), protocol=5)
        self._touched.clear()
        return {"position": self._position, "streams": dict(self._asleep)}

    @classmethod
    def from_state(cls, kind: StreamKind, topic: str, state: Mapping[str, Any]) -> Self:
        lane = cls(kind, topic)
        lane._position = state["position"]
        lane._asleep = dict(state["streams"])
        return lane


def _offset(record: OutRecord | DeadLetter) -> int:
    return record.offset
