"""Predictions of joint operators -> bytes: the class decided, its chance and those of the others, and what it took.

A poll's at a time: numbers of one sort are written together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Protocol

import numpy as np
import orjson
from numpy.typing import NDArray

from sluiceway.schemas.batch import Label
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.lane import OutRecords

_UNDECIDED = b'},"score":null,"label":null,"features_used":0,"cost":0.0,"posterior":{}}'


class Decided(Protocol):
    """By row."""

    @property
    def label(self) -> NDArray[np.int8]:
        """0: nothing was decided."""

    @property
    def used(self) -> NDArray[np.int64]: ...
    @property
    def cost(self) -> NDArray[np.float64]: ...
    @property
    def chances(self) -> NDArray[np.float64]:
        """[row, class], NaN where the class was not known."""

    @property
    def number(self) -> NDArray[np.int64]:
        """Which instance of its stream the row is; -1 if it is none."""


class DecisionEncoder:
    """For one lane. Classes are known by their place among `classes`."""

    def __init__(self, flow: str, partition: int, classes: Sequence[Label]) -> None:
        self._begin = orjson.dumps({"flow": flow})[:-1] + b',"stream":'
        self._at = b',"at":{"partition":%d,"offset":' % partition
        self._labels = [orjson.dumps(label) for label in classes]
        self._names = [orjson.dumps(label if isinstance(label, str) else str(label)) for label in classes]

    def encode(self, columns: Columns, order: NDArray[np.int64], decided: Decided) -> OutRecords:
        """Of the rows that are instances, by offset; `decided` has them in that order."""
        there = np.flatnonzero(decided.number >= 0)
        there = there[np.argsort(columns.offset[order[there]], kind="stable")]
        rows = order[there].tolist()
        keys, offsets = [columns.streams[row] for row in rows], columns.offset[order[there]].tolist()
        starts = {key: b"%b%b,\"id\":" % (self._begin, orjson.dumps(key.decode())) for key in dict.fromkeys(keys)}
        numbers, ends = decided.number[there].tolist(), self._ends(decided, there)
        told = zip(keys, _ids(columns, rows), numbers, offsets, ends, strict=True)
        values = [
            b'%b%b,"seq":%d%b%d%b' % (starts[key], id_, number, self._at, offset, end)
            for key, id_, number, offset, end in told
        ]
        return OutRecords(offsets, keys, values)

    def _ends(self, decided: Decided, rows: NDArray[np.int64]) -> list[bytes]:
        ends = [_UNDECIDED] * len(rows)
        chances = decided.chances[rows]
        known = ~np.isnan(chances)
        for pattern in np.unique(known[decided.label[rows] != 0], axis=0):  # nearly always all classes
            same = np.flatnonzero((known == pattern).all(axis=1))
            self._tell(decided, rows[same], chances[same], [*compress(range(len(pattern)), pattern)], ends, same)
        return ends

    def _tell(
        self, decided: Decided, rows: NDArray[np.int64], chances: NDArray[np.float64], known: list[int],
        ends: list[bytes], places: NDArray[np.int64],
    ) -> None:  # fmt: skip
        """Of rows decided among these classes."""
        label = decided.label[rows].astype(np.int64)
        place = (label + 1) // 2 if len(self._labels) == 2 else label - 1
        scores = _numbers(chances[np.arange(len(rows)), place])
        names = (self._names[at].replace(b"%", b"%%") + b":%b" for at in known)
        text = b'},"score":%b,"label":%b,"features_used":%d,"cost":%b,"posterior":{' + b",".join(names) + b"}}"
        every = zip(*(_numbers(chances[:, at]) for at in known), strict=True)
        labels = [self._labels[at] for at in place.tolist()]
        told = zip(scores, labels, decided.used[rows].tolist(), _numbers(decided.cost[rows]), every, strict=True)
        for at, (score, said, looks, paid, each) in zip(places.tolist(), told, strict=True):
            ends[at] = text % (score, said, looks, paid, *each)


def _ids(columns: Columns, rows: list[int]) -> list[bytes]:
    """As JSON has them."""
    letters, starts, sizes = columns.text.data, columns.id_at.tolist(), columns.id_size.tolist()
    return [
        orjson.dumps(str(letters[starts[row] : starts[row] + sizes[row]], "utf-8")) if sizes[row] else b"null"
        for row in rows
    ]


def _numbers(values: NDArray[np.float64]) -> list[bytes]:
    """As JSON has them: no number holds a comma."""
    return orjson.dumps(values.tolist())[1:-1].split(b",") if len(values) else []
