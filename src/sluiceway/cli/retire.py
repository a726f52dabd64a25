"""`sluiceway retire`: a stream's selection leaves the selections topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Json, KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from sluiceway.flows.topics.url import KafkaTopic
    from sluiceway.kafka import Config


def retire(
    name: Annotated[str, typer.Argument(help="Whose selection.", metavar="FLOW/STREAM")],
    url: Annotated[str, typer.Argument(help="The selections topic, kafka://host:9092/name.", metavar="URL")],
    as_json: Json = False,
    kafka: KafkaSettings = None,
) -> None:
    """Write the tombstone of a stream that is over, so that compaction removes its snapshots for good.

    Snapshots lie in the partition of the stream's input, so the topic is read
    to find it. A flow that still runs and sees the stream again brings it back.

    \b
    sluiceway retire spam/mail kafka://localhost:9092/selections
    """
    import json

    from sluiceway.cli.run import say, tell_warnings
    from sluiceway.cli.screen import counted
    from sluiceway.errors import SettingsError
    from sluiceway.flows.topics.url import DirectoryTopic, parse_topic

    flow, slash, stream = name.partition("/")
    if not (flow and slash and stream):
        raise SettingsError(f"{name!r} is no FLOW/STREAM, as for example spam/mail")
    topic = parse_topic(url)
    if isinstance(topic, DirectoryTopic):
        raise SettingsError(
            f"{topic} is a directory, which keeps every snapshot and is never compacted: there is nothing to retire;"
            f" start the flow anew in another directory to be rid of a stream"
        )
    tell_warnings()
    settings = kafka_settings(kafka)
    homes = _find(topic, settings, name)
    _bury(topic, settings, name, homes)
    if as_json:
        print(json.dumps({"topic": str(topic), "key": name, "partitions": homes}))
    else:
        where = ", ".join(map(str, homes))
        say(f"{name}: retired from {topic} ({counted(len(homes), 'tombstone')}, partition {where})")


def _find(topic: KafkaTopic, settings: Config, name: str) -> list[int]:
    """The partitions where the stream's newest record is a snapshot."""
    from contextlib import closing
    from difflib import get_close_matches

    from confluent_kafka import OFFSET_BEGINNING, TopicPartition
    from rich.progress import Progress

    from sluiceway import kafka
    from sluiceway.cli.screen import console
    from sluiceway.errors import FlowError, SettingsError
    from sluiceway.flows.inspection import PARTITION_END, reader, some_messages

    info = kafka.describe_topics(topic.bootstrap, settings, [topic.name])[topic.name]
    if info is None:
        raise SettingsError(f"topic {topic.name!r} does not exist on {topic.bootstrap}")
    alive: dict[str, set[int]] = {}
    screen = console(stderr=True)
    with (
        closing(reader(topic, settings)) as consumer,
        Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar,
    ):
        marks = [kafka.watermarks(consumer, topic.name, partition) for partition in range(info.partitions)]
        task = bar.add_task(f"reading {topic.name}", total=sum(high - low for low, high in marks))
        unfinished = {partition for partition, (low, high) in enumerate(marks) if high > low}
        consumer.assign([TopicPartition(topic.name, partition, OFFSET_BEGINNING) for partition in unfinished])
        while unfinished:
            for message in some_messages(consumer, topic.name):
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is None:
                    key = _text(message.key()) or ""
                    homes = alive.setdefault(key, set())
                    homes.discard(partition) if message.value() is None else homes.add(partition)
                    bar.advance(task)
                elif error.code() == PARTITION_END:
                    unfinished.discard(partition)
                elif error.code() not in kafka.PASSING:
                    raise FlowError(f"{topic} cannot be read: {kafka.sentence(error)}")
    if not alive.get(name):
        living = [key for key, homes in alive.items() if homes]
        near = get_close_matches(name, living, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it holds {_names(living)}"
        raise SettingsError(f"{topic} holds no snapshot of {name!r}; {hint}")
    return sorted(alive[name])


def _names(names: list[str]) -> str:
    if not names:
        return "none at all"
    return ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _text(data: bytes | str | None) -> str | None:
    return data.decode(errors="replace") if isinstance(data, bytes) else data


def _bury(topic: KafkaTopic, settings: Config, name: str, partitions: list[int]) -> None:
    from confluent_kafka import KafkaError, Message

    from sluiceway import kafka
    from sluiceway.errors import FlowError

    failures: list[KafkaError] = []

    def note(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    config = kafka.client_config(topic.bootstrap, settings, enable_idempotence=True, acks="all")
    producer = kafka.new_producer(config)
    for partition in partitions:
        producer.produce(topic.name, None, name, partition, on_delivery=note)
    left = producer.flush(kafka.SEND_SECONDS)
    if failures:
        raise FlowError(f"{topic}: the tombstone was not taken: {kafka.sentence(failures[0])}")
    if left:
        raise FlowError(f"{topic}: the broker did not take the tombstone within {kafka.SEND_SECONDS:.0f} s")
