"""What a variant was judged by: for each label that came, the score its instance had been given before.

Of operators that are told of whole polls that is a number for each of `labelled_rows`. Those that decide stream by
stream also tell what a decision took, and may have decided nothing: they have records of their own. Either lies in a
file a lane, from which a replay that goes on after a crash knows what to keep.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sluiceway.backtest.labelled_rows import BUFFER, LabelledRows, whole_records
from sluiceway.backtest.stream_numbers import StreamNumbers
from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, LABELLED_LATER
from sluiceway.operators.stages.joint_lane import Judged
from sluiceway.operators.stages.later_labels import Joined

SCORE = np.dtype("<f8")
"""NaN: that label was one for nothing, and judges nothing."""
JUDGED = np.dtype(
    [
        ("offset", "<i8"), ("ts", "<i8"), ("score", "<f8"), ("stream", "<u4"), ("used", "<f4"), ("cost", "<f4"),
        ("y", "i1"), ("padding", "V3"),
    ]
)  # fmt: skip
"""`used` features, and what they cost, are told by operators that decide which to look at; NaN: nobody knows."""


def scores_of(folder: Path, lane: int) -> Path:
    return folder / f"scores-{lane:05d}.bin"


def judgements_of(folder: Path, lane: int) -> Path:
    return folder / f"judgements-{lane:05d}.bin"


class Judgements:
    """Of one lane of a variant; what `observe` or `note` is given goes into the file of its kind."""

    def __init__(
        self, folder: Path, lane: int, streams: StreamNumbers, labelled: LabelledRows, position: int | None
    ) -> None:
        """Those of records before `position` are kept; None: all of them."""
        self._streams, self._labelled = streams, labelled
        self._scores, self._judgements = scores_of(folder, lane), judgements_of(folder, lane)
        if position is not None and self._scores.exists():
            os.truncate(self._scores, labelled.before(position) * SCORE.itemsize)
        if position is not None and self._judgements.exists():
            kept = int(np.searchsorted(whole_records(self._judgements, JUDGED)["offset"], position))
            os.truncate(self._judgements, kept * JUDGED.itemsize)
        self._file: BinaryIO | None = None
        self._noted: list[NDArray[Any]] = []

    def observe(self, joined: Joined, scores: NDArray[np.float64]) -> None:
        """Keep what a poll's labels say: those that came with their instances, and later ones."""
        rows, special = self._labelled.rows, joined.special
        found = scores[rows] if special is None else _scores(special, scores, rows)
        self._write(self._scores, found)

    def note(self, stream: str, found: Judged) -> None:
        """Keep what a stream of a lane tells by itself, until `settle` puts the poll in order."""
        judged = np.zeros(len(found.y), dtype=JUDGED)
        judged["stream"], judged["score"] = self._streams.number(stream), found.said
        for name in ("offset", "ts", "y", "used", "cost"):
            judged[name] = getattr(found, name)
        self._noted.append(judged)

    def settle(self) -> None:
        """The poll is over."""
        if self._noted:
            whole = np.concatenate(self._noted)
            self._noted.clear()
            self._write(self._judgements, whole[np.argsort(whole["offset"], kind="stable")])

    def _write(self, path: Path, content: NDArray[Any]) -> None:
        if self._file is None:
            self._file = path.open("ab", buffering=BUFFER)
        self._file.write(content.data)

    def sync(self) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _scores(special: Any, scores: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """A later label judges the score that its instance had when it came."""
    found, kind = scores[rows], special.kind[rows]
    later = kind == LABELLED_LATER
    of = special.judged_by[rows]
    found[later] = np.where(of[later] >= 0, scores[np.maximum(of[later], 0)], special.given_score[rows][later])
    found[kind == LABEL_OF_NOTHING] = np.nan
    return found
