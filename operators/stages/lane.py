"""One lane: the streams of one input partition, their models kept apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from sluiceway.errors import FlowError
from sluiceway.operators.stages.pending import explained
from sluiceway.operators.stages.streams import AnyStream, Finishing, Memory, StreamMaker
from sluiceway.schemas import encode
from sluiceway.schemas.asleep import Asleep, AsleepInMemory
from sluiceway.schemas.lane import DeadLetter, LaneBatch, LaneOutput, OutRecord
from sluiceway.schemas.state import PIECE, StoredChange, StoredStream, StreamState, pack, unpack_stream

_AT_ONCE = 64
"""Streams that are woken at once where all are gone through."""


Stream = TypeVar("Stream", bound=Finishing)


class LaneOfObjects(ABC, Generic[Stream]):
    """All streams of one partition, an object each. `changes` is about those touched since, and of each about what has
    changed."""

    def __init__(self, maker: StreamMaker[Stream], topic: str) -> None:
        self._maker = maker
        self._topic = topic
        self._position: int | None = None
        self._streams: dict[str, Stream] = {}
        """Those that are awake: all that have been touched."""
        self._births: dict[str, int] = {}
        """Of these."""
        self._asleep: Asleep = AsleepInMemory({})
        self._next_birth = 0
        self._touched: set[str] = set()

    def restore(self, position: int | None, asleep: Asleep, memory: Memory | None = None) -> None:
        """Go on from what a store holds; of a lane that has done nothing yet."""
        self._position = position
        self._asleep = asleep
        self._next_birth = asleep.next_birth

    @property
    def position(self) -> int | None:
        """Where the input goes on; None if that is wherever the flow starts."""
        return self._position

    wants_commit = unfinished = False
    """Streams that have been touched stay awake, and final snapshots come all at once."""

    def close(self) -> None: ...

    def process(self, batch: LaneBatch) -> LaneOutput:
        if self._position is not None and batch.start != self._position:
            raise FlowError(
                f"lane {batch.lane}: input goes on at {batch.start}, but the model stands at {self._position};"
                f" the lane's store does not fit its input, nothing was learnt from it"
            )
        output = LaneOutput(batch.lane, batch.start, batch.stop, batch.end)
        dead = batch.dead_letters + [explained(letter, batch) for letter in self._learn(batch, output)]
        dead.sort(key=_offset)
        output.dead_letters = [encode.dead_letter(letter, self._topic, batch.lane) for letter in dead]
        if batch.end:
            output.finals = self._finals(batch)
        self._position = batch.stop
        return output

    @abstractmethod
    def _learn(self, batch: LaneBatch, output: LaneOutput) -> list[DeadLetter]:
        """Go through a poll; the records that are refused."""

    def changes(self) -> list[StoredChange]:
        """What a commit has to write: all that has changed since the last call, in order of birth."""
        changes = [self._change(name) for name in self._by_birth(self._touched)]
        self._touched.clear()
        return changes

    def stream_state(self, name: str) -> StreamState | None:
        """One stream's whole state, as the store has it if nothing has touched it; None if there is no such stream."""
        if name in self._streams:
            return self._state(name)
        stored = self._asleep.find([name]).get(name)
        return None if stored is None else unpack_stream(stored)

    @abstractmethod
    def _state(self, name: str) -> StreamState:
        """Of a stream that is awake, the whole."""

    @abstractmethod
    def _change(self, name: str) -> StoredChange:
        """Of a stream that has been touched."""

    def _by_birth(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=self._births.__getitem__)

    def _finals(self, batch: LaneBatch) -> list[OutRecord]:
        finals = []
        awake = {self._births[name]: name for name in self._by_birth(self._streams)}
        for first in range(0, self._next_birth, _AT_ONCE):
            asleep = self._asleep.born(first, first + _AT_ONCE)
            names = {stored.birth: name for name, stored in asleep.items()}
            names |= {birth: awake[birth] for birth in range(first, first + _AT_ONCE) if birth in awake}
            for birth, name in sorted(names.items()):
                stream = self._streams[name] if birth in awake else self._restored(name, batch.lane, asleep[name])
                record = stream.final(batch.stop)
                if record is not None:
                    finals.append(record)
                    if birth not in awake:  # one that has nothing to say sleeps on
                        self._wake(name, stream, birth)
                    self._touched.add(name)
        return finals

    def _touch(self, name: str, lane: int) -> Stream:
        stream = self._streams.get(name)
        if stream is None:
            stored = self._asleep.find([name]).get(name)
            if stored is not None:
                stream = self._restored(name, lane, stored)
                self._wake(name, stream, stored.birth)
            else:
                stream = self._maker.new(name, lane)
                self._enrol(name, stream, self._next_birth)
                self._next_birth += 1
        self._touched.add(name)
        return stream

    def _enrol(self, name: str, stream: Stream, birth: int) -> None:
        self._streams[name] = stream
        self._births[name] = birth

    def _wake(self, name: str, stream: Stream, birth: int) -> None:
        self._enrol(name, stream, birth)
        self._asleep.woke([name])

    def _restored(self, name: str, lane: int, stored: StoredStream) -> Stream:
        try:
            return self._maker.restore(name, lane, unpack_stream(stored))
        except Exception as problem:  # there is no end to what damaged content can lead to
            raise damaged(lane, name, problem) from problem


class Lane(LaneOfObjects[AnyStream]):
    """Of streams that go through their instances one after the other, their output put back into input order."""

    def _learn(self, batch: LaneBatch, output: LaneOutput) -> list[DeadLetter]:
        dead: list[DeadLetter] = []
        streams = batch.streams if batch.columns is None else batch.columns.batches()
        for name, rows in streams:
            given = self._touch(name, batch.lane).process(rows, batch.raw)
            output.instances += len(rows) - len(given.dead_letters)
            output.selections += given.snapshots
            output.verdicts += given.verdicts
            dead += given.dead_letters
        if len(streams) > 1:
            for records in (output.selections, output.verdicts):
                records.sort(key=_offset)
        return dead

    def _state(self, name: str) -> StreamState:
        return self._streams[name].state()

    def _change(self, name: str) -> StoredChange:
        head, added, dropped = self._streams[name].changes()
        pieces = {number: pack(piece, PIECE) for number, piece in added.items()}
        return StoredChange(name, self._births[name], pack(head), pieces, dropped)


def damaged(lane: int, stream: str, problem: Exception) -> FlowError:
    """The refusal of a stored state."""
    return FlowError(
        f"lane {lane}: the stored state of stream {stream!r} cannot be used: {_reason(problem)}; this lane cannot go on"
    )


def _reason(problem: Exception) -> str:
    if isinstance(problem, KeyError):
        return f"it lacks {problem}"
    return str(problem) if isinstance(problem, ValueError) else f"it is damaged: {problem}"


def _offset(record: OutRecord | DeadLetter) -> int:
    return record.offset
