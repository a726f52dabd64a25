"""`sluiceway redrive`: dead letters are sent again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Json, KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from sluiceway.topics.redrive import Report


def redrive(
    url: Annotated[
        str, typer.Argument(help="The dead letters, kafka://host:9092/name or dir:path.", metavar="URL")
    ],
    to: Annotated[str, typer.Option(help="The topic to send them to: mostly the flow's input.", metavar="URL")],
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class", help="Only dead letters of this class. May be repeated.", metavar="CLASS", show_default=False
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", help="Only records of this topic. May be repeated.", metavar="NAME", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also records that were sent again before and came back as dead letters.")
    ] = False,
    as_json: Json = False,
    kafka: KafkaSettings = None,
) -> None:
    """Send dead letters again, each once, as the records that they were.

    For when the reason has been mended: a class was added to the flow's file,
    say. What was sent is remembered beside the dead letters, so that no letter
    is sent twice, however often this is run or interrupted. A record that was
    sent again and came back is held back, so that none goes round for ever. On
    Kafka each record gets the header sluiceway.redriven.

    \b
    sluiceway redrive kafka://localhost:9092/dead-letters --to kafka://localhost:9092/instances --dry-run
    sluiceway redrive kafka://localhost:9092/dead-letters --class bad-label --to kafka://localhost:9092/instances
    """
    from sluiceway.cli.screen import working
    from sluiceway.errors import SettingsError
    from sluiceway.schemas.refusal import ERROR_CLASSES
    from sluiceway.topics import redrive_files, redrive_kafka
    from sluiceway.topics.redrive import Choice
    from sluiceway.topics.url import DirectoryTopic, KafkaTopic, parse_topic

    dead, target = parse_topic(url), parse_topic(to)
    for name in classes or []:
        if name not in ERROR_CLASSES:
            raise SettingsError(f"there is no class {name!r} of dead letters; there are {', '.join(ERROR_CLASSES)}")
    if dead == target:
        raise SettingsError("dead letters cannot be sent to the topic that they lie in")
    choice = Choice(frozenset(classes or []), again, frozenset(topics or []))
    with working("reading dead letters") as tick:
        if isinstance(dead, KafkaTopic) and isinstance(target, KafkaTopic):
            report = redrive_kafka.redrive(dead, target, kafka_settings(kafka), choice, dry=dry_run, tick=tick)
        elif isinstance(dead, DirectoryTopic) and isinstance(target, DirectoryTopic):
            report = redrive_files.redrive(dead, target, choice, dry=dry_run, tick=tick)
        else:
            raise SettingsError("dead letters of Kafka go to Kafka, those of a directory to a directory")
    if as_json:
        from dataclasses import asdict

        print(json.dumps({"dead_letters": str(dead), "to": str(target), "dry_run": dry_run, **asdict(report)}))
    else:
        _show(report, f"{dead}", f"{target}", dry=dry_run)


def _show(report: Report, dead: str, to: str, *, dry: bool) -> None:
    from sluiceway.cli.screen import console, counted, plain_table

    screen = console()
    if not report.classes:
        screen.print(f"{dead} holds no such dead letters.", soft_wrap=True)
        return
    table = plain_table()
    table.add_column("class", no_wrap=True)
    for column in ("found", "sent before", "came back", "to send" if dry else "sent"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, tally in sorted(report.classes.items()):
        numbers = (tally.found, tally.sent_before, tally.came_back, tally.sent)
        table.add_row(name, *(f"{number:,}" for number in numbers))
    screen.print(table)
    screen.print()
    what = counted(report.sent, "record")
    screen.print(f"{what} would be sent to {to}" if dry else f"{what} sent to {to}", soft_wrap=True)
    if report.came_back:
        held = counted(report.came_back, "record")
        screen.print(f"{held} that came back: not sent again, unless you say --again", soft_wrap=True)
