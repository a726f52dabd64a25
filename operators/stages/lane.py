"""One lane: the streams of one input partition, their models kept apart, their output put back into input order."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, Self

from sluiceway.errors import FlowError
from sluiceway.operators.stages.stream import Stream, StreamConfig
from sluiceway.schemas import encode
from sluiceway.schemas.lane import DeadLetter, LaneBatch, LaneOutput, OutRecord


class Lane:
    """All streams of one partition. Only streams touched since the last `state()` are serialised anew."""

    def __init__(self, config: StreamConfig, topic: str) -> None:
        self._config = config
        self._topic = topic
        self._position: int | None = None
        self._streams: dict[str, Stream] = {}
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
        for name, instances in batch.streams:
            given = self._stream(name, batch.lane).process(instances)
            output.selections += given.snapshots
            output.predictions += given.predictions
            dead += [_orphan(offset, *batch.later_labels[offset]) for offset in given.orphans]
        if len(batch.streams) > 1:
            output.selections.sort(key=_offset)
            output.predictions.sort(key=_offset)
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

    def _stream(self, name: str, lane: int) -> Stream:
        self._touched.add(name)
        if name not in self._streams:
            if name in self._asleep:
                state = pickle.loads(self._asleep[name])
                try:
                    self._streams[name] = Stream.from_state(name, lane, self._config, state)
                except ValueError as problem:
                    raise FlowError(f"the checkpoint of stream {name!r} cannot be used: {problem}") from problem
            else:
                self._streams[name] = Stream(name, lane, self._config)
        return self._streams[name]

    def state(self) -> dict[str, Any]:
        for name in self._streams:
            if name in self._touched or name not in self._asleep:
                self._asleep[name] = pickle.dumps(self._streams[name].state(), protocol=5)
        self._touched.clear()
        return {"position": self._position, "streams": dict(self._asleep)}

    @classmethod
    def from_state(cls, config: StreamConfig, topic: str, state: Mapping[str, Any]) -> Self:
        lane = cls(config, topic)
        lane._position = state["position"]
        lane._asleep = dict(state["streams"])
        return lane


def _orphan(offset: int, key: bytes | None, value: bytes | None) -> DeadLetter:
    return DeadLetter(
        offset,
        key,
        value,
        error_class="orphan-label",
        message="no unlabelled instance of this id is waiting for a label",
        stage="label",
    )


def _offset(record: OutRecord | DeadLetter) -> int:
    return record.offset
