"""Unlabelled instances that wait for a later label, of all streams of a lane.

A later label goes to the newest waiting instance of its id in its stream. The instance is learnt when the label comes,
but whether the flow was wrong about it is judged by the score it had when it came: that is the prediction others saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.bank.bank import Special
from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, LABELLED_LATER
from sluiceway.operators.stages.pieces import Pieces
from sluiceway.schemas.batch import UNLABELLED
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.name_hash import hash_names
from sluiceway.schemas.swar import READABLE_BEYOND

_VALUES, _SIZES = np.dtype("<f8"), np.dtype("<i4")
_OVERHEAD = 700
"""Bytes of memory that an instance takes beside what it holds."""


@dataclass(slots=True)
class Waiting:
    """An instance that waits, and its score, known once its poll has been scored."""

    id: bytes
    values: bytes
    name_sizes: bytes
    letters: bytes
    """Of all names, one after the other."""
    score: float = 0.0
    row: int = -1
    """Its row in the poll under way; -1 if it came with an earlier one."""
    number: int = -1
    """As a piece of the stream's state."""

    @property
    def size(self) -> int:
        """Bytes of memory, roughly."""
        return _OVERHEAD + len(self.id) + len(self.values) + len(self.name_sizes) + len(self.letters)

    def piece(self) -> list[Any]:
        return [self.id, self.values, self.name_sizes, self.letters, self.score]

    @classmethod
    def from_piece(cls, number: int, piece: Any) -> Self:
        """`ValueError` if it is none: what is woken is not looked at again."""
        id_, values, sizes, letters, score = piece
        whole = all(type(part) is bytes for part in (id_, values, sizes, letters)) and type(score) is float
        if not whole or not id_ or len(values) != 2 * len(sizes) or len(sizes) % 4:
            raise ValueError("an instance that waits for a label is damaged")
        lengths = np.frombuffer(sizes, dtype=_SIZES)
        if (lengths < 1).any() or int(lengths.sum()) != len(letters):
            raise ValueError("an instance that waits for a label is damaged")
        return cls(id_, values, sizes, letters, score, number=number)


class Joined(NamedTuple):
    """A poll with every later label turned into a row that holds the instance it labels."""

    columns: Columns
    special: Special | None
    """What the rows are; None: all are plain instances."""
    orphans: list[int]
    """Offsets of labels that no waiting instance has."""


@dataclass(slots=True)
class _OfStream:
    """What waits in one stream, oldest first; each is a piece of the stream's state."""

    pieces: Pieces
    waiting: dict[bytes, Waiting] = field(default_factory=dict)


