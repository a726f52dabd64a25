"""Lanes fed from plain records, and a slow oracle of what they must give: row by row, one dictionary at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from sluiceway.operators import registry
from sluiceway.operators.stages.bank_lane import LearnerConfig
from sluiceway.operators.stages.emission import Emit
from sluiceway.operators.stages.streams import AnyLane, Memory, Streams
from sluiceway.schemas.asleep import Asleep, AsleepInMemory
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import LaneOutput, OutRecord, RawPoll
from sluiceway.schemas.state import StoredChange, StoredStream
from tests.operators.streams import budget

Stored = dict[str, StoredStream]
STEP = 10
"""Between offsets, so that an offset is never taken for a row number."""
LANE = 3
TOPIC = "instances"


class Message(NamedTuple):
    key: bytes | None
    value: bytes | None


def message(stream: str, record: Any) -> Message:
    return Message(stream.encode(), orjson.dumps(record))


def config(
    operator: str = "ofs", params: dict[str, Any] | None = None, emit: Emit | None = None, **options: Any
) -> LearnerConfig:
    """A flow's stream settings; two features and large steps, so that selections change often."""
    cls = registry.get(operator).cls
    given = budget(cls, 2) if params is None else params
    return LearnerConfig(
        flow="f",
        operator=operator,
        new_learner=lambda: cls(**given),
        emit=emit or Emit(every=3),
        **{"predictions": True, **options},
    )


def poll(messages: Sequence[Message], first: int = 0, *, end: bool = False) -> RawPoll:
    offsets = [first + STEP * row for row in range(len(messages))]
    return RawPoll(
        lane=LANE,
        start=first,
        stop=first + STEP * len(messages),
        end=end,
        keys=[key for key, _ in messages],
        values=[value for _, value in messages],
        offsets=offsets,
        next_offsets=[offset + STEP for offset in offsets],
    )


def polls(messages: Sequence[Message], cuts: Sequence[int]) -> list[RawPoll]:
    """The messages cut before those numbers; the last poll ends the input."""
    bounds = [0, *sorted(cut % (len(messages) + 1) for cut in cuts), len(messages)]
    return [
        poll(messages[start:stop], start * STEP, end=at == len(bounds) - 2)
        for at, (start, stop) in enumerate(pairwise(bounds))
    ]


@dataclass
class Given:
    """All that a run gave, as records on their topics."""

    selections: list[OutRecord] = field(default_factory=list)
    finals: list[OutRecord] = field(default_factory=list)
    predictions: list[OutRecord] = field(default_factory=list)
    dead_letters: list[OutRecord] = field(default_factory=list)

    def add(self, output: LaneOutput) -> None:
        self.selections += output.selections
        self.finals += output.finals
        self.predictions += output.predictions
        self.dead_letters += output.dead_letters


def new_lane(kind: Streams) -> AnyLane:
    """A lane as a flow makes it."""
    return kind.lane(TOPIC, LANE)


class Store:
    """What a lane's commits have left, as a store would hold it."""

    def __init__(self) -> None:
        self.position: int | None = None
        self.streams: dict[str, StoredStream] = {}
        self._used: set[tuple[str, int]] = set()

    def commit(self, lane: AnyLane) -> list[StoredChange]:
        changes = lane.changes()
        for name, birth, head, added, dropped in changes:
            stored = self.streams.setdefault(name, StoredStream(birth, head))
            assert stored.birth == birth
            stored.head = head
            for number in dropped:
                del stored.pieces[number]  # only what was told of is taken back
            numbers = {(name, number) for number in added}
            assert not numbers & self._used, "a number came twice"
            self._used |= numbers
            stored.pieces.update(added)
        self.position = lane.position
        return changes

    def lane(
        self, kind: Streams, memory: Memory | None = None, asleep: Callable[[Stored], Asleep] = AsleepInMemory
    ) -> AnyLane:
        """One that goes on from here; it shares nothing with the store."""
        lane = new_lane(kind)
        copies = {name: StoredStream(one.birth, one.head, dict(one.pieces)) for name, one in self.streams.items()}
        lane.restore(self.position, asleep(copies), memory)
        return lane


