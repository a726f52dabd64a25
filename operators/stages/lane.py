"""One lane: the streams of one input partition, their models kept apart, their output put back into input order."""

from __future__ import annotations

from sluiceway.schemas.state import pack, unpack, StoredChange

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
        self._born: dict[str, int] = {}

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
        for name in sorted(self._born, key=self._born.__getitem__):
            record = self._stream(name, batch.lane).final(batch.stop)
            if record is not None:
                finals.append(record)
        return finals

    def _stream(self, name: str, lane: int) -> AnyStream:
        self._touched.add(name)
        if name not in self._born:
            self._born[name] = len(self._born)
        if name not in self._streams:
            if name in self._asleep:
                state = unpack(self._asleep[name])
                try:
                    self._streams[name] = self._kind.restore(name, lane, state)
                except ValueError as problem:
                    raise FlowError(f"the checkpoint of stream {name!r} cannot be used: {problem}") from problem
            else:
                self._streams[name] = self._kind.new(name, lane)
        return self._streams[name]

    def restore(self, position, streams):
        self._position = position
        self._asleep = {name: s.head for name, s in streams.items()}
        self._born = {name: s.birth for name, s in streams.items()}

    def changes(self):
        given = []
        for name in sorted(self._touched, key=self._born.__getitem__):
            given.append(StoredChange(name, self._born[name], pack(self._streams[name].state()), {}, []))
            self._asleep.pop(name, None)
        self._touched.clear()
        return given


def _offset(record: OutRecord | DeadLetter) -> int:
    return record.offset
