"""One stream of instances and its joint operator: each instance is decided, then learnt when its label is there."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.contract import Joint
from sluiceway.operators.joint.decisions import Decisions, Later
from sluiceway.operators.stages.emission import Reason
from sluiceway.operators.stages.lane import Lane
from sluiceway.operators.stages.pending import Joined, Pending, orphan
from sluiceway.operators.stages.pieces import Pieces, readable
from sluiceway.operators.stages.snapshots import SnapshotConfig, Snapshots
from sluiceway.operators.stages.streams import Judged, StreamOutput
from sluiceway.schemas import encode
from sluiceway.schemas.batch import UNLABELLED, InstanceBatch, Label
from sluiceway.schemas.encode import Entry
from sluiceway.schemas.encode_decisions import DecisionEncoder
from sluiceway.schemas.lane import OutRecord, RawRecords
from sluiceway.schemas.state import StreamChange, StreamState

KIND, STATE_VERSION = "joint", 1
_INTEGERS = np.dtype("<i8")


@dataclass(frozen=True, slots=True, kw_only=True)
class JointStreamConfig(SnapshotConfig):
    """What all streams of a flow of joint operators share."""

    new_operator: Callable[[], Joint]
    operator_from_state: Callable[[Mapping[str, Any], Iterable[Mapping[str, Any]]], Joint]
    max_pending: int = 10_000
    """Unlabelled instances that wait for a later label."""
    predictions: bool = False
    requests: bool = False
    classes: tuple[Label, ...] = (-1, 1)
    """How labels are called: -1 and +1, or 1, 2, 3, ... of more than two classes."""

    def lane(self, topic: str, number: int) -> Lane:
        return Lane(self, topic)

    def new(self, name: str, lane: int) -> JointStream:
        return JointStream(name, lane, self)

    def restore(self, name: str, lane: int, state: StreamState) -> JointStream:
        return JointStream.from_state(name, lane, self, state)


class JointStream:
    """One operator and its stages.

    A later label's instance is learnt when the label comes, and the decision that is judged by it is that of when the
    instance came: others saw that one.
    """

    def __init__(self, name: str, lane: int, config: JointStreamConfig) -> None:
        self.name = name
        self._lane = lane
        self._config = config
        self._operator = config.new_operator()
        self._encoder = DecisionEncoder(config.flow, name, lane, config.classes)
        self._pieces = Pieces()
        self._blocks: list[int] = []
        """The pieces that hold values that wait for cuts."""
        self._told = 0, 0
        """At the last `changes`: the policy's version, and how many values waited. With another policy others wait."""
        self._pending = Pending(config.max_pending, self._pieces)
        self._confusion: NDArray[np.int64] = np.zeros((len(config.classes), len(config.classes)), dtype=np.int64)
        """Labelled instances that had been decided, by their class and the class decided."""
        self._seen = 0
        self._evicted = 0
        self._ts = 0
        self._changed = False
        """Whether other features are in use than the last snapshot says."""
        self._requested: list[str] = []
        self._snapshots = Snapshots(name, lane, config)

    # -- processing ----------------------------------------------------------------------------------------------

    def process(self, batch: InstanceBatch, raw: RawRecords) -> StreamOutput:
        joined = self._pending.join(batch)
        rows, later = joined.batch, _later(joined)
        decisions = Decisions(len(rows))
        output = StreamOutput([], dead_letters=[orphan(offset, *raw[offset]) for offset in joined.orphans])
        first, had = self._seen, self._judged
        learns = np.flatnonzero(rows.y)
        row = 0
        while row < len(rows):
            version = self._operator.version
            start, row = row, self._stop(learns[np.searchsorted(learns, row) :], len(rows))
            self._operator.advance(rows, start, row, decisions, later=later)
            output.judged.append(self._count(joined, decisions, later, start, row))
            if self._operator.version > version:
                self._emit(int(rows.offset[row - 1]), int(rows.next_offset[row - 1]), output)
        self._pending.scored(decisions.label.astype(np.float64))
        now = self._judged
        output.learnt, output.mistakes = now[0] - had[0], now[1] - had[1]
        if self._config.predictions:
            output.predictions = self._predictions(rows, decisions, later, first)
        return output

    def _stop(self, learns: NDArray[np.int64], rows: int) -> int:
        """The row to stop before: after the next version that may call for a snapshot or a request.

        `learns` are the rows still ahead that will be learnt.
        """
        emit, operator = self._config.emit, self._operator
        row, _ = emit.until(operator.version, self._snapshots.version, self._changed, learns, rows)
        until_policy = operator.until_policy
        if (emit.on_change or self._config.requests) and until_policy <= len(learns):
            row = min(row, int(learns[until_policy - 1]) + 1)
        return row

    def _count(self, joined: Joined, decisions: Decisions, later: Later | None, start: int, stop: int) -> Judged:
        y, said = joined.batch.y[start:stop], decisions.said(later, start, stop)
        judged = (y != UNLABELLED) & (said != UNLABELLED)
        np.add.at(self._confusion, (self._places(y[judged]), self._places(said[judged])), 1)
        self._seen += stop - start if later is None else int(np.count_nonzero(later.arrived[start:stop]))
        self._evicted += bisect_left(joined.evictions, stop) - bisect_left(joined.evictions, start)
        self._ts = max(self._ts, int(joined.batch.ts[start:stop].max(initial=0)))
        rows = start + np.flatnonzero(judged)
        # a later label judges what was decided when its instance came, in this batch or in an earlier one
        came = rows if later is None else np.where(later.arrived[rows], rows, later.row[rows])
        used, cost = (np.where(came >= 0, told[came], np.nan) for told in (decisions.used, decisions.cost))
        return Judged(joined.batch.offset[rows], joined.batch.ts[rows], y[judged], said[judged], used, cost)

    def _places(self, labels: NDArray[np.int8]) -> NDArray[np.int64]:
        """Of classes among those that there are."""
        numbers = labels.astype(np.int64)
        return (numbers + 1) // 2 if len(self._config.classes) == 2 else numbers - 1

    @property
    def _judged(self) -> tuple[int, int]:
        """Labelled instances that had been decided, and those that had been decided wrongly."""
        count = int(self._confusion.sum())
        return count, count - int(self._confusion.trace())

    # -- emitting ------------------------------------------------------------------------------------------------

    def _emit(self, offset: int, position: int, output: StreamOutput) -> None:
        """What the version just reached calls for, after the record at `offset`."""
        operator = self._operator
        if operator.policy_version == operator.version:
            self._changed = self._snapshots.differs(operator.selected)
            if self._config.requests and (record := self._request(offset)) is not None:
                output.requests.append(record)
        reason = self._config.emit.due(operator.version, self._snapshots.version, self._changed)
        if reason is not None:
            output.snapshots.append(self._snapshot(reason, offset, position))

    def _request(self, offset: int) -> OutRecord | None:
        """None if it would say what the one before said, or if it is too large: then all features are wanted still."""
        wanted = list(self._operator.reachable)
        if wanted == self._requested:
            return None
        record = encode.request(
            offset=offset,
            flow=self._config.flow,
            stream=self.name,
            version=self._operator.version,
            seq=self._seen,
            partition=self._lane,
            features=wanted,
            explore=self._operator.params["explore"],
        )
        limit = self._config.max_snapshot_bytes
        if limit is not None and record.size > limit:
            return None
        self._requested = wanted
        return record

    def _predictions(
        self, rows: InstanceBatch, decisions: Decisions, later: Later | None, first: int
    ) -> list[OutRecord]:
        """`first`: the number of the first instance."""
        arrived = np.ones(len(rows), dtype=np.bool_) if later is None else later.arrived
        seq = first + np.cumsum(arrived) - 1
        made: list[OutRecord] = []
        for start, stop, labels, posterior in decisions.parts():
            known = self._places(np.array(labels, dtype=np.int8)).tolist()
            here = start + np.flatnonzero(arrived[start:stop])
            made += self._encoder.encode(
                None if rows.ids is None else [rows.ids[row] for row in here.tolist()],
                seq[here], rows.offset[here], decisions.used[here], decisions.cost[here], known,
                posterior[here - start], self._places(decisions.label[here]),
            )  # fmt: skip
        return made

    def final(self, position: int) -> OutRecord | None:
        """The snapshot at the end of bounded input, unless this version has one already."""
        if not self._config.emit.final or self._operator.version == self._snapshots.version:
            return None
        return self._snapshot("final", position, position)

    def _snapshot(self, reason: Reason, offset: int, position: int) -> OutRecord:
        operator = self._operator
        judged, mistakes = self._judged
        evicted = {"pending_evicted": self._evicted} if self._evicted else {}
        self._changed = False
        return self._snapshots.make(
            reason,
            offset=offset,
            position=position,
            version=operator.version,
            seen=self._seen,
            ts=self._ts,
            selected=ranked(operator),
            metrics={
                "mistakes": mistakes,
                "error_rate": mistakes / max(judged, 1),
                "balanced_accuracy": balanced(self._confusion),
                **evicted,
                **operator.metrics(),
            },
            params=operator.params,
        )

    # -- state ---------------------------------------------------------------------------------------------------

    def state(self) -> StreamState:
        """Numbered afresh, all values that wait in one block: where blocks end follows from the commits."""
        contents = list(self._pending.pieces().values())
        if self._operator.values_waiting:
            contents.append(self._operator.block())
        return StreamState(self._head(len(contents), len(contents)), dict(enumerate(contents)))

    def changes(self) -> StreamChange:
        operator, (policy, waiting) = self._operator, self._told
        if operator.policy_version != policy:
            for number in self._blocks:
                self._pieces.drop(number)
            self._blocks, waiting = [], 0
        if operator.values_waiting > waiting:
            block = operator.block(waiting)
            self._blocks.append(self._pieces.add(lambda: block))
        self._told = operator.policy_version, operator.values_waiting
        return StreamChange(
            self._head(len(self._pending) + len(self._blocks), self._pieces.following), *self._pieces.changes()
        )

    def _head(self, pieces: int, next_piece: int) -> dict[str, Any]:
        return {
            "stream": KIND,
            "state_version": STATE_VERSION,
            "pieces": pieces,
            "next_piece": next_piece,
            "model": self._operator.state(values=False),
            "confusion": self._confusion.astype(_INTEGERS).tobytes(),
            "seen": self._seen,
            "evicted": self._evicted,
            "ts": self._ts,
            "changed": self._changed,
            "requested": list(self._requested),
            "snapshots": self._snapshots.state(),
        }

    @classmethod
    def from_state(cls, name: str, lane: int, config: JointStreamConfig, state: StreamState) -> Self:
        head = readable(state, KIND, STATE_VERSION)
        stream = cls(name, lane, config)
        blocks = blocks_of(state)
        stream._operator = config.operator_from_state(head["model"], blocks.values())
        stream._blocks = list(blocks)
        stream._told = stream._operator.policy_version, stream._operator.values_waiting
        stream._confusion = confusion_of(head, len(config.classes))
        stream._pieces.following = head["next_piece"]
        stream._pending.restore({number: piece for number, piece in state.pieces.items() if number not in blocks})
        stream._seen = head["seen"]
        stream._evicted = head["evicted"]
        stream._ts = head["ts"]
        stream._changed = head["changed"]
        stream._requested = list(head["requested"])
        stream._snapshots.restore(head["snapshots"])
        return stream


