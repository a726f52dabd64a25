"""Predictions of joint operators -> bytes: the class decided, its chance and those of the others, and what it took."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

from sluiceway.schemas.batch import Label
from sluiceway.schemas.lane import OutRecord

_UNDECIDED = b'},"score":null,"label":null,"features_used":0,"cost":0.0,"posterior":{}}'


class DecisionEncoder:
    """For the instances of one stream. Classes are known by their place among `classes`."""

    def __init__(self, flow: str, stream: str, partition: int, classes: Sequence[Label]) -> None:
        self._key = stream.encode()
        self._start = orjson.dumps({"flow": flow, "stream": stream})[:-1] + b',"id":'
        self._at = b',"at":{"partition":%d,"offset":' % partition
        self._labels = [orjson.dumps(label) for label in classes]
        self._names = [orjson.dumps(label if isinstance(label, str) else str(label)) for label in classes]

    def encode(
        self,
        ids: Sequence[str | None] | None,
        seq: NDArray[np.int64],
        offsets: NDArray[np.int64],
        used: NDArray[np.int64],
        cost: NDArray[np.float64],
        known: Sequence[int],
        posterior: NDArray[np.float64],
        decided: NDArray[np.int64],
    ) -> list[OutRecord]:
        """By instance. `known`: the classes that the columns of `posterior` are of; none where nothing was decided."""
        count = len(seq)
        told_ids = [b"null"] * count if ids is None else [orjson.dumps(id_) for id_ in ids]
        places = zip(told_ids, seq.tolist(), offsets.tolist(), strict=True)
        ends = self._ends(used, cost, known, posterior, decided) if known else [_UNDECIDED] * count
        return [
            OutRecord(offset, self._key, b'%b%b,"seq":%d%b%d%b' % (self._start, id_, number, self._at, offset, end))
            for (id_, number, offset), end in zip(places, ends, strict=True)
        ]

    def _ends(
        self, used: NDArray[np.int64], cost: NDArray[np.float64], known: Sequence[int],
        posterior: NDArray[np.float64], decided: NDArray[np.int64],
    ) -> list[bytes]:  # fmt: skip
        column = np.full(len(self._labels), -1)
        column[list(known)] = np.arange(len(known))
        scores = _numbers(posterior[np.arange(len(decided)), column[decided]])
        names = (self._names[place].replace(b"%", b"%%") + b":%b" for place in known)
        chances = b'},"score":%b,"label":%b,"features_used":%d,"cost":%b,"posterior":{' + b",".join(names) + b"}}"
        every = zip(*(_numbers(of_class) for of_class in posterior.T), strict=True)
        labels = [self._labels[place] for place in decided.tolist()]
        told = zip(scores, labels, used.tolist(), _numbers(cost), every, strict=True)
        return [chances % (score, label, looks, paid, *each) for score, label, looks, paid, each in told]


def _numbers(values: NDArray[np.float64]) -> list[bytes]:
    """As JSON has them: no number holds a comma."""
    return orjson.dumps(values.tolist())[1:-1].split(b",") if len(values) else []
