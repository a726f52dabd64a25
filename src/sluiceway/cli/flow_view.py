"""How a flow stands, as `sluiceway inspect FLOW` shows it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.filesize import decimal
from rich.text import Text

from sluiceway.cli.screen import console, counted, facts, moment, plain_table, shortened, working
from sluiceway.flows.flow_report import FlowReport, LaneReport, flow_report, stream_in_full
from sluiceway.flows.reach import load, reach
from sluiceway.flows.stream_report import ModelReport

STREAMS_SHOWN = 50
MOST_COLUMNS, MOST_MISTAKES = 8, 20
"""Of a table of classes by classes; beyond it the commonest mistakes are listed."""


def inspect_flow(path: Path, stream: str | None, *, applying: bool, joining: bool, as_json: bool) -> None:
    reached = reach(load(path, applying=applying, joining=joining))
    with working(f"reading {reached.state.removeprefix('the ')}", reached.lanes) as step:
        if stream is not None:
            model = stream_in_full(reached, stream, step)
        else:
            report = flow_report(reached, step, most_streams=None if as_json else STREAMS_SHOWN)
    if as_json:
        content = asdict(report) if stream is None else _model_json(model)
        print(json.dumps(content, indent=2))
    elif stream is None:
        _show(report)
    else:
        _show_model(reached.flow, model)


def _model_json(model: ModelReport) -> dict[str, object]:
    content = asdict(model)
    for chosen in content["selected"]:
        chosen.update(chosen.pop("more"))
    return {**content.pop("summary"), **content}


def _show(report: FlowReport) -> None:
    belongs = dict(report.belongs_to)
    params = ", ".join(f"{name}={value}" for name, value in (belongs.pop("params", None) or {}).items())
    # applying and joining have no operator
    operator = {"operator": f"{belongs.pop('operator')} ({params})"} if "operator" in belongs else {}
    about = {
        "flow": str(belongs.pop("flow", report.flow)),
        "state": report.state,
        **operator,
        "input": f"{belongs.pop('input', '?')} ({counted(len(report.lanes), 'partition')})",
        "run": _run(report),
    }
    belongs.pop("state_version", None)
    about["streams"] = f"{report.stream_count:,}, named by {belongs.pop('stream', '?')}"
    about |= {
        name.replace("_", " "): value if isinstance(value, str) else json.dumps(value)
        for name, value in belongs.items()
        if value not in (None, "")
    }
    screen = console()
    screen.print(facts(about))
    screen.print()
    table = plain_table()
    table.add_column("lane", justify="right", no_wrap=True)
    table.add_column("owner", min_width=10)
    for column in ("position", "lag", "streams", "state", "commit"):
        table.add_column(column, justify="right", no_wrap=True)
    for lane in report.lanes:
        table.add_row(
            str(lane.lane),
            _owner(lane),
            "-" if lane.position is None else f"{lane.position:,}",
            _lag(lane, report),
            f"{lane.streams:,}",
            decimal(lane.bytes),
            "never" if lane.age is None else f"{_span(lane.age)} ago",
        )
    screen.print(table)
    for lane in report.lanes:
        if lane.parked is not None:
            screen.print()
            screen.print(f"lane {lane.lane} is parked: {lane.parked}", style="red")
    if not report.streams:
        return
    streams = plain_table()
    streams.add_column("stream", min_width=12)
    for column in ("lane", "version", "seen", "selected", "pieces", "state"):
        streams.add_column(column, justify="right", no_wrap=True)
    for stream in report.streams:
        numbers = ["?" if value is None else f"{value:,}" for value in (stream.version, stream.seen, stream.selected)]
        row = (str(stream.lane), *numbers, f"{stream.pieces:,}", decimal(stream.bytes))
        streams.add_row(shortened(stream.stream), *row)
    screen.print()
    screen.print(streams)
    hidden = report.stream_count - len(report.streams)
    if hidden:
        screen.print(f"... and {counted(hidden, 'stream')} more; --json has them all")


def _run(report: FlowReport) -> str:
    if report.run is None:
        return "none has begun"
    done = sum(lane.final for lane in report.lanes)
    if not report.bounded:
        return f"{report.run}, until stopped"
    how = "ended" if done == len(report.lanes) else f"{done} of {counted(len(report.lanes), 'lane')} at the end"
    return f"{report.run}, to {report.stop}: {how}"


def _owner(lane: LaneReport) -> Text:
    if lane.final:
        return Text("(at the end)")
    if lane.owner is None:
        return Text("nobody yet")
    who = f"{lane.owner.host} {lane.owner.pid}"
    if lane.parked is not None:
        return Text(f"parked, {who}", style="red")
    match lane.owned:
        case "yes":
            return Text(f"{who}, {moment(lane.owner.since)}")
        case "no":
            return Text(f"(nobody; {who} before)")
    return Text(f"{who}, {moment(lane.owner.since)} (does it run?)")


def _lag(lane: LaneReport, report: FlowReport) -> str:
    if lane.lag is None:
        return "?"
    return decimal(lane.lag) if report.lag_in == "bytes" else f"{lane.lag:,}"


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _show_model(flow: str, model: ModelReport) -> None:
    summary = model.summary
    about = {
        "stream": f"{flow}/{summary.stream}, lane {summary.lane}",
        "operator": f"{model.operator} ({', '.join(f'{name}={value}' for name, value in model.params.items())})"
        if model.params
        else model.operator,
        "version": "?" if summary.version is None else f"{summary.version:,}",
        "seen": "?" if summary.seen is None else f"{summary.seen:,}",
        **{name: f"{value:,}" for name, value in model.counts.items()},
        **{name.replace("_", " "): f"{value:g}" for name, value in model.metrics.items()},
        "state": f"{decimal(summary.bytes)}, {counted(summary.pieces, 'piece')}",
    }
    screen = console()
    screen.print(facts(about))
    screen.print()
    if model.problem is not None:
        screen.print(model.problem, style="red")
        return
    if not model.selected:
        screen.print("Nothing is selected.")
        return
    table = plain_table()
    table.add_column("feature", min_width=12)
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("since", justify="right", no_wrap=True)
    members = list(dict.fromkeys(member for chosen in model.selected for member in chosen.more))
    for member in members:
        table.add_column(member)
    for chosen in model.selected:
        weight = "-" if chosen.weight is None else f"{chosen.weight:.6g}"
        more = (shortened(str(chosen.more.get(member, "-"))) for member in members)
        table.add_row(shortened(chosen.feature), weight, f"{chosen.since:,}", *more)
    screen.print(table)
    if model.confusion is not None:
        _show_confusion(model.classes, model.confusion)


def _show_confusion(classes: list[str | int], confusion: list[list[int]]) -> None:
    """Of many classes only what there is too much of for a table's width: the commonest mistakes."""
    table = plain_table()
    screen = console()
    screen.print()
    if len(classes) <= MOST_COLUMNS:
        table.add_column("labelled as")
        for label in classes:
            table.add_column(shortened(str(label)), justify="right")
        for label, counts in zip(classes, confusion, strict=True):
            table.add_row(shortened(str(label)), *(f"{count:,}" for count in counts))
        screen.print("Labelled instances (rows) by the class that was predicted (columns)")
        screen.print(table)
        return
    mistaken = sorted(
        ((-count, row, column) for row, counts in enumerate(confusion) for column, count in enumerate(counts)
         if row != column and count)
    )  # fmt: skip
    for heading in ("labelled as", "predicted as"):
        table.add_column(heading)
    table.add_column("instances", justify="right")
    for count, row, column in mistaken[:MOST_MISTAKES]:
        table.add_row(shortened(str(classes[row])), shortened(str(classes[column])), f"{-count:,}")
    screen.print("The commonest mistakes; --json has all")
    screen.print(table)
