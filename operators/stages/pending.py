"""Unlabelled instances that wait for a later label, of operators that score nothing.

A later label goes to the newest waiting instance of its id, which is learnt when the label comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from sluiceway.operators.stages.pieces import Pieces
from sluiceway.schemas.batch import UNLABELLED, InstanceBatch
from sluiceway.schemas.lane import DeadLetter, LaneBatch
from sluiceway.schemas.refusal import MESSAGE_LENGTH, Refused, cut


@dataclass(slots=True)
class Waiting:
    """An instance that waits: its features as JSON."""

    id: str
    features: bytes
    number: int = -1
    """As a piece of the stream's state."""

    def piece(self) -> list[Any]:
        return [self.id, self.features]


@dataclass(slots=True)
class Joined:
    """A batch with every later label turned into a row that holds the instance it labels."""

    batch: InstanceBatch
    arrived: NDArray[np.bool_] | None
    """Rows that are instances of this batch, as opposed to earlier ones labelled now; None = all."""
    labelled_later: dict[int, Waiting] = field(default_factory=dict)
    orphans: list[int] = field(default_factory=list)
    """Offsets of labels that no waiting instance has."""
    evictions: list[int] = field(default_factory=list)
    """The row that pushed out an older instance, once for each: a snapshot counts only what came before it."""


class Pending:
    """The waiting instances of one stream, oldest first; each is a piece of the stream's state."""

    def __init__(self, limit: int, pieces: Pieces) -> None:
        self._limit = limit
        self._pieces = pieces
        self._waiting: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, batch: InstanceBatch) -> Joined:
        """Take in unlabelled rows, answer later labels, in the order of the rows."""
        if batch.ids is None or (batch.label_only is None and batch.y.all()):
            return Joined(batch, None)
        label_only = batch.label_only if batch.label_only is not None else np.zeros(len(batch), dtype=np.bool_)
        joined = Joined(batch, None)
        for row in np.flatnonzero(label_only | (batch.y == UNLABELLED)).tolist():
            id_ = batch.ids[row]
            if id_ is None:
                continue
            if not label_only[row]:
                self._wait(id_, batch, row)
                while len(self._waiting) > self._limit:
                    self._leave(next(iter(self._waiting)))
                    joined.evictions.append(row)
            elif (waiting := self._leave(id_)) is not None:
                joined.labelled_later[row] = waiting
            else:
                joined.orphans.append(int(batch.offset[row]))
        if batch.label_only is not None:
            _fill_in(joined, label_only)
        return joined

    def _wait(self, id_: str, batch: InstanceBatch, row: int) -> None:
        if self._limit == 0:
            return
        low, high = batch.indptr[row], batch.indptr[row + 1]
        names = [batch.names[index] for index in batch.indices[low:high].tolist()]
        features = orjson.dumps([names, batch.values[low:high].tolist()])
        self._leave(id_)  # so that the newest of an id stands last
        waiting = Waiting(id_, features)
        waiting.number = self._pieces.add(waiting.piece)
        self._waiting[id_] = waiting

    def _leave(self, id_: str) -> Waiting | None:
        waiting = self._waiting.pop(id_, None)
        if waiting is not None:
            self._pieces.drop(waiting.number)
        return waiting

    def pieces(self) -> dict[int, Any]:
        """All that wait, oldest first."""
        return {waiting.number: waiting.piece() for waiting in self._waiting.values()}

    def restore(self, pieces: Mapping[int, Any]) -> None:
        """With a limit that may have been changed since: the next instance to wait pushes out what is too many."""
        for number, (id_, features) in sorted(pieces.items()):
            self._waiting[id_] = Waiting(id_, features, number)


def _fill_in(joined: Joined, label_only: NDArray[np.bool_]) -> None:
    """Give each row of a later label the features it labels; an orphan becomes an unlabelled row of zeros."""
    batch = joined.batch
    index = {name: at for at, name in enumerate(batch.names)}
    indices: list[NDArray[np.int32]] = []
    values: list[NDArray[np.float64]] = []
    for row in range(len(batch)):
        if (waiting := joined.labelled_later.get(row)) is not None:
            names, numbers = orjson.loads(waiting.features)
            indices.append(np.array([index.setdefault(name, len(index)) for name in names], dtype=np.int32))
            values.append(np.array(numbers, dtype=np.float64))
        else:
            low, high = batch.indptr[row], batch.indptr[row + 1]
            indices.append(batch.indices[low:high])
            values.append(batch.values[low:high])
    orphaned = label_only.copy()
    orphaned[list(joined.labelled_later)] = False
    joined.arrived = ~label_only
    joined.batch = replace(
        batch,
        names=batch.names if len(index) == len(batch.names) else tuple(index),
        indptr=np.cumsum([0, *map(len, indices)], dtype=np.int64),
        indices=np.concatenate(indices),
        values=np.concatenate(values),
        y=np.where(orphaned, np.int8(UNLABELLED), batch.y),
        ts=np.where(orphaned, 0, batch.ts),
        label_only=None,
    )


def orphan(offset: int, key: bytes | None, value: bytes | None) -> DeadLetter:
    """The dead letter of a label that no waiting instance has."""
    refused = Refused("orphan-label", "no unlabelled instance of this id is waiting for a label")
    return refused.letter(offset, key, value, stage="label")


def explained(letter: DeadLetter, batch: LaneBatch) -> DeadLetter:
    """With what there is to say of an orphan's record: it may be an instance whose features the flow does not see."""
    if letter.error_class != "orphan-label":
        return letter
    return letter._replace(message=cut(letter.message + batch.unseen(letter.value), MESSAGE_LENGTH))
