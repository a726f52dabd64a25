"""One lane of learners: all its streams' models in one bank, a compiled call a poll, snapshots made where they are due.

What a stream has beside its model (instances seen, mistakes, the newest time, its last snapshot) stands in the bank
too. Python sees a stream by itself only when it comes up for the first time, when a snapshot of it is made, when an
instance of it waits for a label, and when its state is stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway import compiling
from sluiceway.errors import FlowError, SettingsError
from sluiceway.operators.bank import packing
from sluiceway.operators.bank.bank import DAMAGED, Bank, Emission
from sluiceway.operators.bank.learners import banked
from sluiceway.operators.bank.one_vs_rest import OneVsRestBank
from sluiceway.operators.bank.running_scale import RunningScale, scales_are_compiled, warm_up_scales
from sluiceway.operators.contract import Learner
from sluiceway.operators.stages import bank_snapshots
from sluiceway.operators.stages.bank_snapshots import BankSnapshots
from sluiceway.operators.stages.emission import Reason
from sluiceway.operators.stages.lane import damaged
from sluiceway.operators.stages.later_labels import Joined, LaterLabels, Waiting
from sluiceway.operators.stages.pending import explained, orphan
from sluiceway.operators.stages.pieces import readable
from sluiceway.operators.stages.roster import Roster
from sluiceway.operators.stages.scale import Scale
from sluiceway.operators.stages.shared_rows import SharedRows
from sluiceway.operators.stages.snapshots import SnapshotConfig
from sluiceway.operators.stages.streams import Memory
from sluiceway.schemas import encode, prediction_rows
from sluiceway.schemas.asleep import Asleep, AsleepInMemory
from sluiceway.schemas.batch import Label
from sluiceway.schemas.encode_classes import ClassPredictionEncoder
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.lane import LaneBatch, LaneOutput, OutRecord, OutRecords, RawPoll
from sluiceway.schemas.prediction_rows import PredictionEncoder
from sluiceway.schemas.state import PIECE, StoredChange, StoredStream, StreamState, pack, unpack_stream

KIND, STATE_VERSION = "instances", 3
_WAKING, _PACKING = 1_000, 10_000
"""Streams that are woken and have their final snapshots, or are packed, at once where all are gone through."""
_FINALS = 10_000
"""Final snapshots that one commit has, about."""
_LEAST_SLEPT = 64
_RESERVED = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerConfig(SnapshotConfig):
    """What all streams of a flow of learners share."""

    new_learner: Callable[[], Learner]
    scale: Scale = "l2"
    intercept: bool = False
    """Whether every row has a feature of value 1."""
    max_scaled: int = 100_000
    """Features of a stream whose scale is kept."""
    max_pending: int = 10_000
    predictions: bool = False
    classes: tuple[Label, ...] | None = None
    """How labels are called: -1 and +1, or 1, 2, 3, ... of more than two classes."""
    scores: bool = False
    """Whether predictions have the score of every class, where there are more than two."""

    @property
    def is_binary(self) -> bool:
        return self.classes is None or len(self.classes) == 2

    def bank(self) -> Bank:
        """One without models."""
        learner = banked(self.new_learner())
        if learner is None:
            raise SettingsError(f"operator {self.operator!r} runs in no flow: its class has no BANKED of its own")
        if self.classes is None or self.is_binary:
            return Bank(learner, scaled=self.scale in ("l2", "rms-l2"))
        return OneVsRestBank(learner, len(self.classes), scaled=self.scale in ("l2", "rms-l2"))

    def encoder(self, lane: int) -> PredictionEncoder | ClassPredictionEncoder:
        if self.classes is None or self.is_binary:
            negative, positive = self.classes or (-1, 1)
            return PredictionEncoder(self.flow, lane, (negative, positive))
        return ClassPredictionEncoder(self.flow, lane, self.classes, with_scores=self.scores)

    def lane(self, topic: str, number: int) -> BankLane:
        return BankLane(self, topic, number)


class BankLane:
    """All streams of one partition. `changes` is about those touched since, and of each about what has changed.

    With a `memory` that its streams exceed, those go to sleep that were not touched for longest, once a commit has
    them: what is asleep is never news.
    """

    def __init__(self, config: LearnerConfig, topic: str, number: int) -> None:
        self._config = config
        self._topic = topic
        self._number = number
        self._position: int | None = None
        self._snapshot_maker = BankSnapshots(config, number, config.new_learner().params, config.classes or ())
        self._bank = config.bank()
        self._scale = _running_scale(config)
        self._emission = Emission(config.emit.every, config.emit.on_change, config.emit.min_gap)
        self._roster = Roster()
        self._asleep: Asleep = AsleepInMemory({})
        self._next_birth = 0
        self._final_births = 0
        """Streams born before it have had their final snapshots."""
        self._memory: Memory | None = None
        self._moment = 0
        """Counts polls."""
        self._told = deque([(0, -1)])
        """The number of each commit that may not have landed yet, and up to which moment it tells of touches."""
        self._later = LaterLabels(config.max_pending)
        self._encoder = config.encoder(number)
        self.shared: SharedRows | None = None
        """What other lanes that are given the same polls know of them too."""
        self.observe: Callable[[Joined, NDArray[np.float64]], None] | None = None
        """Told of each poll's rows and of what they are judged by, if somebody wants to know."""

        self.unfinished = False
        """Whether there are final snapshots still to be made: each empty poll at the end makes some."""

    def restore(self, position: int | None, asleep: Asleep, memory: Memory | None = None) -> None:
        """Go on from what a store holds; of a lane that has done nothing yet."""
        self._position = position
        self._asleep = asleep
        self._next_birth = asleep.next_birth
        self._memory = memory
        if memory is not None:
            self._bank.reserve(min(memory.size, _RESERVED))

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
        self._moment += 1
        output = LaneOutput(batch.lane, batch.start, batch.stop, batch.end)
        dead = batch.dead_letters
        if batch.columns is not None and len(batch.columns):
            orphans = self._learn(batch.columns, output)
            output.instances = len(batch.columns) - len(orphans)
            if orphans:
                dead = dead + [explained(orphan(offset, *batch.raw[offset]), batch) for offset in orphans]
                dead.sort(key=lambda letter: letter.offset)
        output.dead_letters = [encode.dead_letter(letter, self._topic, batch.lane) for letter in dead]
        if batch.end and self._config.emit.final:
            output.finals = self._finals(batch.stop)
            self.unfinished = self._final_births < self._next_birth
            output.end = not self.unfinished
        self._put_to_sleep()
        self._position = batch.stop
        return output

    def _learn(self, given: Columns, output: LaneOutput) -> list[int]:
        """Score and learn from all rows; offsets of labels for which nothing waits."""
        models, touched = self._models(given)
        if self.shared is not None and self.shared.is_plain(given):
            joined = Joined(given, None, [])
        else:
            joined = self._later.join(given, models, self._bank.heads["next_piece"])
        columns, bank, special = joined.columns, self._bank, joined.special
        if self._scale is not None:
            columns = self._scale.scaled(columns, models, None if special is None else special.kind)
        elif self.shared is not None and self._config.scale == "l2":
            units = self.shared.units(columns)
            bank.scaled, columns = units is None, units or columns
        learnt, mistakes = self._judged(touched) if self.shared is None else (0, 0)
        poll = bank.poll(columns, models, special, None if self.shared is None else self.shared.needs(columns))
        scores = bank.new_scores(len(columns))
        row = 0
        while row < len(columns):
            row, due = bank.advance(poll, row, scores, self._emission)
            if due:
                offset, position = int(columns.offset[row - 1]), int(columns.next_offset[row - 1])
                output.selections.append(self._due_snapshot(int(models[row - 1]), offset, position, row))
        judged = bank.judged(scores)
        self._later.scored(judged)
        if self.shared is None:  # else nobody asks for these counts
            now_learnt, now_mistakes = self._judged(touched)
            output.learnt, output.mistakes = now_learnt - learnt, now_mistakes - mistakes
        if self.observe is not None:
            self.observe(joined, judged)
        if self._config.predictions:
            output.predictions = self._predict(joined, models, scores)
        return joined.orphans

    def _judged(self, models: NDArray[np.int64]) -> tuple[int, int]:
        """Of some models together: instances learnt from, and mistakes."""
        heads = self._bank.heads
        return int(heads["version"][models].sum()), int(heads["mistakes"][models].sum())

    def _models(self, given: Columns) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The model of each row's stream, and each model once; those met for the first time are made or woken."""
        shared = self.shared if self.shared is not None and self.shared.columns is given else None
        streams = given.streams if shared is None else shared.streams
        try:
            models = self._roster.models(streams)
        except KeyError:
            self._admit(self._roster.strangers(streams))
            models = self._roster.models(streams)
        self._roster.touch(models, self._moment)
        return (models, np.unique(models)) if shared is None else (models[shared.stream_of], models)

    def _admit(self, names: Iterable[bytes]) -> None:
        spelt = {name.decode(): name for name in names}  # each once
        stored = self._asleep.find([*spelt])
        self._wake(stored)
        new = [name for spelling, name in spelt.items() if spelling not in stored]
        made = self._bank.add(len(new))
        self._bank.touch(made)
        if self._scale is not None:
            for model in made:
                self._scale.drop(model)  # the number may have been another stream's
        first, self._next_birth = self._next_birth, self._next_birth + len(new)
        self._roster.enrol(made, new, range(first, self._next_birth))

    # -- emitting ------------------------------------------------------------------------------------------------

    def _due_snapshot(self, model: int, offset: int, position: int, row: int) -> OutRecord:
        every = self._config.emit.every
        reason: Reason = "interval" if every and self._bank.heads["version"][model] % every == 0 else "change"
        return self._snapshots([model], reason, offset, position, row)[0]

    def _snapshots(
        self, models: list[int], reason: Reason, offset: int, position: int, row: int | None = None
    ) -> list[OutRecord]:
        """After all rows of the poll under way, or before that one."""
        names = [self._roster.name(model).decode() for model in models]
        more = [{}] * len(models) if self._scale is None else [self._scale.metrics(model, row) for model in models]
        return self._snapshot_maker.make(self._bank, models, names, more, reason, offset, position)

    def _finals(self, position: int) -> list[OutRecord]:
        """A snapshot of every stream whose version has none, in order of birth; about as many as a commit may have."""
        made: list[OutRecord] = []
        while self._final_births < self._next_birth:
            first, stop = self._final_births, self._final_births + self._waking
            asleep = self._asleep.born(first, stop)
            self._wake({name: one for name, one in asleep.items() if name.encode() not in self._roster}, as_final=True)
            heads = self._bank.heads
            models = [
                model
                for model in self._roster.born(first, stop)
                if heads["version"][model] != heads["emitted"][model]
            ]
            self._bank.touch(models)
            self._roster.touch(models, self._moment)
            made += self._snapshots(models, "final", position, position)
            self._final_births = stop
            self._put_to_sleep()
            if len(made) >= _FINALS or self.wants_commit:
                break
        return made

    def _predict(self, joined: Joined, models: NDArray[np.int64], scores: NDArray[np.float64]) -> OutRecords:
        columns = joined.columns
        seq = self._bank.numbers_of_rows(models, joined.special)
        rows = np.flatnonzero(seq >= 0) if joined.special is not None else None
        return self._encoder.encode(columns, rows, seq, scores)

    # -- state ---------------------------------------------------------------------------------------------------

    def changes(self) -> list[StoredChange]:
        """What a commit has to write: all that has changed since the last call, in order of birth."""
        touched = self._bank.touched()
        touched = touched[np.argsort(self._roster.births[touched])]
        changes: list[StoredChange] = []
        for start in range(0, len(touched), _PACKING):
            some = touched[start : start + _PACKING]
            births = self._roster.births[some].tolist()
            changes += map(self._change, some.tolist(), births, self._bank.pack(some), self._scales(some))
        if self._memory is not None:  # else no stream goes to sleep, and nobody asks
            self._landed_moment()
            self._told.append((self._told[-1][0] + 1, self._moment))
        return changes

    def _scales(self, models: NDArray[np.int64]) -> list[bytes] | list[None]:
        """Of these models, packed; None if no scale runs."""
        return [None] * len(models) if self._scale is None else self._scale.pack(models.tolist())

    def _change(self, model: int, birth: int, content: bytes, scale: bytes | None) -> StoredChange:
        later = self._later
        if scale is None and not later.knows(model):  # then nothing waits, and the head is as it always is then
            return StoredChange(self._roster.name(model).decode(), birth, _lone_head(content))
        head = pack(_head(content, scale, later.count(model)))
        added, dropped = later.changes(model)
        pieces = {number: pack(piece, PIECE) for number, piece in added.items()} if added else {}
        return StoredChange(self._roster.name(model).decode(), birth, head, pieces, dropped)

    def stream_state(self, name: str) -> StreamState | None:
        """One stream's whole state, as the store has it if nothing has touched it; None if there is no such stream."""
        model = self._roster.model(name.encode())
        if model is not None:
            pieces = self._later.pieces(model)
            [scale] = self._scales(np.array([model], dtype=np.int64))
            return StreamState(_head(self._bank.peek(model), scale, len(pieces)), pieces)
        stored = self._asleep.find([name]).get(name)
        return None if stored is None else unpack_stream(stored)

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()

    # -- sleeping ------------------------------------------------------------------------------------------------

    def _wake(self, stored: Mapping[str, StoredStream], *, as_final: bool = False) -> None:
        """Streams go on; `as_final`: only those with something to say in a final snapshot."""
        if not stored:
            return
        contents, scales, waiting = self._readable(stored)
        models, names, births = self._bank.wake(contents), [*stored], [one.birth for one in stored.values()]
        if self._scale is not None:
            self._scale.wake(models.tolist(), scales)
        heads = self._bank.heads
        if as_final:
            speaks = heads["version"][models] != heads["emitted"][models]
            for model in models[~speaks].tolist():
                self._drop(model)
            models, names, births = models[speaks], [*compress(names, speaks)], [*compress(births, speaks)]
        awake: list[int] = models.tolist()
        self._roster.enrol(awake, [name.encode() for name in names], births)
        if waiting:
            for name, model, next_piece in zip(names, awake, heads["next_piece"][models].tolist(), strict=True):
                self._later.restore(model, waiting.get(name, ()), next_piece)
        self._asleep.woke(names)

    def _drop(self, model: int) -> None:
        self._bank.drop(model)
        if self._scale is not None:
            self._scale.drop(model)

    def _readable(
        self, stored: Mapping[str, StoredStream]
    ) -> tuple[list[bytes], list[bytes], dict[str, list[Waiting]]]:
        """Of streams, the packed models, the packed scales (empty if none runs), and what waits in some of them."""
        contents, scales, waiting = list[bytes](), list[bytes](), dict[str, list[Waiting]]()
        for name, one in stored.items():
            content = None if one.pieces or self._scale is not None else _model_of_lone(one.head)
            if content is None:
                content, scale, instances = self._read(name, one)
                scales.append(scale)
                if instances:
                    waiting[name] = instances
            contents.append(content)
        at = self._bank.first_damaged(contents)
        if at >= 0:
            raise damaged(self._number, [*stored][at], ValueError(DAMAGED))
        return contents, scales, waiting

    def _read(self, name: str, stored: StoredStream) -> tuple[bytes, bytes, list[Waiting]]:
        """Of one stream of any form; whether the model is whole is not looked at."""
        try:
            state = unpack_stream(stored)
            head = readable(state, KIND, STATE_VERSION)
            content, scale = head["model"], b""
            if self._scale is not None:
                scale = head["scale"]
                self._scale.check(scale)
            return content, scale, [Waiting.from_piece(number, piece) for number, piece in state.pieces.items()]
        except Exception as problem:  # there is no end to what damaged content can lead to
            raise damaged(self._number, name, problem) from problem

    @property
    def _size(self) -> int:
        """Bytes of memory that the streams take which are awake, roughly."""
        size = self._bank.bytes_used + self._roster.size + self._later.size
        return size if self._scale is None else size + self._scale.bytes_used

    @property
    def wants_commit(self) -> bool:
        """Whether too much of the memory is taken by streams that cannot sleep before a commit has them."""
        touched = self._bank.touched_count
        if self._memory is None or not touched:
            return False
        size, limit = self._size, self._memory.size
        return size > limit or touched * size > len(self._roster) * limit // 8

    def _put_to_sleep(self) -> None:
        """As many streams as there are too many for the memory, and some more, so that it is not to be done often."""
        if self._memory is None or self._size <= self._memory.size:
            return
        limit = self._memory.size
        goal = limit - limit // 4
        idle = self._roster.untouched_since(self._landed_moment())
        while len(idle) and (size := self._size) > goal:
            count = min(max((size - goal) * len(self._roster) // size, _LEAST_SLEPT), _PACKING)
            self._let_sleep(idle[:count])
            idle = idle[count:]
            self._bank.tidy(limit)

    @property
    def _waking(self) -> int:
        """How many streams to wake at once where all are gone through: not many more than may be news at a time."""
        return _WAKING if self._memory is None else max(_LEAST_SLEPT, min(_WAKING, self._memory.size // 10_000))

    def _landed_moment(self) -> int:
        """What was touched up to then, and not since, is in commits that sleeping streams may be asked of."""
        landed = self._asleep.landed
        while len(self._told) > 1 and (landed is None or self._told[1][0] <= landed):
            self._told.popleft()
        return self._told[0][1]

    def _let_sleep(self, models: NDArray[np.int64]) -> None:
        if self._asleep.landed is None:
            births = self._roster.births[models].tolist()
            packed = self._bank.pack(models), self._scales(models)
            self._asleep.put(dict(map(self._stored, models.tolist(), births, *packed)))
        for model in models.tolist():
            self._later.forget(model)
            self._drop(model)
        self._roster.leave(models.tolist())

    def _stored(self, model: int, birth: int, content: bytes, scale: bytes | None) -> tuple[str, StoredStream]:
        pieces = {number: pack(piece, PIECE) for number, piece in self._later.pieces(model).items()}
        return self._roster.name(model).decode(), StoredStream(birth, pack(_head(content, scale, len(pieces))), pieces)


def is_compiled(config: LearnerConfig) -> bool:
    """Whether `warm_up` will be quick."""
    learner = banked(config.new_learner())
    parts: tuple[Callable[..., Any], ...] = (packing.pack, packing.wake)
    if learner is None or (config.predictions and not prediction_rows.is_compiled()):
        return False
    if not bank_snapshots.is_compiled():
        return False
    if _running_scale(config) is not None and not scales_are_compiled():
        return False
    return all(map(compiling.is_compiled, (learner.loop, *parts)))


def warm_up(config: LearnerConfig, decode: Callable[[RawPoll], LaneBatch]) -> None:
    """Load or compile the kernels: a stream is learnt from, put away and woken up again, and has its last snapshot."""
    if _running_scale(config) is not None:
        warm_up_scales()
    values: list[bytes | None] = [b'{"id":"1","x":{"a":1,"b":2},"y":1}', b'{"id":"2","x":{"a":1}}', b'{"id":"2","y":1}']
    stored: dict[str, StoredStream] = {}
    for start, end in ((0, False), (3, True)):
        lane = BankLane(config, "", 0)
        lane.restore(start, AsleepInMemory(stored))
        offsets = [*range(start, start + 3)]
        following = [offset + 1 for offset in offsets]
        lane.process(decode(RawPoll(0, start, start + 3, end, [b"warm-up"] * 3, values, offsets, following)))
        changes = lane.changes()
        stored = {one.stream: StoredStream(one.birth, one.head, dict(one.added)) for one in changes}


def _lone_head(model: bytes) -> bytes:
    """What `pack` makes of `_head` without pieces: the model comes last in it."""
    return _before_model(len(model)) + model


@lru_cache(maxsize=1024)
def _before_model(size: int) -> bytes:
    return pack(_head(bytes(size), None, 0))[:-size]


def _model_of_lone(head: bytes) -> bytes | None:
    """The model in what `_lone_head` made; None: something else has made the head."""
    before = _before_model_in(len(head))
    return head[len(before) :] if before and head.startswith(before) else None


@lru_cache(maxsize=1024)
def _before_model_in(size: int) -> bytes:
    """What stands before the model in a lone head of that size; nothing if there is none of that size."""
    least = len(_before_model(1))
    for more in range(5):  # the number that tells the model's size takes up to five bytes
        model = size - least - more
        if model > 0 and len(_before_model(model)) == least + more:
            return _before_model(model)
    return b""


def _head(model: bytes, scale: bytes | None, pieces: int) -> dict[str, Any]:
    head = {"stream": KIND, "state_version": STATE_VERSION, "pieces": pieces}
    return {**head, "model": model} if scale is None else {**head, "scale": scale, "model": model}


def _running_scale(config: LearnerConfig) -> RunningScale | None:
    """None if rows are scaled each by itself, and have nothing added."""
    runs = config.scale if config.scale == "rms-l2" or config.scale == "standard" else None
    if runs is None and not config.intercept:
        return None
    return RunningScale(runs, intercept=config.intercept, limit=config.max_scaled)
