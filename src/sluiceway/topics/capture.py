"""A window of a topic as a directory topic or a Parquet file: for fixtures, and for trying things without a broker.

A directory names a record's stream in the record; a key is put there. Otherwise a record's bytes stay as they are, if
they are a JSON object on one line; what is no JSON object (also an empty record) is left out and counted, and in a
file whatever no flow takes for an instance or a later label.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson

from sluiceway.errors import SettingsError
from sluiceway.schemas.lane import RawPoll
from sluiceway.topics import kafka, recorded
from sluiceway.topics.append import DirectoryAppender
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory import create_directory_topic, partition_count
from sluiceway.topics.parquet import Kinds, ParquetFile, instance_of
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic

Item = TypeVar("Item")
AT_ONCE = 0.1
"""Seconds' worth of records that are copied between two pauses, where there is a rate."""


@dataclass(slots=True)
class Captured:
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    records: int = 0
    left_out: int = 0

    @property
    def partitions(self) -> int:
        return len(self.starts)

    @property
    def size(self) -> int:
        """In offsets, or bytes."""
        return sum(stop - start for start, stop in zip(self.starts, self.stops, strict=True))


def look(source: Topic, config: kafka.Config, start: str, stop: str) -> Captured:
    """What would be copied, as of now."""
    partitions = _partitions(source, config)
    bounds: Bounds = recorded.window(source, config, partitions, start, stop)
    stops = tuple(at or 0 for at in bounds.stops)
    if all(first >= last for first, last in zip(bounds.starts, stops, strict=True)):
        what = "lies backwards" if any(map(int.__gt__, bounds.starts, stops)) else "is empty"
        raise SettingsError(f"the window from {start} to {stop} of {source} {what}: there is nothing to copy")
    starts = tuple(map(min, bounds.starts, stops))
    recorded.refuse_missing(source, config, starts, stops)
    return Captured(starts, stops)


def _partitions(source: Topic, config: kafka.Config) -> int:
    if isinstance(source, KafkaTopic):
        info = kafka.describe_topics(source.bootstrap, config, [source.name])[source.name]
        found = None if info is None else info.partitions
    else:
        found = partition_count(source)
    if found is None:
        raise SettingsError(f"the topic {source} does not exist")
    return found


def capture(
    source: Topic,
    target: DirectoryTopic | Path,
    config: kafka.Config,
    captured: Captured,
    *,
    rate: float | None = None,
    tell: Callable[[int], None] = lambda done: None,
) -> None:
    """Copy the window, partition by partition, to a place where nothing is yet; it is there once it is whole.

    A path is a Parquet file.
    """
    copy = _Copy(source, config, captured, rate, tell)
    if isinstance(target, Path):
        _into_file(copy, target)
    else:
        _into_directory(copy, target)


def _into_directory(copy: _Copy, target: DirectoryTopic) -> None:
    if target.path.exists() and (not target.path.is_dir() or any(target.path.iterdir())):
        raise SettingsError(f"{target.path} exists already: a capture goes into a directory of its own")
    fresh = DirectoryTopic(target.path.with_name(f"{target.path.name}.new"))
    shutil.rmtree(fresh.path, ignore_errors=True)  # of one that was interrupted
    create_directory_topic(fresh, copy.captured.partitions)
    try:
        with DirectoryAppender(fresh, copy.captured.partitions) as appender:
            copy(line_of, appender.append)
    except BaseException:  # also Ctrl-C: half a window is none
        shutil.rmtree(fresh.path, ignore_errors=True)
        raise
    if target.path.exists():
        target.path.rmdir()
    fresh.path.rename(target.path)


def _into_file(copy: _Copy, target: Path) -> None:
    if target.exists():
        raise SettingsError(f"{target} exists already: a capture goes into a file of its own")
    kinds = Kinds()
    for _, row in copy.items(_row_of):
        if row is not None:
            kinds.look(row)
        if kinds.known:
            break
    kinds.refuse_nothing()
    fresh = target.with_name(f"{target.name}.new")
    try:
        with ParquetFile(fresh, kinds) as file:
            copy(_row_of, lambda partition, rows: file.append(rows))
        fresh.rename(target)
    except OSError as problem:
        raise SettingsError(f"{target} cannot be written: {(problem.strerror or str(problem)).lower()}") from None
    finally:  # also after Ctrl-C: half a window is none
        fresh.unlink(missing_ok=True)


def _row_of(key: bytes | None, value: bytes) -> dict[str, Any] | None:
    line = line_of(key, value)
    return None if line is None else instance_of(line)


class _Copy:
    """Goes through the window, counts, and holds the rate."""

    def __init__(
        self, source: Topic, config: kafka.Config, captured: Captured, rate: float | None, tell: Callable[[int], None]
    ) -> None:
        self.captured = captured
        self._source, self._config, self._rate, self._tell = source, config, rate, tell

    def __call__(
        self, made_of: Callable[[bytes | None, bytes], Item | None], append: Callable[[int, Iterator[Item]], None]
    ) -> None:
        """What is made of each record goes where `append` puts it; None is left out."""
        done, pace, captured = 0, _Pace(self._rate), self.captured
        for partition, poll in self._polls():
            items = [item for item in _items(poll, made_of) if item is not None]
            append(partition, pace.held(items))
            captured.records += len(items)
            captured.left_out += len(poll.values) - len(items)
            done += poll.stop - poll.start
            self._tell(done)

    def items(self, made_of: Callable[[bytes | None, bytes], Item | None]) -> Iterator[tuple[int, Item | None]]:
        return ((partition, item) for partition, poll in self._polls() for item in _items(poll, made_of))

    def _polls(self) -> Iterator[tuple[int, RawPoll]]:
        for partition, (start, stop) in enumerate(zip(self.captured.starts, self.captured.stops, strict=True)):
            if start < stop:
                for poll in recorded.read(self._source, self._config, partition, start, stop):
                    yield partition, poll


def _items(poll: RawPoll, made_of: Callable[[bytes | None, bytes], Item | None]) -> Iterator[Item | None]:
    for row, (key, value) in enumerate(zip(poll.keys, poll.values, strict=True)):
        yield None if value is None or row in poll.arrow else made_of(key, value)


def line_of(key: bytes | None, value: bytes) -> bytes | None:
    """A record as a line of a directory; None if it cannot be one.

    >>> line_of(b"mail", b'{"x": {"free": 1}, "y": 1}')
    b'{"stream":"mail","x": {"free": 1}, "y": 1}'
    >>> line_of(b"spam/mail", b'{"flow":"spam","stream":"mail"}')  # a snapshot says it already
    b'{"flow":"spam","stream":"mail"}'
    """
    text = value.strip()
    try:
        content: Any = orjson.loads(text)
        name = None if key is None else key.decode()
    except (orjson.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(content, dict):
        return None
    own = content.get("stream")
    if name is not None and own != name and not (isinstance(own, str) and name.endswith(f"/{own}")):
        if "stream" not in content and content:
            text = b'{"stream":' + orjson.dumps(name) + b"," + text[1:].lstrip()
        else:
            text = orjson.dumps({**content, "stream": name})
    return orjson.dumps(orjson.loads(text)) if b"\n" in text or b"\r" in text else text


class _Pace:
    """Holds a rate, in records a second."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began = time.monotonic()
        self._sent = 0

    def held(self, items: list[Item]) -> Iterator[Item]:
        rate = self._rate
        if rate is None:
            yield from items
            return
        for item in items:
            ahead = self._began + self._sent / rate - time.monotonic()
            if ahead > AT_ONCE:
                time.sleep(ahead)
            self._sent += 1
            yield item