class LaterLabels:
    """By model; a model in whose stream nothing waits and nothing has changed is not known here."""

    def __init__(self, limit: int) -> None:
        self.size = 0
        """Bytes of memory of all that wait, roughly."""
        self._limit = limit
        self._streams: dict[int, _OfStream] = {}
        self._arrived: list[Waiting] = []
        """Those that came with the poll under way."""

    def knows(self, model: int) -> bool:
        """Whether anything waits in the stream of a model, or has changed."""
        return model in self._streams

    def count(self, model: int) -> int:
        """How many instances wait in the stream of a model."""
        stream = self._streams.get(model)
        return 0 if stream is None else len(stream.waiting)

    def join(self, columns: Columns, models: NDArray[np.int64], next_piece: NDArray[np.int64]) -> Joined:
        """Take in unlabelled rows, answer later labels, in the order of the rows.

        `next_piece`: by model, the number of the next piece of its stream's state; kept up to date.
        """
        waits = (columns.y == UNLABELLED) & (columns.id_size > 0) & ~columns.label_only
        if not columns.label_only.any() and not (self._limit and waits.any()):
            return Joined(columns, None, [])
        special, orphans, answered = Special(len(columns)), [], {}
        arriving = np.flatnonzero(waits)
        instances = dict(zip(arriving.tolist(), _instances(columns, arriving), strict=True)) if self._limit else {}
        for row in np.flatnonzero(waits | columns.label_only).tolist():
            model = int(models[row])
            stream = self._streams.get(model)
            if not columns.label_only[row]:
                if not self._limit:
                    continue
                if stream is None:
                    stream = self._streams[model] = _OfStream(Pieces(int(next_piece[model])))
                special.evicted[row] = self._wait(stream, instances[row])
                next_piece[model] = stream.pieces.following
                continue
            found = None if stream is None else self._leave(stream, _id(columns, row))
            if found is None:
                special.kind[row] = LABEL_OF_NOTHING
                orphans.append(int(columns.offset[row]))
                continue
            special.kind[row] = LABELLED_LATER
            special.judged_by[row], special.given_score[row] = found.row, found.score
            answered[row] = found
        return Joined(_with(columns, answered) if answered else columns, special, orphans)

    def _wait(self, stream: _OfStream, arrived: Waiting) -> int:
        """How many it pushes out."""
        self._leave(stream, arrived.id)  # so that the newest of an id stands last
        arrived.number = stream.pieces.add(arrived.piece)
        stream.waiting[arrived.id] = arrived
        self.size += arrived.size
        self._arrived.append(arrived)
        pushed_out = max(len(stream.waiting) - self._limit, 0)
        for _ in range(pushed_out):
            self._leave(stream, next(iter(stream.waiting)))
        return pushed_out

    def _leave(self, stream: _OfStream, id_: bytes) -> Waiting | None:
        left = stream.waiting.pop(id_, None)
        if left is not None:
            stream.pieces.drop(left.number)
            self.size -= left.size
        return left

    def scored(self, scores: NDArray[np.float64]) -> None:
        """Keep the scores of those that came with the poll just done."""
        for waiting in self._arrived:
            waiting.score, waiting.row = float(scores[waiting.row]), -1
        self._arrived.clear()

    # -- state ---------------------------------------------------------------------------------------------------

    def changes(self, model: int) -> tuple[dict[int, Any], list[int]]:
        """Content of the pieces that have come, and numbers of those that have gone."""
        stream = self._streams.get(model)
        if stream is None:
            return {}, []
        changes = stream.pieces.changes()
        if not stream.waiting:
            del self._streams[model]
        return changes

    def pieces(self, model: int) -> dict[int, Any]:
        """All that wait in a stream, oldest first."""
        stream = self._streams.get(model)
        return {} if stream is None else {waiting.number: waiting.piece() for waiting in stream.waiting.values()}

    def restore(self, model: int, waiting: Sequence[Waiting], next_piece: int) -> None:
        """With a limit that may have been changed since: the next instance to wait pushes out what is too many."""
        if waiting:
            self._streams[model] = _OfStream(Pieces(next_piece), {one.id: one for one in waiting})
            self.size += sum(one.size for one in waiting)

    def numbering(self, model: int, next_piece: int) -> Pieces:
        """What numbers all pieces of the stream's state, for those that are no instances; `changes` tells of them."""
        return self._streams.setdefault(model, _OfStream(Pieces(next_piece))).pieces

    def forget(self, model: int) -> None:
        """A stream that goes to sleep; its changes have been told."""
        stream = self._streams.pop(model, None)
        if stream is not None:
            self.size -= sum(one.size for one in stream.waiting.values())


def _id(columns: Columns, row: int) -> bytes:
    at = int(columns.id_at[row])
    return columns.text[at : at + int(columns.id_size[row])].tobytes()


def _instances(columns: Columns, rows: NDArray[np.int64]) -> list[Waiting]:
    made = []
    for row in rows.tolist():
        low, high = int(columns.indptr[row]), int(columns.indptr[row + 1])
        at, sizes = columns.name_at[low:high], columns.name_size[low:high]
        letters = columns.text[_runs(at, sizes)].tobytes()
        values = columns.values[low:high].astype(_VALUES, copy=False).tobytes()
        made.append(Waiting(_id(columns, row), values, sizes.astype(_SIZES, copy=False).tobytes(), letters, row=row))
    return made


def _runs(starts: NDArray[np.int64], sizes: NDArray[Any]) -> NDArray[np.int64]:
    """start, start + 1, ... of each run, one after the other."""
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - sizes), sizes) + np.arange(total)


def _with(columns: Columns, answered: Mapping[int, Waiting]) -> Columns:
    """Each row of a later label has the features of the instance it labels."""
    instances: Sequence[Waiting] = list(answered.values())
    values = np.frombuffer(b"".join(one.values for one in instances), dtype=_VALUES).astype(np.float64)
    sizes = np.frombuffer(b"".join(one.name_sizes for one in instances), dtype=_SIZES).astype(np.int32)
    letters = np.frombuffer(b"".join([one.letters for one in instances] + [READABLE_BEYOND]), dtype=np.uint8)
    text = np.concatenate((columns.text, letters))
    name_at = len(columns.text) + np.cumsum(sizes, dtype=np.int64) - sizes
    address, key = hash_names(text, name_at, sizes)
    counts = np.diff(columns.indptr)
    starts = columns.indptr[:-1].copy()
    rows = list(answered)
    counts[rows] = [len(one.values) // 8 for one in instances]
    starts[rows] = int(columns.indptr[-1]) + np.cumsum(counts[rows]) - counts[rows]
    features = int(columns.indptr[-1])
    taken = _runs(starts, counts)
    return replace(
        columns,
        text=text,
        indptr=np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts))),
        address=np.concatenate((columns.address[:features], address))[taken],
        key=np.concatenate((columns.key[:features], key))[taken],
        name_at=np.concatenate((columns.name_at[:features], name_at))[taken],
        name_size=np.concatenate((columns.name_size[:features], sizes))[taken],
        values=np.concatenate((columns.values[:features], values))[taken],
    )
