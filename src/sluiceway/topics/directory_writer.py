"""Appending one lane's records to its partition file in each directory topic.

One flow writes a directory topic; what it wrote after its last commit stays, and is compared with what it writes again
after a crash.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sluiceway.errors import FlowError
from sluiceway.schemas import encode
from sluiceway.schemas.lane import LaneOutput, OutRecord, OutRecords
from sluiceway.topics.directory import cut_torn_line, partition_count, partition_path, whole_size
from sluiceway.topics.state_records import CommitRecord
from sluiceway.topics.url import DirectoryTopic


class DirectoryWriter:
    """All directory topics of one lane.

    A commit says how much of each is written. One that the last commit does not know begins where it ends now, if the
    flow has run before; a new flow begins with empty directories.
    """

    def __init__(
        self, lane: int, topics: Mapping[str, DirectoryTopic], commit: CommitRecord | None, *, look: bool = False
    ) -> None:
        """`look`: only to be refused where a writer would be; nothing is made or changed."""
        known = {} if commit is None else commit.sizes
        if commit is None:
            for topic in topics.values():
                if whole_size(topic, lane):
                    raise FlowError(
                        f"{topic} already holds output, but the flow's store is new: write to another directory, or, if"
                        f" the output is this flow's own and its store was lost, remove it and let the flow begin anew"
                    )
        self.is_new = any(topic.identity not in known for topic in topics.values())
        """Whether there are topics that the last commit does not know."""
        self._sizes = dict(known)
        self._files: dict[str, _PartitionFile] = {}
        self._topics = topics
        try:
            for carries, topic in topics.items():
                position = known.get(topic.identity, whole_size(topic, lane))
                path = partition_path(topic, lane)
                if look and partition_count(topic) is None:  # it would be made
                    _refuse_cut(path, 0, position)
                else:
                    self._files[carries] = _PartitionFile(path, position, look=look)
        except BaseException:
            self.close()
            raise

    def write(self, output: LaneOutput) -> None:
        for carries, file in self._files.items():
            records: Sequence[OutRecord] = getattr(output, carries)
            if carries == "selections":
                records = output.selections + output.finals
            if isinstance(records, OutRecords):
                file.append(b"\n".join([*records.values, b""]))
            elif records:
                line = encode.dead_letter_line if carries == "dead_letters" else _value
                file.append(b"".join(line(record) + b"\n" for record in records))

    def sync(self) -> dict[str, int]:
        """Make durable what was written; how much that is, by topic, with those that the flow no longer writes."""
        self._sizes |= {self._topics[carries].identity: file.sync() for carries, file in self._files.items()}
        return dict(self._sizes)

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _value(record: OutRecord) -> bytes:
    assert record.value is not None  # snapshots and predictions always have one
    return record.value


def _refuse_cut(path: Path, size: int, position: int) -> None:
    if size < position:
        raise FlowError(
            f"{path} has {size} bytes, but the last commit says that {position} were written;"
            f" restore it, or `sluiceway reset` and other output topics"
        )


class _PartitionFile:
    """An append-only file with one writer; what already stands after `position` must come again as it is."""

    def __init__(self, path: Path, position: int, *, look: bool = False) -> None:
        self._path = path
        self._standing = position
        try:
            self._file = path.open("r+b", buffering=0)
        except OSError as problem:
            raise FlowError(f"{path} cannot be written: {problem.strerror}") from None
        self._position = position
        try:
            self._take(look)
        except FlowError:
            self._file.close()
            raise

    def _take(self, look: bool) -> None:
        """Be the only writer, from the last whole line on."""
        path, position = self._path, self._position
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FlowError(f"{path} is being written by another process; a directory topic has one writer") from None
        _refuse_cut(path, os.fstat(self._file.fileno()).st_size, position)
        if not look:
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
