"""A service for the tests: follows a topic and writes down each snapshot it has handled, one line each.

`python -m tests.client.follower URL FILE` goes on after what stands in FILE.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import sluiceway


def handled(file: Path) -> list[tuple[str, str, str]]:
    """Flow, stream and mark of each."""
    if not file.exists():
        return []
    lines = [line.split() for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(flow, stream, mark) for flow, stream, mark in lines]


def main(url: str, file: Path) -> None:
    after = {(flow, stream): mark for flow, stream, mark in handled(file)}
    with file.open("a") as out, sluiceway.subscribe(url, start="beginning", after=after) as snapshots:
        for snapshot in snapshots:
            out.write(f"{snapshot.flow} {snapshot.stream} {snapshots.marks[snapshot.flow, snapshot.stream]}\n")
            out.flush()
            os.fsync(out.fileno())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
