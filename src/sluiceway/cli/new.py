"""`sluiceway new`: a flow file, proposed after a look at a topic or a file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli.options import KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from sluiceway.topics.kafka import Config

LOOKED_AT, LOOKED_AT_IN_FILES = 200, 10_000
"""Records."""
_SECONDS = 5.0


def new(
    flow: Annotated[Path, typer.Argument(help="The file to write, or - for standard output.", metavar="FLOW")],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="A topic, kafka://host:9092/name or dir:path, or a file; else it is asked.",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Path of the label; else it is looked for.", metavar="PATH")
    ] = None,
    registry: Annotated[
        str | None, typer.Option(help="The schema registry of the topic's records.", metavar="URL")
    ] = None,
    kafka: KafkaSettings = None,
) -> None:
    """Write FLOW for what a topic or a file of CSV or JSON lines holds.

    Some records are looked at: which member is the label, the id, the time,
    which are features, and how they are to be scaled. What was found is said in
    the file, to be read and changed. Without --from it asks where they are, and
    for all that it cannot see for itself.

    \b
    sluiceway new visits.toml
    sluiceway new visits.toml --from kafka://localhost:9092/visits
    sluiceway new cells.toml --from cells.csv --label diagnosis
    """
    from sluiceway.errors import SettingsError
    from sluiceway.flows.proposal import flow_file, propose, shell
    from sluiceway.operators.registry import parameters

    to_screen = str(flow) == "-"
    if not to_screen and flow.exists():
        raise SettingsError(f"{flow} exists already")
    name = "flow" if to_screen else flow.stem
    asks = from_ is None
    if from_ is None:
        from_ = _ask("Where are the instances? kafka://host:9092/topic, dir:path, or a file of CSV or JSON lines")
    if from_.startswith(("kafka://", "dir:")):
        records, keys = _of_topic(from_, kafka_settings(kafka), registry)
        where, source = from_, None
    else:
        records, keys, where, source = _of_file(Path(from_)), [], f"dir:./{name}-instances", from_
    made = propose(records, label, in_file=source is not None, keys=keys)
    if asks:
        label = label or _ask("Which member is the label?", made.label)
        made = propose(records, label, in_file=source is not None, keys=keys)
        if made.classes is not None:
            named = ", ".join(map(str, made.classes))
            made.negative(_ask(f"Which of {named} comes first, the negative class?", str(made.classes[0])))
        made.operator = _ask("Which operator? (`sluiceway operators` lists them)", made.operator)
        if "k" in parameters(made.operator):
            made.k = _ask("How many features at most?", made.k)
    beside = where.rpartition("/")[0] + "/" if where.startswith("kafka://") else "dir:./"
    topics = {"instances": where}
    for role in ("selections", "predictions", "dead_letters"):
        topics[role] = f"{beside}{name}-{role.replace('_', '-')}"
    text = flow_file(made, name, topics, registry)
    if to_screen:
        sys.stdout.write(text)
    else:
        flow.write_text(text, encoding="utf-8")
    steps = [] if source is None else [shell(made, source, where)]
    file = f"{name}.toml" if to_screen else str(flow)
    steps.append(shlex.join(["sluiceway", "run", file, *(["--create-topics"] if where.startswith("kafka://") else [])]))
    after = f"next, once it is saved as {file}:" if to_screen else "next:"
    print(f"{after}\n  " + "\n  ".join(steps), file=sys.stderr)


def _ask(question: str, default: Any = None) -> Any:
    from sluiceway.errors import SettingsError

    try:
        return typer.prompt(question, default=default, err=True)
    except typer.Abort:
        raise SettingsError(f"nobody answers {question!r}: give --from URL, which asks nothing") from None


def _of_topic(
    url: str, config: Config, registry: str | None
) -> tuple[list[dict[str, Any]], list[bytes | None]]:
    """Some of its records, and their keys."""
    import time

    import orjson

    from sluiceway.errors import SettingsError
    from sluiceway.schemas.refusal import Refused
    from sluiceway.topics import kafka
    from sluiceway.topics.directory import partition_count
    from sluiceway.topics.kafka_reader import first_offset
    from sluiceway.topics.reader import open_reader
    from sluiceway.topics.registry import Registry
    from sluiceway.topics.url import KafkaTopic, parse_topic

    topic = parse_topic(url)
    if isinstance(topic, KafkaTopic):
        found = kafka.describe_topics(topic.bootstrap, config, [topic.name])[topic.name]
        lanes = 0 if found is None else found.partitions
    else:
        lanes = partition_count(topic) or 0
    if not lanes:
        raise SettingsError(f"the topic {topic} does not exist")
    as_json = None if registry is None else Registry({"url": registry}).as_json
    records: list[dict[str, Any]] = []
    keys: list[bytes | None] = []
    deadline = time.monotonic() + _SECONDS
    for lane in range(lanes):
        start = first_offset(topic, config, lane) if isinstance(topic, KafkaTopic) else 0
        reader = open_reader(topic, config, lane, start, None)
        try:
            while len(records) < LOOKED_AT and time.monotonic() < deadline:
                poll = reader.poll()
                if poll is None or not poll.values:
                    if isinstance(topic, KafkaTopic) and (poll is None) and not records:
                        time.sleep(0.05)
                        continue
                    break
                for key, value in zip(poll.keys, poll.values, strict=True):
                    try:
                        record = orjson.loads(as_json(value) if as_json is not None and value else value or b"")
                    except (Refused, orjson.JSONDecodeError):
                        continue
                    if type(record) is dict:
                        records.append(record if isinstance(topic, KafkaTopic) else _without_stream(record))
                        keys.append(key)
        finally:
            reader.close()
    if not records:
        raise SettingsError(f"the topic {topic} holds no records that can be read; of Avro or Protobuf say --registry")
    return records[:LOOKED_AT], keys[:LOOKED_AT] if isinstance(topic, KafkaTopic) else []


def _of_file(path: Path) -> list[dict[str, Any]]:
    """As `sluiceway produce --as-is` would send them."""
    from contextlib import closing
    from itertools import islice

    from sluiceway.errors import SettingsError
    from sluiceway.files import Columns, Lines, format_of, read_rows

    kind = format_of(str(path))
    if kind == "svmlight":
        raise SettingsError(f"{path}: a flow is proposed for tables and JSON lines; svmlight has its labels already")
    with closing(Lines(str(path))) as lines:
        rows = islice(read_rows(lines, kind, Columns(as_is=True)), LOOKED_AT_IN_FILES)
        return [_without_stream(row.record) for row in rows]


def _without_stream(record: dict[str, Any]) -> dict[str, Any]:
    """In a directory that member names the stream."""
    return {name: value for name, value in record.items() if name != "stream"}
