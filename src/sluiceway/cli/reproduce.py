"""`sluiceway reproduce`: a snapshot made again from the records that led to it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Json

if TYPE_CHECKING:
    from sluiceway.backtest.window import Window


def reproduce(
    snapshot: Annotated[
        Path, typer.Argument(help="A file with the snapshot; - is standard input.", metavar="SNAPSHOT")
    ],
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file, as it was then.", metavar="FLOW")],
    start: Annotated[
        str | None,
        typer.Option("--from", help="Where the flow began, if its state does not say.", metavar="POSITION"),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="What the flow began with: a backup, or DIR/variants/N of the backtest it was promoted from.",
            metavar="PATH",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay FLOW up to the snapshot's `source` offset: is it the same?

    Says identical, or what differs first; then the exit code is 1. Nothing live
    is touched. The records must still be there, and a flow that was promoted,
    forked or restored needs the state that it began with.

    \b
    sluiceway watch kafka://localhost:9092/selections --stream mail --once --json > snapshot.json
    sluiceway reproduce snapshot.json spam.toml
    """
    from sluiceway.backtest.reproduce import reproduce as replay
    from sluiceway.backtest.snapshot_file import read_snapshot
    from sluiceway.cli.backtest import ReplayView
    from sluiceway.cli.log import say
    from sluiceway.flows.settings import Settings

    given, view = read_snapshot(snapshot), ReplayView()

    def started(window: Window) -> None:
        say(f"replaying {window.source} up to where the snapshot was made ...")
        view.begin(window.size)

    with view:
        done = replay(
            given,
            Settings.load(flow),
            start=start,
            state=state,
            on_start=started,
            on_compile=lambda: say("compiling the operator's kernels, once for this installation ..."),
            tell=view.show,
        )
    if as_json:
        print(json.dumps(asdict(done), indent=2))
    else:
        print(f"{done.sentence} ({done.records:,} records replayed)")
    if not done.same:
        raise typer.Exit(1)
