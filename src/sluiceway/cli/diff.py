"""`sluiceway diff`: two snapshots, or two backtests, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Json

if TYPE_CHECKING:
    from sluiceway.backtest.diff import Differences

ROWS = 30


def diff(
    one: Annotated[Path, typer.Argument(help="A file with a snapshot, or a backtest's folder.", metavar="A")],
    other: Annotated[Path, typer.Argument(help="Another of the same kind.", metavar="B")],
    by: Annotated[
        str | None, typer.Option(help="Of backtests: the measure to compare, error by default.", metavar="METRIC")
    ] = None,
    as_json: Json = False,
) -> None:
    """What differs between two snapshots, or between two backtests.

    Of snapshots the features and their weights, of backtests a measure of the
    variants; and whatever else is not the same, as settings or versions.

    \b
    sluiceway diff monday.json tuesday.json
    sluiceway diff first second --by stability
    """
    from sluiceway.cli.screen import console

    found, what = _compared(one, other, by)
    if as_json:
        print(json.dumps(found.to_json(), indent=2))
        return
    _show(found, what, str(one), str(other))
    console().print(found.sentence)


def _compared(one: Path, other: Path, by: str | None) -> tuple[Differences, str]:
    from sluiceway.backtest.diff import of_results, of_snapshots
    from sluiceway.backtest.results import RESULTS, Results
    from sluiceway.backtest.snapshot_file import read_snapshot
    from sluiceway.errors import SettingsError

    backtests = [path.is_dir() or path.name == RESULTS for path in (one, other)]
    if all(backtests):
        results = Results.load(one), Results.load(other)
        return of_results(*results, by or results[0].default_metric), "variant"
    if any(backtests):
        raise SettingsError(f"{one} and {other} are not of one kind: two snapshots, or two backtests, can be compared")
    if by is not None:
        raise SettingsError("--by goes with backtests; of snapshots the weights are compared")
    return of_snapshots(read_snapshot(one).content, read_snapshot(other).content), "feature"


def _show(found: Differences, what: str, one: str, other: str) -> None:
    from sluiceway.cli.screen import console, plain_table

    unlike = [pair for pair in found.pairs if pair.one != pair.other]
    screen = console()
    if unlike:
        table = plain_table()
        table.add_column(what, overflow="fold")
        for head in (one, other, "difference"):
            table.add_column(head, justify="right", overflow="fold")
        for pair in unlike[:ROWS]:
            table.add_row(pair.name, _number(pair.one), _number(pair.other), f"{pair.difference:+.4g}")
        screen.print(table)
        if len(unlike) > ROWS:
            screen.print(f"and {len(unlike) - ROWS:,} more; --json has all")
    for place in found.places[:ROWS]:
        screen.print(f"{place.place}: {_short(place.one)} and {_short(place.other)}", highlight=False, markup=False)
    if len(found.places) > ROWS:
        screen.print(f"and {len(found.places) - ROWS:,} more differences; --json has all")
    if not unlike and not found.places:
        screen.print("they are the same")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _short(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
