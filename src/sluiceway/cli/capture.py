"""`sluiceway capture`: a window of a topic into a directory, or a Parquet file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sluiceway.cli.options import Json, KafkaSettings, kafka_settings


def capture(
    url: Annotated[str, typer.Argument(help="The topic, kafka://host:9092/name or dir:path.", metavar="URL")],
    place: Annotated[
        Path, typer.Argument(help="A directory, or FILE.parquet, that does not exist yet.", metavar="DIR|FILE")
    ],
    start: Annotated[str, typer.Option("--from", help="Where the window begins.", metavar="POSITION")] = "beginning",
    stop: Annotated[str, typer.Option("--to", help="Where it ends, exclusive.", metavar="POSITION")] = "end",
    rate: Annotated[float | None, typer.Option(help="At most so many records a second.", metavar="N")] = None,
    as_json: Json = False,
    kafka: KafkaSettings = None,
) -> None:
    """Copy what a topic holds into a directory topic, dir:DIR, or a Parquet file.

    The directory has the topic's partitions; a record's key becomes its
    `stream`. Records that are no JSON objects are left out, and counted. The
    topic is read without a consumer group.

    A file whose name ends in .parquet has a row for each instance or later
    label, partition after partition: `backtest --input` and `produce` read it.
    Other records are left out, and counted. It needs pyarrow.

    \b
    sluiceway capture kafka://localhost:9092/mails week --from 2026-11-09 --to 2026-11-16
    sluiceway capture kafka://localhost:9092/mails sample --from -1000 --rate 200
    sluiceway capture kafka://localhost:9092/mails week.parquet
    """
    from sluiceway.cli.backtest import INTERRUPTED, ReplayView
    from sluiceway.cli.log import say
    from sluiceway.cli.screen import counted
    from sluiceway.errors import SettingsError
    from sluiceway.topics.capture import capture as copy
    from sluiceway.topics.capture import look
    from sluiceway.topics.parquet import refuse_without_arrow
    from sluiceway.topics.url import DirectoryTopic, parse_topic

    if rate is not None and not 0 < rate < 1e9:
        raise SettingsError(f"--rate must lie above 0 and below a billion, not {rate:g}")
    source, config, path = parse_topic(url), kafka_settings(kafka), place.absolute()
    into_file = path.suffix.lower() == ".parquet"
    if into_file:
        refuse_without_arrow()
    target = path if into_file else DirectoryTopic(path)
    captured = look(source, config, start, stop)
    try:
        with ReplayView("copying") as view:
            view.begin(captured.size)
            copy(source, target, config, captured, rate=rate, tell=lambda done: view.at(done, captured.records))
    except KeyboardInterrupt:
        say(f"stopped after {counted(captured.records, 'record')}: {place} was not made, what was copied is gone")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print(json.dumps({"file" if into_file else "directory": str(place), **asdict(captured)}))
        return
    why = "which are no instances" if into_file else "which are no JSON objects"
    left = f"; {counted(captured.left_out, 'record')} left out, {why}" if captured.left_out else ""
    say(f"{counted(captured.records, 'record')} of {source} in {'' if into_file else 'dir:'}{place}{left}")
