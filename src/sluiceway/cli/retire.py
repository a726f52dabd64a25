"""`sluiceway retire`: a stream's selection leaves the selections topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Json, KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from sluiceway.topics.kafka import Config
    from sluiceway.topics.url import KafkaTopic


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
    from sluiceway.topics.tombstones import bury
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
    bury(topic, settings, [(name, partition) for partition in homes])
    if as_json:
        print(json.dumps({"topic": str(topic), "key": name, "partitions": homes}))
    else:
        where = ", ".join(map(str, homes))
        say(f"{name}: retired from {topic} ({counted(len(homes), 'tombstone')}, partition {where})")


def _find(topic: KafkaTopic, settings: Config, name: str) -> list[int]:
    """The partitions where the stream's newest record is a snapshot."""
    from difflib import get_close_matches

    from sluiceway.cli.screen import working
    from sluiceway.errors import SettingsError
    from sluiceway.topics.tombstones import living

    with working(f"reading {topic.name}"):
        alive = living(topic, settings)
    if name not in alive:
        near = get_close_matches(name, alive, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it holds {_names(list(alive))}"
        raise SettingsError(f"{topic} holds no snapshot of {name!r}; {hint}")
    return alive[name]


def _names(names: list[str]) -> str:
    if not names:
        return "none at all"
    return ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
