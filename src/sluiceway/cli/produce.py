"""`sluiceway produce`: a file into a topic."""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import typer

from sluiceway.cli.options import Json, KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError, Message

    from sluiceway.files import Lines, Row
    from sluiceway.topics.kafka import Config
    from sluiceway.topics.url import DirectoryTopic, KafkaTopic

FLUSH_SECONDS = 0.2


def produce(
    file: Annotated[
        str, typer.Argument(help="JSON lines, CSV or svmlight, also .gz; - is standard input.", metavar="FILE")
    ],
    url: Annotated[
        str, typer.Argument(help="The topic, kafka://host:9092/name or dir:path.", metavar="URL")
    ],
    format_: Annotated[
        Literal["jsonl", "csv", "svmlight", "parquet"] | None,
        typer.Option("--format", help="Told by the file's name if left out.", show_default=False),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column that names the stream (stream, if there).", metavar="COLUMN")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of the label (y, if there).", metavar="COLUMN")
    ] = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="Column of the id (id, if there).", metavar="COLUMN")
    ] = None,
    ts: Annotated[
        str | None,
        typer.Option(help="Column of the time, milliseconds or ISO-8601 (ts, if there).", metavar="COLUMN"),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Column to leave out. May be repeated.", metavar="COLUMN", show_default=False),
    ] = None,
    text_labels: Annotated[
        bool, typer.Option("--text-labels", help="Send labels as text, also 1, -1, 0, true and false.")
    ] = False,
    as_is: Annotated[
        bool,
        typer.Option("--as-is", help="Send rows with all their members as they are, for a flow that has [input.map]."),
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(help="Create the topic with so many if it is missing (a directory: 1).", metavar="N"),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="At most so many records a second.", metavar="N")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait at the file's end for more; Ctrl-C ends it.")] = False,
    as_json: Json = False,
    kafka: KafkaSettings = None,
) -> None:
    """Write the records of FILE to a topic of instances, or of features.

    JSON lines are records ({"id": ..., "ts": ..., "x": {...}, "y": ...}) or
    flat rows, or targets and columns ({"target": [...]}, {"name": ...,
    "values": [...]}) for a flow that reads a topic of features. The columns of
    a table are features, but for stream, id, ts and y and what the options
    name. An empty cell is an absent feature. Records of one stream go to one
    partition, the one that Java's clients choose for it.

    \b
    sluiceway produce mails.jsonl kafka://localhost:9092/instances
    sluiceway produce visits.csv dir:./visits --key user --label bought
    sluiceway produce events.jsonl dir:./events --as-is
    ./mails-as-json | sluiceway produce - kafka://localhost:9092/instances
    """
    from itertools import chain

    from sluiceway.cli.log import say
    from sluiceway.cli.screen import counted
    from sluiceway.errors import SettingsError
    from sluiceway.files import Columns, Lines, format_of, read_rows
    from sluiceway.topics.url import KafkaTopic, parse_topic

    if rate is not None and not 0 < rate < 1e9:
        raise SettingsError(f"--rate must lie above 0 and below a billion, not {rate:g}")
    if partitions is not None and not 1 <= partitions <= 100_000:
        raise SettingsError(f"--partitions must lie between 1 and 100000, not {partitions}")
    topic = parse_topic(url)
    chosen = format_ or format_of(file)
    columns = Columns(key, id_, ts, label, tuple(drop or ()), text_labels, as_is)
    with ExitStack() as open_:
        lines = Lines(file, follow=follow)
        open_.callback(lines.close)
        rows = read_rows(lines, chosen, columns)
        first = next(rows, None)  # a file that cannot be read at all must not make a topic
        sink: _Sink = (
            _KafkaSink(topic, kafka_settings(kafka), partitions)
            if isinstance(topic, KafkaTopic)
            else _DirectorySink(topic, partitions)
        )
        open_.callback(sink.close)
        lines.idle = sink.flush
        sending = _Sending(sink, rate)
        tick = open_.enter_context(_Display(lines, sending))
        interrupted = False
        try:
            for row in chain([first] if first else [], rows):
                sending.send(row)
                tick()
        except KeyboardInterrupt:
            interrupted = True
        except SettingsError as problem:
            raise SettingsError(f"{problem} (what stands before it was sent: {sending.sent:,} records)") from None
    if as_json:
        print(json.dumps({"topic": str(topic), "partitions": sink.partitions, "records": sending.sent}))
    else:
        say(f"{counted(sending.sent, 'record')} to {topic} ({counted(sink.partitions, 'partition')})")
    if interrupted and not follow:
        raise typer.Exit(130)


class _Sending:
    """Counts, and holds the rate."""

    def __init__(self, sink: _Sink, rate: float | None) -> None:
        self.sent = 0
        self._sink = sink
        self._rate = rate
        self._began = time.monotonic()
        self._flushed = self._began

    def send(self, row: Row) -> None:
        if self._rate is not None:
            self._wait(self._began + self.sent / self._rate)
        self._sink.send(row)
        self.sent += 1
        if self.sent % 1000 == 0 and time.monotonic() - self._flushed > FLUSH_SECONDS:
            self._sink.flush()
            self._flushed = time.monotonic()

    def _wait(self, due: float) -> None:
        ahead = due - time.monotonic()
        if ahead > 0.01:  # not before it is worth a sleep: a high rate goes in small bursts
            self._sink.flush()
            time.sleep(ahead)


