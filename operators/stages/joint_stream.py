"""One stream of a joint operator, as far as it is a matter by itself: what it emits, now and then, and its state.

Its rows are decided and learnt together with those of all streams of the lane (`joint_lane`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.joint.sequential import SequentialClassifier
from sluiceway.operators.kernels.joint.line import place_of
from sluiceway.operators.stages.emission import Reason
from sluiceway.operators.stages.later_labels import Waiting
from sluiceway.operators.stages.pieces import Pieces, readable
from sluiceway.operators.stages.snapshots import SnapshotConfig, Snapshots
from sluiceway.schemas import encode
from sluiceway.schemas.batch import Label
from sluiceway.schemas.encode import Entry
from sluiceway.schemas.lane import OutRecord
from sluiceway.schemas.state import StreamState

KIND, STATE_VERSION = "joint", 2
_INTEGERS = np.dtype("<i8")


@dataclass(frozen=True, slots=True, kw_only=True)
class JointConfig(SnapshotConfig):
    """What all streams of a flow of joint operators share."""

    new_operator: Callable[[], SequentialClassifier]
    operator_from_state: Callable[[Mapping[str, Any], Iterable[Mapping[str, Any]]], SequentialClassifier]
    max_pending: int = 10_000
    """Unlabelled instances that wait for a later label."""
    predictions: bool = False
    requests: bool = False
    classes: tuple[Label, ...] = (-1, 1)
    """How labels are called: -1 and +1, or 1, 2, 3, ... of more than two classes."""

    def new(self, name: str, lane: int) -> JointStream:
        return JointStream(name, lane, self, self.new_operator())

    def restore(self, name: str, lane: int, state: StreamState) -> JointStream:
        return JointStream.from_state(name, lane, self, state)


class Emitted(NamedTuple):
    snapshot: OutRecord | None
    request: OutRecord | None


class JointStream:
    """One operator, and what its stream has beside it.

    A later label's instance is learnt when the label comes, and the decision that is judged by it is that of when the
    instance came: others saw that one.
    """

    def __init__(self, name: str, lane: int, config: JointConfig, operator: SequentialClassifier) -> None:
        self.name = name
        self.operator = operator
        self._lane = lane
        self._config = config
        self._blocks: list[int] = []
        """The pieces that hold values that wait for cuts."""
        self._told = operator.policy_version, operator.values_waiting
        """At the last `tell`: the policy's version, and how many values waited. With another policy others wait."""
        classes = len(config.classes)
        self._confusion: NDArray[np.int64] = np.zeros((classes, classes), dtype=np.int64)
        """Labelled instances that had been decided, by their class and the class decided."""
        operator.line["many_classes"], operator.line["confusion_at"] = classes, place_of(self._confusion)
        self._changed = False
        """Whether other features are in use than the last snapshot says."""
        self._requested: list[str] = []
        self._snapshots = Snapshots(name, lane, config)
        self.next_piece = 0
        """As restored; the lane counts on."""
        self.waiting: list[Waiting] = []
        """As restored; the lane has them."""
        self.look_ahead()

    # -- emitting ------------------------------------------------------------------------------------------------

    def look_ahead(self) -> None:
        """Say at which version there is something to do again."""
        emit, version, operator = self._config.emit, self.operator.version, self.operator
        steps = operator.until_policy
        if emit.every:
            steps = min(steps, emit.every - version % emit.every)
        if emit.on_change and self._changed:
            steps = min(steps, max(self._snapshots.version + emit.min_gap - version, 1))
        operator.line["stop_at"] = version + steps

    def emit(self, offset: int, position: int) -> Emitted:
        """Make the policy and the records that the version just reached calls for, after the record at `offset`."""
        operator, snapshot, request = self.operator, None, None
        if operator.policy_is_due:
            operator.make_policy()
            self._changed = self._snapshots.differs(operator.selected)
            if self._config.requests:
                request = self._request(offset)
        reason = self._config.emit.due(operator.version, self._snapshots.version, self._changed)
        if reason is not None:
            snapshot = self._snapshot(reason, offset, position)
        self.look_ahead()
        return Emitted(snapshot, request)

    def _request(self, offset: int) -> OutRecord | None:
        """None if it would say what the one before said, or if it is too large: then all features are wanted still."""
        wanted = list(self.operator.reachable)
        if wanted == self._requested:
            return None
        record = encode.request(
            offset=offset,
            flow=self._config.flow,
            stream=self.name,
            version=self.operator.version,
            seq=self.operator.seen,
            partition=self._lane,
            features=wanted,
            explore=self.operator.params["explore"],
        )
        limit = self._config.max_snapshot_bytes
        if limit is not None and record.size > limit:
            return None
        self._requested = wanted
        return record

    def final(self, position: int) -> OutRecord | None:
        """The snapshot at the end of bounded input, unless this version has one already."""
        if not self._config.emit.final or self.operator.version == self._snapshots.version:
            return None
        return self._snapshot("final", position, position)

    def _snapshot(self, reason: Reason, offset: int, position: int) -> OutRecord:
        operator = self.operator
        judged, wrong = int(self._confusion.sum()), int(self._confusion.sum() - self._confusion.trace())
        evicted = int(operator.line["evicted"][0])
        self._changed = False
        return self._snapshots.make(
            reason,
            offset=offset,
            position=position,
            version=operator.version,
            seen=operator.seen,
            ts=int(operator.line["ts"][0]),
            selected=ranked(operator),
            metrics={
                "mistakes": wrong,
                "error_rate": wrong / max(judged, 1),
                "balanced_accuracy": balanced(self._confusion),
                **({"pending_evicted": evicted} if evicted else {}),
                **operator.metrics(),
            },
            params=operator.params,
        )

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def blocks(self) -> int:
        """How many pieces hold values that wait."""
        return len(self._blocks)

    @property
    def has_news(self) -> bool:
        """Whether other values wait than the pieces hold."""
        return self._told != (self.operator.policy_version, self.operator.values_waiting)

    def tell(self, pieces: Pieces) -> None:
        """Put them into pieces."""
        operator, (policy, waiting) = self.operator, self._told
        if operator.policy_version != policy:
            for number in self._blocks:
                pieces.drop(number)
            self._blocks, waiting = [], 0
        if operator.values_waiting > waiting:
            block = operator.block(waiting)
            self._blocks.append(pieces.add(lambda: block))
        self._told = operator.policy_version, operator.values_waiting

    def head(self, pieces: int, next_piece: int) -> dict[str, Any]:
        line = self.operator.line
        return {
            "stream": KIND,
            "state_version": STATE_VERSION,
            "pieces": pieces,
            "next_piece": next_piece,
            "model": self.operator.state(values=False),
            "confusion": self._confusion.astype(_INTEGERS).tobytes(),
            "evicted": int(line["evicted"][0]),
            "ts": int(line["ts"][0]),
            "changed": self._changed,
            "requested": list(self._requested),
            "snapshots": self._snapshots.state(),
        }

    @classmethod
    def from_state(cls, name: str, lane: int, config: JointConfig, state: StreamState) -> Self:
        head = readable(state, KIND, STATE_VERSION)
        blocks = blocks_of(state)
        stream = cls(name, lane, config, config.operator_from_state(head["model"], blocks.values()))
        stream._blocks = list(blocks)
        stream._confusion[:] = confusion_of(head, len(config.classes))
        stream.operator.line["evicted"], stream.operator.line["ts"] = head["evicted"], head["ts"]
        stream.next_piece = head["next_piece"]
        stream.waiting = [
            Waiting.from_piece(number, piece) for number, piece in sorted(state.pieces.items()) if number not in blocks
        ]
        stream._changed = head["changed"]
        stream._requested = list(head["requested"])
        stream._snapshots.restore(head["snapshots"])
        stream.look_ahead()
        return stream


def blocks_of(state: StreamState) -> dict[int, Any]:
    """Of the values that wait, by number: a block is a table, an instance that waits is a list."""
    return {number: piece for number, piece in sorted(state.pieces.items()) if isinstance(piece, dict)}


def confusion_of(head: Mapping[str, Any], classes: int) -> NDArray[np.int64]:
    """As the head of a stored stream has it."""
    return np.frombuffer(head["confusion"], dtype=_INTEGERS).astype(np.int64).reshape(classes, classes)


def ranked(operator: SequentialClassifier) -> list[Entry]:
    """The features in use, with their rank in the order of evaluation if they still have one."""
    rank = {name: {"rank": place} for place, name in enumerate(operator.order, start=1)}
    return [(entry.feature, entry.weight, entry.since, rank.get(entry.feature, {})) for entry in operator.selected]


def balanced(confusion: NDArray[np.int64]) -> float:
    """The mean over classes of the share that was decided rightly."""
    known = confusion.sum(axis=1) > 0
    return float((confusion.diagonal()[known] / confusion.sum(axis=1)[known]).mean()) if known.any() else 0.0
