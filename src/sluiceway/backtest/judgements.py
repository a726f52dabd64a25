"""What a variant was judged by: for each label that came, the score its instance had been given before.

They lie in one file a lane, each with the offset of the record that brought the label, so that a replay that goes on
after a crash knows which of them to keep.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, LABELLED_LATER
from sluiceway.operators.stages.later_labels import Joined
from sluiceway.operators.stages.streams import Judged
from sluiceway.schemas.instance_columns import Columns

JUDGED = np.dtype(
    [
        ("offset", "<i8"), ("ts", "<i8"), ("score", "<f8"), ("stream", "<u4"), ("used", "<f4"), ("cost", "<f4"),
        ("y", "i1"), ("padding", "V3"),
    ]
)  # fmt: skip
"""`used` features, and what they cost, are told by operators that decide which to look at; NaN: nobody knows."""


_BUFFER = 1 << 17
"""Bytes of judgements that are written at once: a poll has few of them, a call takes long."""


class StreamNumbers:
    """Numbers for the streams of a lane, in the order in which they come up; shared by all variants."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers: dict[bytes, int] = {}
        self._last: tuple[Sequence[bytes], NDArray[np.uint32]] | None = None
        self._draft: tuple[Columns, NDArray[np.int64], NDArray[Any]] | None = None
        for name in names_in(path):
            self._numbers[name.encode()] = len(self._numbers)
        path.write_text("".join(json.dumps(name.decode()) + "\n" for name in self._numbers), encoding="utf-8")
        self._file = path.open("a", encoding="utf-8")

    def of(self, streams: Sequence[bytes]) -> NDArray[np.uint32]:
        """Of each row."""
        last = self._last
        if last is not None and last[0] is streams:
            return last[1]
        numbers = self._numbers
        try:
            found = np.fromiter(map(numbers.__getitem__, streams), dtype=np.uint32, count=len(streams))
        except KeyError:
            for name in dict.fromkeys(streams):
                if name not in numbers:
                    numbers[name] = len(numbers)
                    self._file.write(json.dumps(name.decode()) + "\n")
            found = np.fromiter(map(numbers.__getitem__, streams), dtype=np.uint32, count=len(streams))
        self._last = streams, found
        return found

    def look(self, columns: Columns) -> None:
        """Before variants come to a poll at the same time: what each of them would note of it, but for its scores."""
        rows = np.flatnonzero(columns.y != 0)
        self._draft = columns, rows, self.noted(columns, rows)

    def draft(self, columns: Columns) -> tuple[NDArray[np.int64], NDArray[Any]] | None:
        """Of the poll that was looked at: its rows with labels, and what there is to note of them."""
        if self._draft is None or self._draft[0] is not columns:
            return None
        return self._draft[1], self._draft[2].copy()

    def noted(self, columns: Columns, rows: NDArray[np.int64]) -> NDArray[Any]:
        judged = np.zeros(len(rows), dtype=JUDGED)
        judged["offset"], judged["ts"], judged["y"] = columns.offset[rows], columns.ts[rows], columns.y[rows]
        judged["stream"] = self.of(columns.streams)[rows]
        judged["used"] = judged["cost"] = np.nan
        return judged

    def number(self, name: str) -> int:
        return int(self.of([name.encode()])[0])

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def names_in(path: Path) -> list[str]:
    """The names of streams by number; a line that its writer did not finish is none."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


class Judgements:
    """One lane's file; what `observe` is given goes in."""

    def __init__(self, path: Path, streams: StreamNumbers, position: int | None) -> None:
        """Those of records before `position` are kept; None: all of them."""
        self._streams = streams
        if position is not None and path.exists():
            os.truncate(path, int(np.searchsorted(load(path)["offset"], position)) * JUDGED.itemsize)
        self._file = path.open("ab", buffering=_BUFFER)
        self._noted: list[NDArray[Any]] = []

    def observe(self, joined: Joined, scores: NDArray[np.float64]) -> None:
        """Keep what a poll's labels say: those that came with their instances, and later ones."""
        columns, special = joined.columns, joined.special
        drafted = None if special is not None else self._streams.draft(columns)
        if drafted is not None:
            rows, judged = drafted
            judged["score"] = scores[rows]
        else:
            labelled = columns.y != 0
            if special is not None:
                labelled &= special.kind != LABEL_OF_NOTHING
            rows = np.flatnonzero(labelled)
            judged = self._streams.noted(columns, rows)
            judged["score"] = scores[rows] if special is None else _scores(special, scores, rows)
        self._file.write(judged.tobytes())

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
            self._file.write(whole[np.argsort(whole["offset"], kind="stable")].tobytes())

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _scores(special: Any, scores: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """A later label judges the score that its instance had when it came."""
    found = scores[rows]
    later = special.kind[rows] == LABELLED_LATER
    of = special.judged_by[rows]
    found[later] = np.where(of[later] >= 0, scores[np.maximum(of[later], 0)], special.given_score[rows][later])
    return found


def load(path: Path) -> NDArray[Any]:
    """All of a file, if there is one; a record that was half written when its writer died is left out."""
    if not path.exists():
        return np.empty(0, dtype=JUDGED)
    whole = path.stat().st_size // JUDGED.itemsize
    return np.fromfile(path, dtype=JUDGED, count=whole)
