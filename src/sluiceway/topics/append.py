"""Adding records to a directory topic from outside a flow."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from types import TracebackType
from typing import BinaryIO, Self

from sluiceway.errors import FlowError
from sluiceway.topics.directory import cut_torn_line, partition_path
from sluiceway.topics.url import DirectoryTopic


class DirectoryAppender:
    """Appends lines to the partitions of a directory topic; its only writer as long as it is open."""

    def __init__(self, topic: DirectoryTopic, partitions: int) -> None:
        self._files: list[BinaryIO] = []
        try:
            for partition in range(partitions):
                self._files.append(self._open(topic, partition))
        except BaseException:
            self.close()
            raise

    def _open(self, topic: DirectoryTopic, partition: int) -> BinaryIO:
        path = partition_path(topic, partition)
        try:
            file = path.open("a+b")
        except OSError as problem:
            raise FlowError(f"{path} cannot be written: {problem.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise FlowError(f"{path} is being written by another process; a directory topic has one writer") from None
        cut_torn_line(file)
        return file

    def append(self, partition: int, lines: Iterable[bytes]) -> None:
        """Lines without their ends; readers see them after the next `flush`, or before."""
        self._files[partition].write(b"".join(line + b"\n" for line in lines))

    def size(self, partition: int) -> int:
        """In bytes, with what was appended."""
        return self._files[partition].seek(0, os.SEEK_END)

    def flush(self) -> None:
        for file in self._files:
            file.flush()

    def close(self) -> None:
        """What was appended survives this process, and after a sync the machine."""
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        self._files.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
