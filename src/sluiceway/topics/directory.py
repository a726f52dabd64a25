"""Directory topics: a folder of append-only JSON-lines files, one a partition; `_topic.json` pins their number.

A record is a complete line; what stands after the last end of line is not there yet.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, BinaryIO

import orjson

from sluiceway.errors import FlowError, SettingsError
from sluiceway.topics.url import DirectoryTopic

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
        file = next(path for path in (topic.path, *topic.path.parents) if path.exists())
        what = "is a file" if file == topic.path else f"cannot lie below {file}, which is a file"
        raise SettingsError(f"the topic {topic} {what}: a topic is a directory of files, one a partition") from None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise FlowError(f"{topic.path / '_topic.json'} does not pin the number of partitions: {problem}") from None


def open_partition(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as problem:
        raise FlowError(f"{path} cannot be read: {problem.strerror}") from None


def whole_size(topic: DirectoryTopic, partition: int) -> int:
    """Up to the end of the last whole line; 0 if there is no file."""
    path = partition_path(topic, partition)
    if not path.exists():
        return 0
    with open_partition(path) as file:
        return end_of_lines(file)


def cut_torn_line(file: IO[bytes]) -> int:
    """A writer that was killed may have left half a line, which no reader has taken for a record; what is left."""
    end = end_of_lines(file)
    if end < os.fstat(file.fileno()).st_size:
        file.truncate(end)
    return end


def end_of_lines(file: IO[bytes]) -> int:
    """Of the last whole one."""
    end = os.fstat(file.fileno()).st_size
    while end > 0:
        start = max(end - CHUNK, 0)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
