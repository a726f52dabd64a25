"""The recorded records that a backtest replays: from where to where in each partition, resolved once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from sluiceway import files
from sluiceway.errors import SettingsError, UnreachableError
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.settings import InputSection, Settings
from sluiceway.topics import kafka, recorded
from sluiceway.topics.append import DirectoryAppender
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory import create_directory_topic, partition_count, partition_path, whole_size
from sluiceway.topics.reader import resolve_bounds
from sluiceway.topics.recorded import refuse_missing
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic


@dataclass(frozen=True, slots=True)
class Window:
    """What is read. Nothing of the live flow is touched: no group, no topic, no state."""

    source: Topic
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    around: Surroundings

    @property
    def lanes(self) -> int:
        return len(self.starts)

    @property
    def size(self) -> int:
        """In offsets: bytes in directories, records (and marks of transactions) on Kafka."""
        return sum(stop - start for start, stop in zip(self.starts, self.stops, strict=True))

    def bounds(self) -> Bounds:
        return Bounds(self.starts, self.stops, "backtest")

    def to_json(self) -> dict[str, Any]:
        return {"topic": str(self.source), "from": list(self.starts), "to": list(self.stops)}


def resolve(
    settings: Settings,
    start: str | None,
    stop: str | None,
    source: Topic | None = None,
    begin_at: tuple[int, ...] | None = None,
    *,
    whole: bool = False,
) -> Window:
    """The window as of now. One that is empty, or lies before what is kept, is a `SettingsError`.

    `begin_at` says where each partition begins, whatever `start` and the flow say. `whole`: the flow's own
    `input.start` and `input.stop` are about another topic.
    """
    given = InputSection() if whole else settings.input
    source = source or settings.source
    begin, end = start or given.start, stop or given.stop or "end"
    around = surroundings(settings, source)
    bounds = recorded.window(source, settings.kafka, around.lanes, begin, end)
    stops, begins = tuple(at or 0 for at in bounds.stops), begin_at or bounds.starts
    named = f"from {begin if begin_at is None else 'where the models stand'} to {end}"
    if all(first >= last for first, last in zip(begins, stops, strict=True)):
        what = "lies backwards" if any(map(int.__gt__, begins, stops)) else "is empty"
        hint = "; the flow's input.start says so: give --from" if start is None and begin == "end" else ""
        raise SettingsError(f"the window {named} of {source} {what}: there is nothing to replay{hint}")
    starts = tuple(map(min, begins, stops))
    refuse_missing(source, settings.kafka, starts, stops)
    return Window(source, starts, stops, around)


def part_of(settings: Settings, partition: int, start: int, stop: int) -> Window:
    """Some records of one partition alone; a `SettingsError` if they are not all there."""
    source, around = settings.source, surroundings(settings, settings.source)
    end = resolve_bounds(source, settings.kafka, around.lanes, "beginning", "end").stops[partition] or 0
    if stop > end:
        raise SettingsError(f"offset {stop:,} of partition {partition} lies beyond the end of {source}, {end:,}")
    if start >= stop:
        raise SettingsError(f"there is nothing to replay from {start:,} to {stop:,} of partition {partition}")
    starts, stops = ([at if lane == partition else 0 for lane in range(around.lanes)] for at in (start, stop))
    refuse_missing(source, settings.kafka, tuple(starts), tuple(stops))
    return Window(source, tuple(starts), tuple(stops), around)


def surroundings(settings: Settings, source: Topic) -> Surroundings:
    if isinstance(source, DirectoryTopic):
        partitions = partition_count(source)
        if partitions is None:
            raise SettingsError(f"there is no topic {source}: {source.path / '_topic.json'} does not exist")
        return Surroundings(partitions, "", _outputs(settings), None)
    info = kafka.describe_topics(source.bootstrap, settings.kafka, [source.name])[source.name]
    if info is None:
        raise SettingsError(f"the topic {source} does not exist")
    return Surroundings(info.partitions, info.topic_id, _outputs(settings), None)


def _outputs(settings: Settings) -> dict[str, kafka.TopicInfo]:
    """How large a snapshot may be there, so that it comes out as it does live; if nobody answers, of any size."""
    topic = settings.outputs["selections"]
    if not isinstance(topic, KafkaTopic):
        return {}
    try:
        info = kafka.describe_topics(topic.bootstrap, settings.kafka, [topic.name])[topic.name]
    except UnreachableError:
        return {}
    return {} if info is None else {"selections": info}


# -- a file instead of a topic ----------------------------------------------------------------------------------------


def topic_of_file(
    path: Path, columns: files.Columns, topic: DirectoryTopic, step: Callable[[], None] = lambda: None
) -> Topic:
    """A file's rows as a topic of one partition, made once: a backtest that goes on finds it."""
    made = topic.path / "_topic.json"
    if made.exists():
        return topic
    fresh = DirectoryTopic(topic.path.with_name(topic.path.name + ".new"))
    create_directory_topic(fresh, 1)
    partition_path(fresh, 0).write_bytes(b"")
    lines = files.Lines(str(path))
    appender = DirectoryAppender(fresh, 1)
    try:
        for row in files.read_rows(lines, files.format_of(str(path)), columns):
            named = row.record if row.stream is None else {"stream": row.stream, **row.record}
            appender.append(0, [orjson.dumps(named)])
            step()
    finally:
        lines.close()
        appender.close()
    if not whole_size(fresh, 0):
        raise SettingsError(f"{path} holds no records")
    fresh.path.rename(topic.path)
    return topic


def reading_of(settings: Settings, source: Topic) -> Settings:
    """The settings as if the flow read `source`, which decides how streams are named."""
    if source == settings.source:
        return settings
    topics = settings.topics.model_copy(update={settings.source_role: str(source)})
    return settings.model_copy(update={"topics": topics})

