"""Directory topics: a folder of append-only JSON-lines files, one a partition; `_topic.json` pins their number.

Read in binary by byte offset, complete lines only. One flow writes a directory topic; what it wrote after its last
checkpoint stays, and is compared with what it writes again after a crash.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

import orjson

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.topics.bounds import RECORDS_A_POLL, Bounds, refuse_future_stop
from sluiceway.flows.topics.url import DirectoryTopic
from sluiceway.positions import Position, parse_position
from sluiceway.schemas import encode
from sluiceway.schemas.lane import LaneOutput, OutRecord, RawPoll

CHUNK = 1 << 20


def partition_path(topic: DirectoryTopic, partition: int) -> Path:
    return topic.path / f"part-{partition:05d}.jsonl"


def create_directory_topic(topic: DirectoryTopic, partitions: int) -> None:
    """Make the folder, its empty partition files and the pin; an existing topic is left as it is."""
    pin = topic.path / "_topic.json"
    try:
        topic.path.mkdir(parents=True, exist_ok=True)
        if not pin.exists():
            for partition in range(partitions):
                partition_path(topic, partition).touch()
            fresh = topic.path / f"_topic.{os.getpid()}.new"  # the flow's other processes may be at it too
            fresh.write_bytes(orjson.dumps({"partitions": partitions}) + b"\n")
            fresh.replace(pin)
    except OSError as problem:
        raise SettingsError(f"the topic {topic} cannot be made: {(problem.strerror or str(problem)).lower()}") from None


def partition_count(topic: DirectoryTopic) -> int | None:
    """The pinned number of partitions; None if there is no such topic."""
    try:
        return int(orjson.loads((topic.path / "_topic.json").read_bytes())["partitions"])
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise SettingsError(f"the topic {topic} is a file: a topic is a directory of files, one a partition") from None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise FlowError(f"{topic.path / '_topic.json'} does not pin the number of partitions: {problem}") from None


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
    with _open(path) as lines:
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


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as problem:
        raise FlowError(f"{path} cannot be read: {problem.strerror}") from None


class DirectoryReader:
    """Reads one partition file, waiting at its end for more."""

    def __init__(self, topic: DirectoryTopic, partition: int, start: int, stop: int | None) -> None:
        self.position = start
        self._partition = partition
        self.stop = stop
        self._path = partition_path(topic, partition)
        self._file = _open(self._path)
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
                f" or start anew with another recovery directory and other output topics"
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
        chunk = self._file.read(CHUNK)
        while b"\n" not in chunk:
            more = self._file.read(len(chunk) or CHUNK)
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

    def close(self) -> None:
        self._file.close()


class DirectoryOutput(NamedTuple):
    """A directory topic to be written."""

    carries: str
    topic: DirectoryTopic
    begins: tuple[int, ...]
    """By lane, where to begin if the checkpoint does not know it."""


class DirectoryLane:
    """Appends one lane's records to its partition file in each directory topic.

    Its state is how much of each topic is written: after a clean end, outputs may come, go and change. One that the
    state does not know begins where it ended when the run began, which a crash does not forget.
    """

    def __init__(self, lane: int, outputs: Sequence[DirectoryOutput], state: Mapping[str, int] | None) -> None:
        known = state or {}
        self._files = {
            output: _PartitionFile(
                partition_path(output.topic, lane), known.get(output.topic.identity, output.begins[lane])
            )
            for output in outputs
        }

    def write(self, output: LaneOutput) -> None:
        for target, file in self._files.items():
            records: list[OutRecord] = getattr(output, target.carries)
            if target.carries == "selections":
                records = records + output.finals
            if records:
                line = encode.dead_letter_line if target.carries == "dead_letters" else _value
                file.append(b"".join(line(record) + b"\n" for record in records))

    def commit(self) -> dict[str, int]:
        return {output.topic.identity: file.sync() for output, file in self._files.items()}

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _value(record: OutRecord) -> bytes:
    assert record.value is not None  # snapshots and predictions always have one
    return record.value


class _PartitionFile:
    """An append-only file with one writer; what already stands after `position` must come again as it is."""

    def __init__(self, path: Path, position: int) -> None:
        self._path = path
        try:
            self._file = path.open("r+b", buffering=0)
        except OSError as problem:
            raise FlowError(f"{path} cannot be written: {problem.strerror}") from None
        self._position = position
        try:
            self._take()
        except FlowError:
            self._file.close()
            raise

    def _take(self) -> None:
        """Be the only writer, from the last whole line on."""
        path, position = self._path, self._position
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FlowError(f"{path} is being written by another process; a directory topic has one writer") from None
        size = os.fstat(self._file.fileno()).st_size
        if size < position:
            raise FlowError(
                f"{path} has {size} bytes, but the checkpoint says that {position} were written;"
                f" restore it, or start anew with another recovery directory and other output topics"
            )
        self._standing = cut_torn_line(self._file)

    def append(self, data: bytes) -> None:
        again = min(self._standing - self._position, len(data))
        if again > 0:
            self._file.seek(self._position)
            if self._file.read(again) != data[:again]:
                raise FlowError(
                    f"{self._path}: what the flow writes again differs from what stands after byte {self._position};"
                    f" have the settings or the input changed since?"
                )
        if again < len(data):
            self._file.seek(self._position + again)
            view = memoryview(data)[again:]
            try:
                while view:
                    view = view[self._file.write(view) :]
            except OSError as problem:
                raise self._unwritable(problem) from None
        self._position += len(data)
        self._standing = max(self._standing, self._position)

    def sync(self) -> int:
        try:
            os.fsync(self._file.fileno())
        except OSError as problem:
            raise self._unwritable(problem) from None
        return self._position

    def _unwritable(self, problem: OSError) -> FlowError:
        return FlowError(f"{self._path} cannot be written: {problem.strerror}")

    def close(self) -> None:
        self._file.close()


def whole_size(topic: DirectoryTopic, partition: int) -> int:
    """Up to the end of the last whole line; 0 if there is no file."""
    path = partition_path(topic, partition)
    if not path.exists():
        return 0
    with _open(path) as file:
        return _end_of_lines(file)


def cut_torn_line(file: IO[bytes]) -> int:
    """A writer that was killed may have left half a line, which no reader has taken for a record; what is left."""
    end = _end_of_lines(file)
    if end < os.fstat(file.fileno()).st_size:
        file.truncate(end)
    return end


def _end_of_lines(file: IO[bytes]) -> int:
    end = os.fstat(file.fileno()).st_size
    while end > 0:
        start = max(end - CHUNK, 0)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
