"""`sluiceway retire`: a stream's selection leaves the selections topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Json, KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from sluiceway.topics.kafka import Config
    from sluiceway.topics.url import KafkaTopic

READ_SECONDS = 60.0


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

    from sluiceway.cli.run import say
    from sluiceway.cli.screen import counted
    from sluiceway.errors import SettingsError
    from sluiceway.topics.url import DirectoryTopic, parse_topic

    flow, slash, stream = name.partition("/")
    if not (flow and slash and stream):
        raise SettingsError(f"{name!r} is no FLOW/STREAM, as for example spam/mail")
    topic = parse_topic(url)
    if isinstance(topic, DirectoryTopic):
        raise SettingsError(
            f"{topic} is a directory, which keeps every snapshot and is never compacted: there is nothing to retire;"
            f" start the flow anew in another directory to be rid of a stream"
        )
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
    import time
    from contextlib import closing
    from difflib import get_close_matches

    from rich.progress import Progress

    from sluiceway.cli.screen import console
    from sluiceway.errors import FlowError, SettingsError
    from sluiceway.topics.feeds import open_feed

    alive: dict[str, set[int]] = {}
    screen = console(stderr=True)
    with (
        closing(open_feed(str(topic), "beginning", "end", settings)) as feed,
        Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar,
    ):
        bar.add_task(f"reading {topic.name}", total=None)
        heard = time.monotonic()
        while not feed.ended:
            entries = feed.poll(0.2)
            for entry in entries:
                homes = alive.setdefault((entry.key or b"").decode(errors="replace"), set())
                homes.discard(entry.partition) if entry.value is None else homes.add(entry.partition)
            if entries:
                heard = time.monotonic()
            elif time.monotonic() - heard > READ_SECONDS:
                raise FlowError(f"{topic} could not be read to its end: nothing came for {READ_SECONDS:.0f} s")
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


def _bury(topic: KafkaTopic, settings: Config, name: str, partitions: list[int]) -> None:
    from confluent_kafka import KafkaError, Message

    from sluiceway.errors import FlowError
    from sluiceway.topics import kafka

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
