"""Numbers for the streams of a lane, in the order in which they come up; kept in a file, shared by all variants."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class StreamNumbers:
    """Of one lane."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers: dict[bytes, int] = {}
        self._last: tuple[Sequence[bytes], NDArray[np.uint32]] | None = None
        _cut_unfinished(path)
        for name in names_in(path):
            self._numbers[name.encode()] = len(self._numbers)
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

    def number(self, name: str) -> int:
        return int(self.of([name.encode()])[0])

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _cut_unfinished(path: Path) -> None:
    """Of the last line. The rest is never written anew: what lies in the files beside it counts on these numbers."""
    if path.exists():
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)


def names_in(path: Path) -> list[str]:
    """The names of streams by number; a line that its writer did not finish is none."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
