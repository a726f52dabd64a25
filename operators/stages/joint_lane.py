"""One lane of joint operators: the rows of all its streams are decided and learnt in compiled calls, a few a poll.

Every stream's model keeps arrays of its own. Python sees a stream by itself only when it comes up for the first time,
when it needs room, when a policy, a snapshot or a request of it is made, and when its state is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.bank.rows import LABEL_OF_NOTHING
from sluiceway.operators.joint.names import grown
from sluiceway.operators.joint.poll import Poll
from sluiceway.operators.kernels.joint.advancing import ARRIVED, Facts
from sluiceway.operators.kernels.joint.binding import Given
from sluiceway.operators.kernels.joint.line import place_of
from sluiceway.operators.stages.joint_stream import JointConfig, JointStream
from sluiceway.operators.stages.lane import LaneOfObjects
from sluiceway.operators.stages.later_labels import Joined, LaterLabels
from sluiceway.operators.stages.pending import orphan
from sluiceway.schemas.encode_decisions import DecisionEncoder
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.lane import DeadLetter, LaneBatch, LaneOutput, OutRecord
from sluiceway.schemas.state import PIECE, StoredChange, StreamState, pack

Integers = NDArray[np.int64]


class Judged(NamedTuple):
    """Labels that came for instances which had been decided: an entry each, in the order of the labels."""

    offset: Integers
    """Of the record with the label."""
    ts: Integers
    y: NDArray[np.int8]
    said: NDArray[np.int8]
    used: NDArray[np.float64]
    """Features looked at to decide; NaN if that is not known any more."""
    cost: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class JointLaneConfig(JointConfig):
    def lane(self, topic: str, number: int) -> JointLane:
        return JointLane(self, topic, number)


class JointLane(LaneOfObjects[JointStream]):
    def __init__(self, config: JointConfig, topic: str, number: int) -> None:
        super().__init__(config, topic)
        self._config = config
        self._numbers: dict[bytes, int] = {}
        """Of the streams that are awake, in the order in which they woke up."""
        self._awake: list[JointStream] = []
        self._lines, self._next_piece = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        """By number: where a model's line stands, and the number of the next piece of its stream's state."""
        self._later = LaterLabels(config.max_pending)
        self._encoder = DecisionEncoder(config.flow, number, config.classes)
        self.observe: Callable[[str, Judged], None] | None = None
        """Told of what a stream's decisions were judged by, if somebody wants to know."""

    # -- processing ----------------------------------------------------------------------------------------------

    def _learn(self, batch: LaneBatch, output: LaneOutput) -> list[DeadLetter]:
        given = batch.columns
        if given is None or not len(given):
            return []
        numbers = self._numbers_of(given.streams, batch.lane)
        joined = self._later.join(given, numbers, self._next_piece)
        columns = joined.columns
        order, ends, present = _by_stream(numbers)
        streams = [self._awake[number] for number in present.tolist()]
        self._touched.update(stream.name for stream in streams)
        poll = Poll(
            self._lines[present], lambda place: streams[place].operator, ends, order,
            Given(
                columns.text, columns.indptr, columns.address, columns.key, columns.name_at, columns.name_size,
                columns.values,
            ),
            _facts(joined, order),
            most_classes=len(self._config.classes), classes=len(self._config.classes) * self._config.predictions,
        )  # fmt: skip
        emitted: list[tuple[int, OutRecord]] = []
        requested: list[tuple[int, OutRecord]] = []
        while due := poll.advance():
            for place in due:
                row = int(order[poll.last_row(place)])
                snapshot, request = streams[place].emit(int(columns.offset[row]), int(columns.next_offset[row]))
                emitted += [] if snapshot is None else [(place, snapshot)]
                requested += [] if request is None else [(place, request)]
        output.selections, output.requests = _in_order(emitted), _in_order(requested)
        self._judge(poll, columns, streams, ends, order, output)
        if self._config.predictions:
            output.predictions = self._encoder.encode(columns, order, poll.decided)
        output.instances = len(columns) - len(joined.orphans)
        return [orphan(offset, *batch.raw[offset]) for offset in joined.orphans]

    def _numbers_of(self, names: list[bytes], lane: int) -> Integers:
        """Of each row's stream; those met for the first time are made or woken."""
        known = self._numbers
        for name in dict.fromkeys(names):
            if name not in known:
                self._touch(name.decode(), lane)
        return np.fromiter(map(known.__getitem__, names), dtype=np.int64, count=len(names))

    def _judge(
        self, poll: Poll, columns: Columns, streams: list[JointStream], ends: Integers, order: Integers,
        output: LaneOutput,
    ) -> None:  # fmt: skip
        """Count what was right and wrong, tell who wants to know, and keep what was decided of instances that wait."""
        facts, decided = poll.facts, poll.decided
        scores = np.zeros(len(order))
        scores[order] = decided.label
        self._later.scored(scores)
        here = np.arange(len(order))
        came = np.where(facts.kind == ARRIVED, here, facts.came)
        said = np.where(came >= 0, decided.label[came], facts.said)
        judged = (facts.y != 0) & (said != 0)
        output.learnt = int(np.count_nonzero(judged))
        output.mistakes = int(np.count_nonzero(judged & (facts.y != said)))
        if self.observe is None:
            return
        used, cost = (np.where(came >= 0, told[came], np.nan) for told in (decided.used, decided.cost))
        for place, stream in enumerate(streams):
            rows = here[ends[place] : ends[place + 1]]
            rows = rows[judged[rows]]
            of = order[rows]
            self.observe(
                stream.name,
                Judged(columns.offset[of], columns.ts[of], facts.y[rows], said[rows], used[rows], cost[rows]),
            )

    # -- state ---------------------------------------------------------------------------------------------------

    def _enrol(self, name: str, stream: JointStream, birth: int) -> None:
        super()._enrol(name, stream, birth)
        number = len(self._awake)
        self._numbers[name.encode()] = number
        self._awake.append(stream)
        if number >= len(self._lines):
            room = max(64, 2 * number)
            self._lines, self._next_piece = grown(self._lines, room), grown(self._next_piece, room)
        self._lines[number], self._next_piece[number] = place_of(stream.operator.line), stream.next_piece
        self._later.restore(number, stream.waiting, stream.next_piece)
        stream.waiting = []

    def _change(self, name: str) -> StoredChange:
        number = self._numbers[name.encode()]
        stream, later = self._awake[number], self._later
        if stream.has_news:
            pieces = later.numbering(number, int(self._next_piece[number]))
            stream.tell(pieces)
            self._next_piece[number] = pieces.following
        head = stream.head(later.count(number) + stream.blocks, int(self._next_piece[number]))
        added, dropped = later.changes(number)
        packed = {number: pack(piece, PIECE) for number, piece in added.items()}
        return StoredChange(name, self._births[name], pack(head), packed, dropped)

    def _state(self, name: str) -> StreamState:
        """Numbered afresh, all values that wait in one block: where blocks end follows from the commits."""
        number = self._numbers[name.encode()]
        stream, contents = self._awake[number], list(self._later.pieces(number).values())
        if stream.operator.values_waiting:
            contents.append(stream.operator.block())
        return StreamState(stream.head(len(contents), len(contents)), dict(enumerate(contents)))


