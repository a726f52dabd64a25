"""Recorded input: a window of a topic that is all there, read once and left as it is."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import closing

from sluiceway.errors import FlowError, SettingsError
from sluiceway.schemas.lane import RawPoll
from sluiceway.topics import kafka
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory import open_partition, partition_path
from sluiceway.topics.directory_reader import DirectoryReader
from sluiceway.topics.kafka_reader import first_offset
from sluiceway.topics.positions import parse_position
from sluiceway.topics.reader import PartitionReader, open_reader, resolve_bounds
from sluiceway.topics.url import KafkaTopic, Topic

PATIENCE_SECONDS = 60.0
"""Recorded input that gives nothing for so long is not going to."""
PAUSE_SECONDS = 0.005
CHUNK = 4 << 20
"""Of a file, at a time: with many variants a poll is gone through many times, and there is nobody who waits for it."""


def window(topic: Topic, config: kafka.Config, partitions: int, start: str, stop: str) -> Bounds:
    """From where to where each partition is read, as of now; a `SettingsError` if `stop` is not there yet."""
    bounds = resolve_bounds(topic, config, partitions, start, stop)
    if parse_position(stop).kind == "offset":
        ends = resolve_bounds(topic, config, partitions, "beginning", "end").stops
        for partition, (wanted, end) in enumerate(zip(bounds.stops, ends, strict=True)):
            if (wanted or 0) > (end or 0):
                raise SettingsError(
                    f"the window ends at offset {wanted:,}, which lies beyond the end of partition {partition} of"
                    f" {topic}, {end:,}: without an end it goes to the end of each partition"
                )
    return bounds


def refuse_missing(topic: Topic, config: kafka.Config, starts: tuple[int, ...], stops: tuple[int, ...]) -> None:
    """Of a window with records the broker has deleted, or one that begins within a line: a `SettingsError`."""
    for partition, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        if start >= stop:
            continue
        if isinstance(topic, KafkaTopic):
            low = first_offset(topic, config, partition)
            if start < low:
                raise SettingsError(
                    f"the window begins at offset {start} of partition {partition} of topic {topic.name!r}, but the"
                    f" broker holds records from {low} on: begin there, or at `beginning`"
                )
        elif start:
            with open_partition(partition_path(topic, partition)) as file:
                file.seek(start - 1)
                if file.tell() < os.fstat(file.fileno()).st_size and file.read(1) != b"\n":
                    raise SettingsError(
                        f"byte {start:,} of partition {partition} of {topic} is not where a line begins: give the"
                        f" offset of a record, -N for the last N, or a time"
                    )


def read(topic: Topic, config: kafka.Config, partition: int, start: int, stop: int) -> Generator[RawPoll, None, None]:
    """All polls; a `SettingsError` if the broker deletes records before they are read."""
    at = start
    try:
        with closing(_open(topic, config, partition, start, stop)) as reader:
            quiet = time.monotonic()
            while True:
                poll = reader.poll()
                if poll is None:
                    if time.monotonic() - quiet > PATIENCE_SECONDS:
                        raise FlowError(f"the recorded window gives nothing any more at {at:,}, before its end")
                    time.sleep(PAUSE_SECONDS)
                    continue
                quiet, at, end = time.monotonic(), poll.stop, poll.end
                yield poll
                if end:
                    return
    except FlowError:
        if isinstance(topic, KafkaTopic) and (low := first_offset(topic, config, partition)) > at:
            raise SettingsError(
                f"topic {topic.name!r}, partition {partition}: the broker has deleted the records from offset {at} to"
                f" {low} before they were read; begin anew with a window of what it holds"
            ) from None
        raise


def _open(topic: Topic, config: kafka.Config, partition: int, start: int, stop: int) -> PartitionReader:
    if isinstance(topic, KafkaTopic):
        return open_reader(topic, config, partition, start, stop)
    return DirectoryReader(topic, partition, start, stop, CHUNK)
