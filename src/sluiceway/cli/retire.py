"""`sluiceway retire`: a stream's selection leaves the selections topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Json, KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from sluiceway.topics.kafka import Config
    from sluiceway.topics.url import KafkaTopic


def retire(
    name: Annotated[
        str, typer.Argument(help="Whose selection; without a stream, all of the flow's.", metavar="FLOW[/STREAM]")
    ],
    url: Annotated[str, typer.Argument(help="The selections topic, kafka://host:9092/name.", metavar="URL")],
    as_json: Json = False,
    kafka: KafkaSettings = None,
) -> None:
    """Write the tombstone of a stream that is over, or those of all streams of a flow.

    Compaction then removes the snapshots for good.

    Snapshots lie in the partition of the stream's input, so the topic is read
    to find it. A flow that still runs and sees the stream again brings it back.

    \b
    sluiceway retire spam/mail kafka://localhost:9092/selections
    sluiceway retire spam kafka://localhost:9092/selections
    """
    import json

    from sluiceway.cli.log import say
    from sluiceway.cli.screen import counted
    from sluiceway.errors import SettingsError
    from sluiceway.topics.tombstones import bury
    from sluiceway.topics.url import DirectoryTopic, parse_topic

    flow, slash, stream = name.partition("/")
    if not flow or (slash and not stream):
        raise SettingsError(f"{name!r} is no FLOW or FLOW/STREAM, as for example spam/mail")
    topic = parse_topic(url)
    if isinstance(topic, DirectoryTopic):
        raise SettingsError(
            f"{topic} is a directory, which keeps every snapshot and is never compacted: there is nothing to retire;"
            f" start the flow anew in another directory to be rid of a stream"
        )
    settings = kafka_settings(kafka)
    found = _find(topic, settings, name)
    graves = [(key, partition) for key, homes in sorted(found.items()) for partition in homes]
    bury(topic, settings, graves)
    homes = sorted({partition for _, partition in graves})
    if as_json:
        print(json.dumps({"topic": str(topic), "key": name, "streams": len(found), "partitions": homes}))
    else:
        where = f"partition{'' if len(homes) == 1 else 's'} {', '.join(map(str, homes))}"
        streams = "" if stream else f"{counted(len(found), 'stream')}, "
        say(f"{name}: retired from {topic} ({streams}{counted(len(graves), 'tombstone')}, {where})")


def _find(topic: KafkaTopic, settings: Config, name: str) -> dict[str, list[int]]:
    """Of the stream, or of all streams of the flow: the partitions where the newest record is a snapshot."""
    from difflib import get_close_matches

    from sluiceway.cli.screen import working
    from sluiceway.errors import SettingsError
    from sluiceway.topics.tombstones import living

    with working(f"reading {topic.name}"):
        alive = living(topic, settings)
    whole = "/" not in name  # a stream's name may have one, too: spam/mail is not spam/mail/eu
    found = {key: homes for key, homes in alive.items() if key == name or (whole and key.startswith(f"{name}/"))}
    if not found:
        names = alive if "/" in name else {key.partition("/")[0]: None for key in alive}
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it holds {_names(list(alive))}"
        raise SettingsError(f"{topic} holds no snapshot of {name!r}; {hint}")
    return found


def _names(names: list[str]) -> str:
    if not names:
        return "none at all"
    return ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
