"""`sluiceway inspect`: what a recovery store, a topic or a snapshot holds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Json, KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from sluiceway.flows.inspection import RecordReport, StoreReport, TopicReport

STREAMS_SHOWN = 50


def inspect(
    what: Annotated[
        str,
        typer.Argument(
            help="A recovery store's directory, a topic (kafka://host:9092/name or dir:path), or a file with a"
            " snapshot; - reads the snapshot from standard input.",
            metavar="WHAT",
        ),
    ],
    as_json: Json = False,
    kafka: KafkaSettings = None,
) -> None:
    """Show what something of Sluiceway's holds. Changes nothing, and disturbs no running flow.

    \b
    sluiceway inspect ./spam-store
    sluiceway inspect kafka://localhost:9092/selections
    sluiceway inspect dir:sluiceway-demo/selections
    sluiceway inspect snapshot.json
    """
    from sluiceway.errors import SettingsError

    if what.startswith(("kafka:", "dir:")):
        _inspect_topic(what, kafka, as_json=as_json)
    elif what != "-" and Path(what).is_dir():
        _inspect_directory(Path(what), as_json=as_json)
    elif what == "-" or Path(what).is_file():
        _inspect_snapshots(what, as_json=as_json)
    else:
        raise SettingsError(
            f"there is no file or directory {what}; a topic is written kafka://host:9092/name or dir:path"
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


# -- stores ----------------------------------------------------------------------------------------------------------


def _inspect_directory(directory: Path, *, as_json: bool) -> None:
    from dataclasses import asdict

    from sluiceway.errors import SettingsError
    from sluiceway.flows.inspection import is_store, read_store

    if is_store(directory):
        report = read_store(directory)
        if as_json:
            print(json.dumps(asdict(report), indent=2))
        else:
            _show_store(report)
    elif (directory / "_topic.json").is_file():
        _inspect_topic(f"dir:{directory}", None, as_json=as_json)
    else:
        raise SettingsError(f"{directory} holds neither a recovery store (sluiceway.json) nor a topic (_topic.json)")


def _show_store(report: StoreReport) -> None:
    from rich.filesize import decimal

    from sluiceway.cli.screen import console, counted, facts, plain_table, shortened

    belongs = dict(report.manifest)
    params = ", ".join(f"{name}={value}" for name, value in (belongs.pop("params", None) or {}).items())
    # applying has no operator
    operator = {"operator": f"{belongs.pop('operator')} ({params})"} if "operator" in belongs else {}
    state = "in use by a running flow" if report.running else "at rest"
    clean = "the last run ended cleanly" if report.clean else "a run is under way or was interrupted"
    about = {
        "store": report.directory,
        "flow": str(belongs.pop("flow", "?")),
        **operator,
        "input": f"{belongs.pop('input', '?')} ({counted(belongs.pop('input_partitions', 0), 'partition')})",
        "state": f"{state}; {clean}",
        "epoch": f"{report.epoch:,}",
    }
    about |= {name.replace("_", " "): json.dumps(value) for name, value in belongs.items() if value not in (None, "")}
    screen = console()
    screen.print(facts(about))
    bounds = report.bounds or {}
    table = plain_table()
    for column in ("partition", "goes on at", "bounds of the run"):
        table.add_column(column, justify="right", no_wrap=True)
    for partition, position in report.positions.items():
        span = "-"
        if bounds:
            stop = bounds["stops"][partition]
            span = f"{bounds['starts'][partition]:,} to {'ever' if stop is None else f'{stop:,}'}"
        table.add_row(str(partition), f"{position:,}", span)
    screen.print()
    screen.print(table if report.positions else "There is no whole checkpoint in it yet.")
    if not report.streams:
        return
    streams = plain_table()
    streams.add_column("stream", min_width=12)
    for column in ("partition", "version", "seen", "selected", "state"):
        streams.add_column(column, justify="right", no_wrap=True)
    for stream in report.streams[:STREAMS_SHOWN]:
        numbers = ["?" if value is None else f"{value:,}" for value in (stream.version, stream.seen, stream.selected)]
        streams.add_row(shortened(stream.stream), str(stream.lane), *numbers, decimal(stream.bytes))
    screen.print()
    screen.print(streams)
    if len(report.streams) > STREAMS_SHOWN:
        screen.print(f"... and {len(report.streams) - STREAMS_SHOWN:,} streams more; --json has them all")


# -- topics ----------------------------------------------------------------------------------------------------------


def _inspect_topic(url: str, given: list[str] | None, *, as_json: bool) -> None:
    from dataclasses import asdict

    from sluiceway.flows.inspection import read_topic
    from sluiceway.topics.url import parse_topic

    report = read_topic(parse_topic(url), kafka_settings(given))
    if as_json:
        print(json.dumps(asdict(report), indent=2))
    else:
        _show_topic(report)


def _show_topic(report: TopicReport) -> None:
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
    for each in report.partitions:
        for which, record in (("first", each.first), ("last", each.last)):
            if record is not None:
                screen.print()
                screen.print(f"{which} of partition {each.partition}, {_where(record)}:", style="bold")
                screen.print(_cut(record.value))


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
