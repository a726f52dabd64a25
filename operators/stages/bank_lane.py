"""One lane of learners: all its streams' models in one bank, a compiled call a poll, snapshots made where they are due.

What a stream has beside its model (instances seen, mistakes, the newest time, its last snapshot) stands in the bank
too. Python sees a stream by itself only when it comes up for the first time, when a snapshot of it is made, when an
instance of it waits for a label, and when its state is stored.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway import compiling
from sluiceway.errors import FlowError
from sluiceway.operators.bank import packing
from sluiceway.operators.bank.bank import Bank, Emission
from sluiceway.operators.bank.last_snapshot import last_names, remember
from sluiceway.operators.bank.learners import banked
from sluiceway.operators.contract import Selected
from sluiceway.operators.stages.emission import Reason
from sluiceway.operators.stages.lane import damaged
from sluiceway.operators.stages.later_labels import Joined, LaterLabels, Waiting
from sluiceway.operators.stages.pending import orphan
from sluiceway.operators.stages.pieces import readable
from sluiceway.operators.stages.snapshots import Snapshots
from sluiceway.operators.stages.stream import StreamConfig
from sluiceway.schemas import encode
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.lane import LaneBatch, LaneOutput, OutRecord, RawPoll
from sluiceway.schemas.state import PIECE, StoredChange, StoredStream, StreamState, pack, unpack_stream

KIND, STATE_VERSION = "instances", 3
_WAKING = 10_000
"""Streams that are woken at once where all are gone through."""


class BankLane:
    """All streams of one partition. `changes` is about those touched since, and of each about what has changed."""

    def __init__(self, config: StreamConfig, topic: str, number: int) -> None:
        self._config = config
        self._topic = topic
        self._number = number
        self._position: int | None = None
        model: Any = config.new_learner()
        learner = banked(model)
        if learner is None:
            raise ValueError(f"{config.operator} has no bank")
        self._params: Mapping[str, Any] = model.params
        self._bank = Bank(learner, scaled=config.scale == "l2")
        self._emission = Emission(config.emit.every, config.emit.on_change, config.emit.min_gap)
        self._roster: dict[bytes, int] = {}
        """The model of each stream that is awake."""
        self._names: list[bytes] = []
        self._births = array("q")
        """Of the streams that are awake, by model."""
        self._asleep: dict[str, StoredStream] = {}
        """Streams of the store that nothing has touched yet; one that wakes up is here no longer."""
        self._next_birth = 0
        self._later = LaterLabels(config.max_pending)
        self._encoder = encode.PredictionEncoder(config.flow, number, config.classes or (-1, 1))

    def restore(self, position: int | None, streams: Mapping[str, StoredStream]) -> None:
        """Go on from what a store holds; of a lane that has done nothing yet."""
        self._position = position
        self._asleep = dict(streams)
        self._next_birth = max((stored.birth for stored in streams.values()), default=-1) + 1

    @property
    def position(self) -> int | None:
        """Where the input goes on; None if that is wherever the flow starts."""
        return self._position

    # -- processing ----------------------------------------------------------------------------------------------

    def process(self, batch: LaneBatch) -> LaneOutput:
        if self._position is not None and batch.start != self._position:
            raise FlowError(
                f"lane {batch.lane}: input goes on at {batch.start}, but the model stands at {self._position};"
                f" the lane's store does not fit its input, nothing was learnt from it"
            )
        output = LaneOutput(batch.lane, batch.start, batch.stop, batch.end)
        dead = batch.dead_letters
        if batch.columns is not None and len(batch.columns):
            orphans = self._learn(batch.columns, output)
            if orphans:
                dead = dead + [orphan(offset, *batch.raw[offset]) for offset in orphans]
                dead.sort(key=lambda letter: letter.offset)
        output.dead_letters = [encode.dead_letter(letter, self._topic, batch.lane) for letter in dead]
        if batch.end and self._config.emit.final:
            output.finals = self._finals(batch.stop)
        self._position = batch.stop
        return output

    def _learn(self, given: Columns, output: LaneOutput) -> list[int]:
        """Score and learn from all rows; offsets of labels for which nothing waits."""
        models = self._models(given.streams)
        joined = self._later.join(given, models, self._bank.heads["next_piece"])
        columns, bank = joined.columns, self._bank
        poll = bank.poll(columns, models, joined.special)
        scores = np.empty(len(columns))
        row = 0
        while row < len(columns):
            row, due = bank.advance(poll, row, scores, self._emission)
            if due:
                offset, position = int(columns.offset[row - 1]), int(columns.next_offset[row - 1])
                output.selections.append(self._due_snapshot(int(models[row - 1]), offset, position))
        self._later.scored(scores)
        if self._config.predictions:
            output.predictions = self._predict(joined, models, scores)
        return joined.orphans

    def _models(self, streams: list[bytes]) -> NDArray[np.int64]:
        """The model of each row's stream; those met for the first time are made or woken."""
        try:
            return np.fromiter(map(self._roster.__getitem__, streams), dtype=np.int64, count=len(streams))
        except KeyError:
            self._admit(dict.fromkeys(name for name in streams if name not in self._roster))
            return np.fromiter(map(self._roster.__getitem__, streams), dtype=np.int64, count=len(streams))

    def _admit(self, names: Iterable[bytes]) -> None:
        new, stored = [], []
        for name in names:
            spelt = name.decode()
            if spelt in self._asleep:
                stored.append(spelt)
            else:
                new.append(name)
        self._wake(stored)
        made = self._bank.add(len(new))
        self._bank.touch(made)
        for name, model in zip(new, made, strict=True):
            self._enrol(model, name, self._next_birth)
            self._next_birth += 1

    def _enrol(self, model: int, name: bytes, birth: int) -> None:
        self._roster[name] = model
        while len(self._names) <= model:
            self._names.append(b"")
            self._births.append(0)
        self._names[model], self._births[model] = name, birth

    # -- emitting ------------------------------------------------------------------------------------------------

    def _due_snapshot(self, model: int, offset: int, position: int) -> OutRecord:
        every = self._config.emit.every
        reason: Reason = "interval" if every and self._bank.heads["version"][model] % every == 0 else "change"
        return self._snapshot(model, reason, offset, position)

    def _snapshot(self, model: int, reason: Reason, offset: int, position: int) -> OutRecord:
        bank = self._bank
        version, seen, mistakes, evicted, ts, emitted = bank.heads[_COUNTS][model].item()
        metrics: dict[str, float] = {"mistakes": mistakes, "error_rate": mistakes / version}
        if evicted:
            metrics["pending_evicted"] = evicted
        snapshots = Snapshots(self._names[model].decode(), self._number, self._config)
        snapshots.restore({"version": emitted, "names": last_names(bank, model)})
        selected = [Selected(*entry) for entry in bank.selected(model)]
        record = snapshots.make(
            reason,
            offset=offset,
            position=position,
            version=version,
            seen=seen,
            ts=ts,
            selected=selected,
            wanted=bank.learner.wanted_features(bank, model),
            metrics={**metrics, **bank.learner.metrics(bank, model)},
            params=self._params,
        )
        remember(bank, model, [entry.feature for entry in selected])
        return record

    def _finals(self, position: int) -> list[OutRecord]:
        """A snapshot of every stream whose version has none, in order of birth."""
        asleep = list(self._asleep)
        for start in range(0, len(asleep), _WAKING):
            self._wake(asleep[start : start + _WAKING], unless_told=True)
        heads = self._bank.heads
        models = [model for model in self._roster.values() if heads["version"][model] != heads["emitted"][model]]
        models.sort(key=self._births.__getitem__)
        self._bank.touch(models)
        return [self._snapshot(model, "final", position, position) for model in models]

    def _predict(self, joined: Joined, models: NDArray[np.int64], scores: NDArray[np.float64]) -> list[OutRecord]:
        columns = joined.columns
        seq = self._bank.numbers_of_rows(models, joined.special)
        rows = np.flatnonzero(seq >= 0) if joined.special is not None else None
        return self._encoder.encode(columns, rows, seq, scores)

    # -- state ---------------------------------------------------------------------------------------------------

    def changes(self) -> list[StoredChange]:
        """What a commit has to write: all that has changed since the last call, in order of birth."""
        touched = self._bank.touched().tolist()
        touched.sort(key=self._births.__getitem__)
        packed = self._bank.pack(np.array(touched, dtype=np.int64))
        return [self._change(model, content) for model, content in zip(touched, packed, strict=True)]

    def _change(self, model: int, content: bytes) -> StoredChange:
        later = self._later
        head = pack(_head(content, later.count(model)))
        added, dropped = later.changes(model)
        pieces = {number: pack(piece, PIECE) for number, piece in added.items()} if added else {}
        return StoredChange(self._names[model].decode(), self._births[model], head, pieces, dropped)

    def stream_state(self, name: str) -> StreamState | None:
        """One stream's whole state, as the store has it if nothing has touched it; None if there is no such stream."""
        model = self._roster.get(name.encode())
        if model is not None:
            pieces = self._later.pieces(model)
            return StreamState(_head(self._bank.peek(model), len(pieces)), pieces)
        return unpack_stream(self._asleep[name]) if name in self._asleep else None

    def _wake(self, names: list[str], *, unless_told: bool = False) -> list[int]:
        """Streams of the store go on; with `unless_told` only those with something to say in a final snapshot."""
        if not names:
            return []
        states = [self._readable(name) for name in names]
        models: list[int] = self._bank.wake([content for content, _ in states]).tolist()
        kept = []
        for name, (_, waiting), model in zip(names, states, models, strict=True):
            version, emitted, next_piece = self._bank.heads[_WOKEN][model].item()
            if unless_told and version == emitted:
                self._bank.drop(model)
                continue
            self._enrol(model, name.encode(), self._asleep.pop(name).birth)
            self._later.restore(model, waiting, next_piece)
            kept.append(model)
        return kept

    def _readable(self, name: str) -> tuple[bytes, list[Waiting]]:
        """A stream's packed model, and what waits in it."""
        try:
            state = unpack_stream(self._asleep[name])
            content = readable(state, KIND, STATE_VERSION)["model"]
            self._bank.check(content)
            return content, [Waiting.from_piece(number, piece) for number, piece in state.pieces.items()]
        except Exception as problem:  # there is no end to what damaged content can lead to
            raise damaged(self._number, name, problem) from problem