class _Display:
    """A bar over the file, or a count where it has no known end; on a terminal only."""

    def __init__(self, lines: Lines, sending: _Sending) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from sluiceway.cli.screen import console, may_draw

        self._lines = lines
        self._sending = sending
        screen = console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(30),
            TextColumn("{task.fields[records]:,} records"),
            TimeElapsedColumn(),
            console=screen,
            transient=True,
            disable=not may_draw(screen),
        )
        self._task = self._bar.add_task("input" if lines.name == "-" else lines.name, total=lines.size, records=0)
        self._next = 0.0

    def __enter__(self) -> Callable[[], None]:
        self._bar.start()
        return self._tick

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def _tick(self) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + 0.1
            self._bar.update(self._task, completed=self._lines.position, records=self._sending.sent)


class _Sink(Protocol):
    partitions: int

    def send(self, row: Row) -> None: ...

    def flush(self) -> None:
        """Hand over what waits; returns at once."""

    def close(self) -> None:
        """Wait until everything is where it belongs."""


class _DirectorySink:
    def __init__(self, topic: DirectoryTopic, partitions: int | None) -> None:
        import orjson

        from sluiceway.errors import SettingsError
        from sluiceway.topics.append import DirectoryAppender
        from sluiceway.topics.directory import create_directory_topic, partition_count
        from sluiceway.topics.partitioner import partition_of

        found = partition_count(topic)
        if found is None:
            try:
                create_directory_topic(topic, partitions or 1)
            except OSError as problem:
                raise SettingsError(f"{topic} cannot be made: {problem.strerror}") from None
            found = partitions or 1
        _refuse_other_number(str(topic), found, partitions)
        self.partitions = found
        self._appender = DirectoryAppender(topic, found)
        self._dumps = orjson.dumps
        self._partition_of = partition_of
        self._next = 0

    def send(self, row: Row) -> None:
        record: dict[str, Any] = row.record
        if row.stream is None:
            partition, self._next = self._next, (self._next + 1) % self.partitions
        else:
            partition = self._partition_of(row.stream.encode(), self.partitions)
            record = {"stream": row.stream, **record}
        self._appender.append(partition, [self._dumps(record)])

    def flush(self) -> None:
        self._appender.flush()

    def close(self) -> None:
        self._appender.close()


class _KafkaSink:
    def __init__(self, topic: KafkaTopic, settings: Config, partitions: int | None) -> None:
        from confluent_kafka.admin import NewTopic

        from sluiceway.errors import SettingsError
        from sluiceway.topics import kafka

        info = kafka.describe_topics(topic.bootstrap, settings, [topic.name])[topic.name]
        if info is None and partitions is None:
            raise SettingsError(
                f"topic {topic.name!r} does not exist on {topic.bootstrap}; create it, or let --partitions N do it"
            )
        if info is None:
            kafka.create_topics(topic.bootstrap, settings, [NewTopic(topic.name, num_partitions=partitions or 1)])
        else:
            _refuse_other_number(str(topic), info.partitions, partitions)
        self.partitions = partitions or 1 if info is None else info.partitions
        self._topic = topic
        self._failure: KafkaError | None = None
        config = kafka.client_config(
            topic.bootstrap,
            {"linger.ms": 20, "compression.type": "lz4", **settings},
            enable_idempotence=True,
            acks="all",
            partitioner="murmur2_random",
            delivery_report_only_error=True,
        )
        self._producer = kafka.new_producer({**config, "on_delivery": self._note})

    def _note(self, error: KafkaError | None, message: Message) -> None:
        self._failure = self._failure or error

    def send(self, row: Row) -> None:
        import orjson
        from confluent_kafka import KafkaException

        from sluiceway.errors import FlowError
        from sluiceway.topics.kafka import sentence

        value = orjson.dumps(row.record)
        while True:
            try:
                self._producer.produce(self._topic.name, value, row.stream)
                break
            except BufferError:
                self._producer.poll(0.1)
                self._check()
            except KafkaException as problem:
                raise FlowError(f"a record of {len(value)} bytes is refused: {sentence(problem)}") from None

    def flush(self) -> None:
        self._producer.poll(0)
        self._check()

    def close(self) -> None:
        from sluiceway.errors import FlowError
        from sluiceway.topics.kafka import SEND_SECONDS

        left = self._producer.flush(SEND_SECONDS)
        self._check()
        if left and sys.exc_info()[0] is None:
            raise FlowError(f"{self._topic}: {left:,} records were not taken within {SEND_SECONDS:.0f} s")

    def _check(self) -> None:
        from sluiceway.errors import FlowError
        from sluiceway.topics.kafka import sentence

        if self._failure is not None:
            raise FlowError(f"{self._topic}: a record was not delivered: {sentence(self._failure)}")


def _refuse_other_number(topic: str, found: int, wanted: int | None) -> None:
    from sluiceway.errors import SettingsError
    from sluiceway.wording import counted

    if wanted is not None and wanted != found:
        raise SettingsError(f"{topic} has {counted(found, 'partition')} already, not {wanted}; leave --partitions out")