def put_away(lane: AnyLane, kind: Streams) -> AnyLane:
    """A lane that goes on where a new one, never committed before, has come to."""
    store = Store()
    store.commit(lane)
    return store.lane(kind)


def run(config: LearnerConfig, inputs: Sequence[RawPoll], restore_before: Sequence[int] = ()) -> Given:
    """Feed a lane poll by poll, putting it away and waking it up from its store before some of them."""
    zeros = config.scale == "standard"
    decoder, lane, given, store = Decoder(8, keep_zeros=zeros), new_lane(config), Given(), Store()
    for number, raw in enumerate(inputs):
        if number in restore_before:
            store.commit(lane)
            decoder, lane = Decoder(8, keep_zeros=zeros), store.lane(config)
        given.add(lane.process(decoder.decode(raw)))
    return given


def parsed(records: Sequence[OutRecord]) -> list[Any]:
    return [orjson.loads(record.value or b"null") for record in records]


def unit(x: dict[str, float]) -> dict[str, float]:
    present = {name: float(value) for name, value in x.items() if value != 0}
    squares = 0.0
    for value in present.values():
        squares += value * value
    return {name: value / math.sqrt(squares) for name, value in present.items()}


class Wait(NamedTuple):
    x: dict[str, float]
    score: float


class ScaleOracle:
    """What a flow does to instances first, one dictionary at a time."""

    def __init__(self, config: LearnerConfig) -> None:
        self._config = config
        self._seen = 0
        self._known: dict[str, tuple[float, float, int]] = {}
        self.ignored = 0

    def __call__(self, x: dict[str, float], *, arrives: bool) -> dict[str, float]:
        self._seen += arrives
        row = {}
        for name, value in x.items():
            scaled = self._value(name, float(value), arrives)
            if scaled:
                row[name] = scaled
        if self._config.intercept:
            row.setdefault("(intercept)", 1.0)
        return unit(row) if self._config.scale in ("l2", "rms-l2") else row

    def _value(self, name: str, value: float, arrives: bool) -> float:
        if self._config.scale in ("none", "l2") or (self._config.scale == "rms-l2" and value == 0):
            return value
        if name not in self._known and (not arrives or len(self._known) == self._config.max_scaled):
            self.ignored += arrives
            return 0.0
        first, second, count = self._known.get(name, (0.0, 0.0, 0))
        if self._config.scale == "rms-l2":
            first += value * value if arrives else 0.0
            self._known[name] = first, second, count
            return value / (math.sqrt(first) / math.sqrt(self._seen))
        if arrives:
            count += 1
            apart = value - first
            first += apart / count
            second += apart * (value - first)
            self._known[name] = first, second, count
        spread = math.sqrt(second / count) if second > 0 else 0.0
        return (value - first) / spread if spread > 0 else 0.0