def fits(config: StreamConfig) -> bool:
    """Whether the learner is one that lives in a bank."""
    return banked(config.new_learner()) is not None


def is_compiled(config: StreamConfig) -> bool:
    """Whether `warm_up` will be quick."""
    learner = banked(config.new_learner())
    parts: tuple[Callable[..., Any], ...] = (packing.pack, packing.wake)
    return learner is not None and all(map(compiling.is_compiled, (learner.loop, *parts)))


def warm_up(config: StreamConfig, decode: Callable[[RawPoll], LaneBatch]) -> None:
    """Load or compile the kernels: a stream is learnt from, put away and woken up again, and has its last snapshot."""
    values: list[bytes | None] = [b'{"id":"1","x":{"a":1,"b":2},"y":1}', b'{"id":"2","x":{"a":1}}', b'{"id":"2","y":1}']
    stored: dict[str, StoredStream] = {}
    for start, end in ((0, False), (3, True)):
        lane = BankLane(config, "", 0)
        lane.restore(start, stored)
        offsets = [*range(start, start + 3)]
        following = [offset + 1 for offset in offsets]
        lane.process(decode(RawPoll(0, start, start + 3, end, [b"warm-up"] * 3, values, offsets, following)))
        stored = {change.stream: StoredStream(change.birth, change.head, change.added) for change in lane.changes()}


_COUNTS = ["version", "seen", "mistakes", "evicted", "ts", "emitted"]
_WOKEN = ["version", "emitted", "next_piece"]


def _head(model: bytes, pieces: int) -> dict[str, Any]:
    return {"stream": KIND, "state_version": STATE_VERSION, "pieces": pieces, "model": model}
