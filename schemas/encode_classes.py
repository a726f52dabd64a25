"""Predictions where there are more than two classes -> bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

from sluiceway.schemas.batch import Label
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.lane import OutRecords


class ClassPredictionEncoder:
    """For the rows of a poll: the class with the largest score, the first of equal ones, and that score.

    With `with_scores` a record has the scores of all classes, by name.
    """

    def __init__(self, flow: str, partition: int, classes: Sequence[Label], *, with_scores: bool = False) -> None:
        self._flow = flow
        self._labels = [orjson.dumps(label) for label in classes]
        self._at = b',"at":{"partition":%d,"offset":' % partition
        names = [orjson.dumps(label if isinstance(label, str) else str(label)) for label in classes]
        self._scores = b",".join(b"%b:%%b" % name.replace(b"%", b"%%") for name in names) if with_scores else b""

    def encode(
        self, columns: Columns, rows: NDArray[np.int64] | None, seq: NDArray[np.int64], scores: NDArray[np.float64]
    ) -> OutRecords:
        """Of these rows; None = all of them. `seq` is by row, `scores` by row and class."""
        taken = np.arange(len(columns)) if rows is None else rows
        if not len(taken):
            return OutRecords([], [], [])
        scores = scores[taken]
        chosen = scores.argmax(axis=1)
        best = _numbers(scores[np.arange(len(taken)), chosen])
        every = [_numbers(of_one) for of_one in scores.T] if self._scores else []
        ids = ids_of(columns.text, columns.id_at[taken], columns.id_size[taken])
        streams, offsets = [columns.streams[row] for row in taken.tolist()], columns.offset[taken].tolist()
        starts = {stream: self._start(stream) for stream in set(streams)}
        made: list[bytes] = []
        for at, (stream, id_, number, offset, score, label) in enumerate(
            zip(streams, ids, seq[taken].tolist(), offsets, best, chosen.tolist(), strict=True)
        ):
            value = b'%b%b,"seq":%d%b%d},"score":%b,"label":%b' % (
                starts[stream], id_, number, self._at, offset, score, self._labels[label],
            )  # fmt: skip
            if self._scores:
                value += b',"scores":{%b}' % (self._scores % tuple(of_one[at] for of_one in every))
            made.append(value + b"}")
        return OutRecords(offsets, streams, made)

    def _start(self, stream: bytes) -> bytes:
        return orjson.dumps({"flow": self._flow, "stream": stream.decode()})[:-1] + b',"id":'


def _numbers(values: NDArray[np.float64]) -> list[bytes]:
    """As JSON has them: no number holds a comma."""
    return orjson.dumps(values.tolist())[1:-1].split(b",")


_MUST_BE_ESCAPED = re.compile(rb'[\x00-\x1f"\\\\]')


def ids_of(text: NDArray[np.uint8], at: NDArray[np.int64], size: NDArray[np.int32]) -> list[bytes]:
    """Of each row as JSON."""
    if not size.any():
        return [b"null"] * len(size)
    letters = memoryview(text.data)
    ids = [bytes(letters[start : start + length]) for start, length in zip(at.tolist(), size.tolist(), strict=True)]
    if _MUST_BE_ESCAPED.search(b"".join(ids)) is None:
        return [b'"%b"' % id_ if id_ else b"null" for id_ in ids]
    return [orjson.dumps(id_.decode()) if id_ else b"null" for id_ in ids]
