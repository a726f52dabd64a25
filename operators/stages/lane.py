"""One lane: the streams of one input partition, their models kept apart, their output put back into input order."""

from __future__ import annotations

from collections.abc import Mapping

from sluiceway.errors import FlowError
from sluiceway.operators.stages.streams import AnyStream, StreamKind
from sluiceway.schemas import encode
from sluiceway.schemas.lane import DeadLetter, LaneBatch, LaneOutput, OutRecord
from sluiceway.schemas.state import PIECE, StoredChange, StoredStream, StreamState, pack, unpack_stream


class Lane:
    """All streams of one partition. `changes` is about those touched since, and of each about what has changed."""

    def __init__(self, kind: StreamKind, topic: str) -> None:
        self._kind = kind
        self._topic = topic
        self._position: int | None = None
        self._streams: dict[str, AnyStream] = {}
        self._asleep: dict[str, StoredStream] = {}
        """Streams of the store that nothing has touched yet; one that wakes up is here no longer."""
        self._births: dict[str, int] = {}
        """Of all streams, asleep or not."""
        self._next_birth = 0
        self._touched: set[str] = set()

    def restore(self, position: int | None, streams: Mapping[str, StoredStream]) -> None:
        """Go on from what a store holds; of a lane that has done nothing yet."""
        self._position = position
        self._asleep = dict(streams)
        self._births = {name: stored.birth for name, stored in streams.items()}
        self._next_birth = max(self._births.values(), default=-1) + 1

    @property
    def position(self) -> int | None:
        """Where the input goes on; None if that is wherever the flow starts."""
        return self._position

    def process(self, batch: LaneBatch) -> LaneOutput:
        if self._position is not None and batch.start != self._position:
            raise FlowError(
                f"lane {batch.lane}: input goes on at {batch.start}, but the model stands at {self._position};"
                f" the lane's store does not fit its input, nothing was learnt from it"
            )
        output = LaneOutput(batch.lane, batch.start, batch.stop, batch.end)
        dead = list(batch.dead_letters)
        streams = batch.streams if batch.columns is None else batch.columns.batches()
        for name, rows in streams:
            given = self._touch(name, batch.lane).process(rows, batch.raw)
            output.selections += given.snapshots
            output.predictions += given.predictions
            output.verdicts += given.verdicts
            dead += given.dead_letters
        if len(streams) > 1:
            for records in (output.selections, output.predictions, output.verdicts):
                records.sort(key=_offset)
        dead.sort(key=_offset)
        output.dead_letters = [encode.dead_letter(letter, self._topic, batch.lane) for letter in dead]
        if batch.end:
            output.finals = self._finals(batch)
        self._position = batch.stop
        return output

    def changes(self) -> list[StoredChange]:
        """What a commit has to write: all that has changed since the last call, in order of birth."""
        changes = [self._change(name) for name in self._by_birth(self._touched)]
        self._touched.clear()
        return changes

    def stream_state(self, name: str) -> StreamState | None:
        """One stream's whole state, as the store has it if nothing has touched it; None if there is no such stream."""
        if name in self._streams:
            return self._streams[name].state()
        return unpack_stream(self._asleep[name]) if name in self._asleep else None

    def _change(self, name: str) -> StoredChange:
        head, added, dropped = self._streams[name].changes()
        pieces = {number: pack(piece, PIECE) for number, piece in added.items()}
        return StoredChange(name, self._births[name], pack(head), pieces, dropped)

    def _by_birth(self, names: set[str] | dict[str, int]) -> list[str]:
        return sorted(names, key=self._births.__getitem__)

    def _finals(self, batch: LaneBatch) -> list[OutRecord]:
        finals = []
        for name in self._by_birth(self._births):
            stream = self._streams.get(name) or self._restored(name, batch.lane)
            record = stream.final(batch.stop)
            if record is not None:
                finals.append(record)
                self._wake(name, stream)  # one that has nothing to say sleeps on
        return finals

    def _touch(self, name: str, lane: int) -> AnyStream:
        stream = self._streams.get(name)
        if stream is None and name in self._asleep:
            stream = self._restored(name, lane)
        elif stream is None:
            stream = self._kind.new(name, lane)
            self._births[name] = self._next_birth
            self._next_birth += 1
        self._wake(name, stream)
        return stream

    def _wake(self, name: str, stream: AnyStream) -> None:
        self._streams[name] = stream
        self._asleep.pop(name, None)
        self._touched.add(name)

    def _restored(self, name: str, lane: int) -> AnyStream:
        try:
            return self._kind.restore(name, lane, unpack_stream(self._asleep[name]))
        except Exception as problem:  # there is no end to what damaged content can lead to
            raise damaged(lane, name, problem) from problem


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
