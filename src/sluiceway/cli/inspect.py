"""`sluiceway inspect`: how a flow stands, what a topic or a snapshot holds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Apply, Join, Json, KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from sluiceway.flows.dead_letter_report import DeadLetterReport
    from sluiceway.flows.inspection import RecordReport, TopicReport


def inspect(
    what: Annotated[
        str,
        typer.Argument(
            help="A flow's TOML file, a topic (kafka://host:9092/name or dir:path), or a file with a snapshot;"
            " - reads the snapshot from standard input.",
            metavar="WHAT",
        ),
    ],
    stream: Annotated[
        str | None, typer.Option(help="Of a flow: this stream's model in full.", metavar="NAME", show_default=False)
    ] = None,
    applying: Apply = False,
    joining: Join = False,
    as_json: Json = False,
    kafka: KafkaSettings = None,
) -> None:
    """Show how a flow stands, or what a topic or a snapshot holds.

    Changes nothing, and disturbs no running flow. A flow's state is read where
    it lies, from any machine that reaches it: its lanes, who has them, how far
    they are, and its streams.

    \b
    sluiceway inspect spam.toml
    sluiceway inspect spam.toml --stream mail
    sluiceway inspect kafka://localhost:9092/selections
    sluiceway inspect dir:sluiceway-demo/selections
    sluiceway inspect snapshot.json
    """
    from sluiceway.errors import SettingsError

    is_flow = what.endswith(".toml")
    if not is_flow and (stream is not None or applying or joining):
        option = "--apply" if applying else "--join" if joining else "--stream"
        raise SettingsError(f"{option} goes with a flow's file, spam.toml for example")
    if is_flow:
        from sluiceway.cli.flow_view import inspect_flow

        inspect_flow(Path(what), stream, applying=applying, joining=joining, as_json=as_json)
    elif what.startswith(("kafka:", "dir:")):
        _inspect_topic(what, kafka, as_json=as_json)
    elif what != "-" and Path(what).is_dir():
        _inspect_directory(Path(what), as_json=as_json)
    elif what == "-" or Path(what).is_file():
        _inspect_snapshots(what, as_json=as_json)
    else:
        raise SettingsError(
            f"there is no file or directory {what}; a flow is named by its .toml file, a topic is written"
            f" kafka://host:9092/name or dir:path"
        )


# -- snapshots -------------------------------------------------------------------------------------------------------


def _inspect_snapshots(name: str, *, as_json: bool) -> None:
    """One snapshot, or a line each."""
    from pydantic import ValidationError

    from sluiceway.cli.screen import View, console, detail
    from sluiceway.cli.watch import print_json
    from sluiceway.errors import SettingsError
    from sluiceway.schemas.records import Snapshot

    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as problem:
        raise SettingsError(f"{name} cannot be read: {problem.strerror}") from None
    shown = "standard input" if name == "-" else name
    screen = console()
    parts = [content] if _is_json(content) else [line for line in content.split(b"\n") if line.strip()]
    if not parts:
        raise SettingsError(f"{shown} is empty")
    for number, part in enumerate(parts, 1):
        try:
            snapshot = Snapshot.model_validate_json(part)
        except ValidationError as problem:
            first = problem.errors()[0]
            where = ".".join(map(str, first["loc"]))
            line = f", line {number}" if len(parts) > 1 else ""
            reason = first["msg"][:1].lower() + first["msg"][1:]
            raise SettingsError(f"{shown}{line} is no snapshot: {where + ': ' if where else ''}{reason}") from None
        if as_json:
            print_json(snapshot)
        else:
            screen.print(detail(View(snapshot)))


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


# -- directories -----------------------------------------------------------------------------------------------------


def _inspect_directory(directory: Path, *, as_json: bool) -> None:
    from sluiceway.errors import SettingsError

    if (directory / "_topic.json").is_file():
        _inspect_topic(f"dir:{directory}", None, as_json=as_json)
    elif any(directory.glob("lane-*.sqlite3")):
        raise SettingsError(f"{directory} holds a flow's state: name the flow's file, `sluiceway inspect FLOW.toml`")
    else:
        raise SettingsError(f"{directory} is no topic: it holds no _topic.json")


# -- topics ----------------------------------------------------------------------------------------------------------


def _inspect_topic(url: str, given: list[str] | None, *, as_json: bool) -> None:
    from dataclasses import asdict

    from sluiceway.cli.screen import working
    from sluiceway.flows.dead_letter_report import summary
    from sluiceway.flows.inspection import read_topic
    from sluiceway.topics.feeds import read_all
    from sluiceway.topics.url import parse_topic

    topic, settings = parse_topic(url), kafka_settings(given)
    report, dead = read_topic(topic, settings), None
    if report.has_dead_letters:
        with working(f"reading {url}") as tick:
            dead = summary(read_all(topic, settings), tick)
    if as_json:
        content = asdict(report)
        if dead is not None:
            content["dead_letters"] = asdict(dead)
        print(json.dumps(content, indent=2))
        return
    _show_topic(report, records=dead is None)
    if dead is not None:
        _show_dead_letters(dead)


def _show_dead_letters(report: DeadLetterReport) -> None:
    from sluiceway.cli.screen import console, counted, plain_table

    screen = console()
    table = plain_table()
    table.add_column("class", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("newest", ratio=1)
    for name, found in report.classes.items():
        table.add_row(name, f"{found.count:,}", found.newest.message)
    screen.print()
    screen.print(table)
    for name, found in report.classes.items():
        newest = found.newest
        key = "" if newest.key is None else f", key {newest.key}"
        where = f"offset {newest.offset:,} of partition {newest.partition} of {newest.topic}{key}"
        screen.print()
        screen.print(f"newest {name}, {where}:", style="bold", soft_wrap=True)
        screen.print(_cut(newest.value))
    if report.others:
        screen.print()
        screen.print(f"and {counted(report.others, 'record')} of `sluiceway redrive`: what has been sent again")


def _show_topic(report: TopicReport, *, records: bool) -> None:
    from rich.filesize import decimal

    from sluiceway.cli.screen import console, counted, plain_table

    screen = console()
    on_kafka = report.kind == "kafka"
    total = sum(partition.records for partition in report.partitions)
    held = f"{'at most ' if on_kafka else ''}{counted(total, 'record')}"
    about = f"{report.topic}: {counted(len(report.partitions), 'partition')}, {held}"
    screen.print(about, soft_wrap=True)
    table = plain_table()
    columns = ("partition", "first offset", "next offset", "records") if on_kafka else ("partition", "records", "size")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for each in report.partitions:
        if on_kafka:
            table.add_row(str(each.partition), f"{each.start:,}", f"{each.end:,}", f"{each.records:,}")
        else:
            table.add_row(str(each.partition), f"{each.records:,}", decimal(each.end))
    screen.print()
    screen.print(table)
    for each in report.partitions if records else ():
        for which, record in (("first", each.first), ("last", each.last)):
            if record is not None:
                screen.print()
                screen.print(f"{which} of partition {each.partition}, {_where(record)}:", style="bold")
                screen.print(_cut(record.value))
                for name, value in record.headers.items():
                    screen.print(f"  {name}: {_cut(value)}")


def _where(record: RecordReport) -> str:
    from sluiceway.cli.screen import moment

    where = f"at {record.offset:,}"
    if record.ts:
        where += f", {moment(record.ts)}"
    return where + (f", key {record.key}" if record.key is not None else "")


def _cut(value: str | None, length: int = 400) -> str:
    if value is None:
        return "(no value: a tombstone)"
    return value if len(value) <= length else value[: length - 3] + "..."