def blocks_of(state: StreamState) -> dict[int, Any]:
    """Of the values that wait, by number: a block is a table, an instance that waits is a list."""
    return {number: piece for number, piece in sorted(state.pieces.items()) if isinstance(piece, dict)}


def confusion_of(head: Mapping[str, Any], classes: int) -> NDArray[np.int64]:
    """As the head of a stored stream has it."""
    return np.frombuffer(head["confusion"], dtype=_INTEGERS).astype(np.int64).reshape(classes, classes)


def ranked(operator: Joint) -> list[Entry]:
    """The features in use, with their rank in the order of evaluation if they still have one."""
    rank = {name: {"rank": place} for place, name in enumerate(operator.order, start=1)}
    return [(entry.feature, entry.weight, entry.since, rank.get(entry.feature, {})) for entry in operator.selected]


def balanced(confusion: NDArray[np.int64]) -> float:
    """The mean over classes of the share that was decided rightly."""
    known = confusion.sum(axis=1) > 0
    return float((confusion.diagonal()[known] / confusion.sum(axis=1)[known]).mean()) if known.any() else 0.0


def _later(joined: Joined) -> Later | None:
    if joined.arrived is None:
        return None
    said, row = np.zeros(len(joined.batch), dtype=np.int8), np.full(len(joined.batch), -1, dtype=np.int64)
    for at, waiting in joined.labelled_later.items():
        said[at], row[at] = int(waiting.score), waiting.row
    return Later(joined.arrived, said, row)
