"""A window of a topic as a directory topic: for fixtures, and for trying things without a broker.

A directory names a record's stream in the record; a key is put there. Otherwise a record's bytes stay as they are, if
they are a JSON object on one line; what is no JSON object (also an empty record) is left out and counted.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from sluiceway.errors import SettingsError
from sluiceway.schemas.lane import RawPoll
from sluiceway.topics import kafka, recorded
from sluiceway.topics.append import DirectoryAppender
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory import create_directory_topic, partition_count
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic

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
    target: DirectoryTopic,
    config: kafka.Config,
    captured: Captured,
    *,
    rate: float | None = None,
    tell: Callable[[int], None] = lambda done: None,
) -> None:
    """Copy the window, partition by partition, into a directory that does not exist yet, and does once it is whole."""
    if target.path.exists() and (not target.path.is_dir() or any(target.path.iterdir())):
        raise SettingsError(f"{target.path} exists already: a capture goes into a directory of its own")
    fresh = DirectoryTopic(target.path.with_name(f"{target.path.name}.new"))
    shutil.rmtree(fresh.path, ignore_errors=True)  # of one that was interrupted
    create_directory_topic(fresh, captured.partitions)
    try:
        _copy(source, fresh, config, captured, rate, tell)
    except BaseException:  # also Ctrl-C: half a window is none
        shutil.rmtree(fresh.path, ignore_errors=True)
        raise
    if target.path.exists():
        target.path.rmdir()
    fresh.path.rename(target.path)


def _copy(
    source: Topic,
    fresh: DirectoryTopic,
    config: kafka.Config,
    captured: Captured,
    rate: float | None,
    tell: Callable[[int], None],
) -> None:
    done = 0
    with DirectoryAppender(fresh, captured.partitions) as appender:
        pace = _Pace(rate)
        for partition, (start, stop) in enumerate(zip(captured.starts, captured.stops, strict=True)):
            if start == stop:
                continue
            for poll in recorded.read(source, config, partition, start, stop):
                lines = [line for line in _lines(poll) if line is not None]
                appender.append(partition, pace.held(lines))
                captured.records += len(lines)
                captured.left_out += len(poll.values) - len(lines)
                done += poll.stop - poll.start
                tell(done)


def _lines(poll: RawPoll) -> Iterator[bytes | None]:
    for row, (key, value) in enumerate(zip(poll.keys, poll.values, strict=True)):
        yield None if value is None or row in poll.arrow else line_of(key, value)


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

    def held(self, lines: list[bytes]) -> Iterator[bytes]:
        rate = self._rate
        if rate is None:
            yield from lines
            return
        for line in lines:
            ahead = self._began + self._sent / rate - time.monotonic()
            if ahead > AT_ONCE:
                time.sleep(ahead)
            self._sent += 1
            yield line
