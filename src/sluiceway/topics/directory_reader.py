"""Reading one partition file of a directory topic: in binary, by byte offset, complete lines only."""

from __future__ import annotations

import os
from itertools import accumulate
from pathlib import Path

import orjson

from sluiceway.errors import FlowError
from sluiceway.schemas.lane import RawPoll
from sluiceway.topics.bounds import RECORDS_A_POLL, Bounds, refuse_future_stop
from sluiceway.topics.directory import CHUNK, end_of_lines, open_partition, partition_path
from sluiceway.topics.positions import Position, parse_position
from sluiceway.topics.url import DirectoryTopic


def directory_bounds(topic: DirectoryTopic, partitions: int, start: str, stop: str | None) -> Bounds:
    """Resolve `start` and `stop` to byte offsets, as of now."""

    def all_of(position: Position) -> tuple[int, ...]:
        return tuple(_resolve(partition_path(topic, partition), position) for partition in range(partitions))

    refuse_future_stop(stop)
    stops = (None,) * partitions if stop is None else all_of(parse_position(stop))
    return Bounds(all_of(parse_position(start)), stops, stop)


def _resolve(path: Path, position: Position) -> int:
    if position.kind == "beginning":
        return 0
    if position.kind == "offset":
        return position.value
    ends, times, at = [0], [], 0
    with open_partition(path) as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            at += len(line)
            ends.append(at)
            if position.kind == "time":
                times.append(_ts(line))
    if position.kind == "time":
        return next((ends[row] for row, ts in enumerate(times) if ts >= position.value), ends[-1])
    return ends[max(len(ends) - 1 - position.value, 0)]  # `end` is the last 0 lines


def _ts(line: bytes) -> int:
    try:
        ts = orjson.loads(line)["ts"]
    except (ValueError, KeyError, TypeError):
        return 0
    return ts if isinstance(ts, int) else 0


class DirectoryReader:
    """Reads one partition file, waiting at its end for more."""

    def __init__(self, topic: DirectoryTopic, partition: int, start: int, stop: int | None, chunk: int = CHUNK) -> None:
        """`chunk`: the bytes that a poll reads, at most, unless a line has more."""
        self.position = start
        self._chunk = chunk
        self._partition = partition
        self.stop = stop
        self._path = partition_path(topic, partition)
        self._file = open_partition(self._path)
        try:
            self._check_start()
        except FlowError:
            self._file.close()
            raise

    def _check_start(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        if self.position > size:
            raise FlowError(
                f"{self._path}: the flow wants to go on at byte {self.position}, but the file has {size}; restore it,"
                f" or begin anew: `sluiceway reset`, or another flow name"
            )
        self._file.seek(max(self.position - 1, 0))
        if self.position and self._file.read(1) != b"\n":
            raise FlowError(f"{self._path}: byte {self.position} is not the start of a line")

    def poll(self) -> RawPoll | None:
        chunk = b"" if self.stop is not None and self.position >= self.stop else self._read()
        if self.stop is not None and self.position + len(chunk) >= self.stop:
            # a stop in the middle of a line stops before that line
            chunk = chunk[: self.stop - self.position]
            if b"\n" not in chunk:
                return self._item([], end=True)
        lines = chunk.split(b"\n", RECORDS_A_POLL)[:-1]
        return self._item(lines, end=False) if lines else None

    def _read(self) -> bytes:
        """A chunk from the position on, with at least one whole line if the file has one."""
        self._file.seek(self.position)
        chunk = self._file.read(self._chunk)
        while b"\n" not in chunk:
            more = self._file.read(len(chunk) or self._chunk)
            if not more:
                break
            chunk += more
        return chunk

    def _item(self, lines: list[bytes], *, end: bool) -> RawPoll:
        bounds = list(accumulate((len(line) + 1 for line in lines), initial=self.position))
        start, self.position = self.position, bounds[-1]
        return RawPoll(
            lane=self._partition,
            start=start,
            stop=self.position,
            end=end,
            keys=[None] * len(lines),
            values=lines,  # type: ignore[arg-type]  # nobody adds a None to them
            offsets=bounds[:-1],
            next_offsets=bounds[1:],
        )

    def end(self) -> int:
        return end_of_lines(self._file)

    def close(self) -> None:
        self._file.close()