def _by_stream(numbers: Integers) -> tuple[Integers, Integers, Integers]:
    """The rows of each stream together, streams in the order in which they first appear; where each one's rows begin,
    and those of the next; and the streams."""
    present, first, of = np.unique(numbers, return_index=True, return_inverse=True)
    by_first = np.argsort(first)
    place = np.empty(len(present), dtype=np.int64)
    place[by_first] = np.arange(len(present))
    places = place[of]
    ends = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(np.bincount(places))))
    return np.argsort(places, kind="stable"), ends, present[by_first]


def _facts(joined: Joined, order: Integers) -> Facts:
    """In that order of the rows."""
    columns, special = joined.columns, joined.special
    y, ts = columns.y[order], columns.ts[order]
    if special is None:
        octets, longs = np.zeros(len(y), dtype=np.int8), np.zeros(len(y), dtype=np.int64)
        return Facts(y, ts, octets, longs, octets, longs)
    kind, by = special.kind[order], special.judged_by[order]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    nothing = kind == LABEL_OF_NOTHING
    y[nothing], ts[nothing] = 0, 0
    came = np.where(by >= 0, place[by], -1)
    return Facts(y, ts, kind, came, special.given_score[order].astype(np.int8), special.evicted[order])


def _in_order(records: list[tuple[int, OutRecord]]) -> list[OutRecord]:
    """By offset; of rows that share one, by place of their streams."""
    return [record for _, record in sorted(records, key=lambda each: (each[1].offset, each[0]))]