class StreamOracle:
    """What DESIGN says of one stream, in its words."""

    def __init__(self, name: str, config: LearnerConfig) -> None:
        self.name = name
        self.config = config
        self.model = config.new_learner()
        self.scaled = ScaleOracle(config)
        self.waiting: dict[str, Wait] = {}
        self.seen = self.mistakes = self.ts = self.evicted = 0
        self.emitted: list[str] = []
        self.emitted_version = 0

    def instance(self, record: dict[str, Any], offset: int) -> dict[str, Any]:
        """Score, count, wait or learn; the prediction."""
        x = self.scaled(record["x"], arrives=True)
        score = self.model.score_one(x)
        prediction = {
            "flow": "f",
            "stream": self.name,
            "id": record.get("id"),
            "seq": self.seen,
            "at": {"partition": LANE, "offset": offset},
            "score": score,
            "label": 1 if score > 0 else -1,
        }
        self.seen += 1
        self.ts = max(self.ts, record.get("ts") or 0)
        y = record.get("y")
        if y is not None:
            self._learn(x, 1 if y == 1 else -1, score)
        elif record.get("id") is not None and self.config.max_pending:
            self.waiting.pop(record["id"], None)
            self.waiting[record["id"]] = Wait(record["x"], score)
            if len(self.waiting) > self.config.max_pending:
                self.waiting.pop(next(iter(self.waiting)))
                self.evicted += 1
        return prediction

    def label(self, record: dict[str, Any]) -> bool:
        """Learn the newest waiting instance of the id; False if there is none."""
        found = self.waiting.pop(record["id"], None)
        if found is None:
            return False
        self.ts = max(self.ts, record.get("ts") or 0)
        self._learn(self.scaled(found.x, arrives=False), 1 if record["y"] == 1 else -1, found.score)
        return True

    def _learn(self, x: dict[str, float], y: int, published: float) -> None:
        self.model.learn_one(x, y)
        self.mistakes += y * published <= 0

    def due(self) -> str | None:
        emit, version = self.config.emit, self.model.version
        if emit.every and version % emit.every == 0:
            return "interval"
        changed = {entry.feature for entry in self.model.selected} != set(self.emitted)
        if emit.on_change and changed and version - self.emitted_version >= emit.min_gap:
            return "change"
        return None

    def snapshot(self, reason: str, source: int) -> dict[str, Any]:
        selected, model = self.model.selected, self.model
        names = [entry.feature for entry in selected]
        metrics: dict[str, float] = {"mistakes": self.mistakes, "error_rate": self.mistakes / model.version}
        if self.evicted:
            metrics["pending_evicted"] = self.evicted
        if self.scaled.ignored:
            metrics["scale_ignored"] = self.scaled.ignored
        record = {
            "schema": 1,
            "flow": "f",
            "stream": self.name,
            "operator": self.config.operator,
            "version": model.version,
            "seen": self.seen,
            "generation": 0,
            "ts": self.ts,
            "reason": reason,
            "n_selected": len(selected),
            "selected": [
                {"feature": entry.feature, "weight": entry.weight, "since": entry.since}
                for entry in selected[: self.config.emit.top]
            ],
            "entered": [name for name in names if name not in self.emitted],
            "left": [name for name in self.emitted if name not in names],
            "metrics": {**metrics, **model.metrics()},
            "params": model.params,
            "source": {"instances": {"partition": LANE, "offset": source}},
        }
        if (wanted := model.wanted_features()) is not None:
            record["wanted"] = wanted
        self.emitted, self.emitted_version = names, model.version
        return record


class Expected(NamedTuple):
    selections: list[dict[str, Any]]
    finals: list[dict[str, Any]]
    predictions: list[dict[str, Any]]
    dead: list[tuple[int, Message, str]]
    """Offset, message, class."""


def oracle(config: LearnerConfig, messages: Sequence[Message]) -> Expected:
    """Everything a lane must give for messages that are instances, later labels, or no JSON at all."""
    streams: dict[str, StreamOracle] = {}
    given = Expected([], [], [], [])
    for at, sent in enumerate(messages):
        offset = at * STEP
        try:
            record = orjson.loads(sent.value or b"")
        except orjson.JSONDecodeError:
            given.dead.append((offset, sent, "not-json"))
            continue
        name = (sent.key or b"").decode()
        stream = streams.setdefault(name, StreamOracle(name, config))
        version = stream.model.version
        if "x" in record:
            given.predictions.append(stream.instance(record, offset))
        elif not stream.label(record):
            given.dead.append((offset, sent, "orphan-label"))
        if stream.model.version > version and (reason := stream.due()) is not None:
            given.selections.append(stream.snapshot(reason, offset + STEP))
    for stream in streams.values():
        if config.emit.final and stream.model.version != stream.emitted_version:
            given.finals.append(stream.snapshot("final", len(messages) * STEP))
    return given
