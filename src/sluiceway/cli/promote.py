"""`sluiceway promote`: what a variant of a backtest has learnt becomes the start of a live flow."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sluiceway.cli.options import Json


def promote(
    result: Annotated[Path, typer.Argument(help="The backtest's folder.", metavar="RESULT")],
    variant: Annotated[str, typer.Argument(help="The variant, by its number or its label.", metavar="VARIANT")],
    flow: Annotated[Path, typer.Argument(help="The TOML file of the flow that gets the models.", metavar="FLOW")],
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Create missing topics: outputs, and the one for the state.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start FLOW with what VARIANT had learnt at the end of its window.

    FLOW has the variant's operator, parameters, scale and the like, reads the
    same topic, and has no state yet. It goes on at the offset where the
    backtest ended. Its readers get one snapshot of each stream at once: the
    newest of the backtest, which they never saw.

    \b
    sluiceway promote first 2 spam-k20.toml
    sluiceway run spam-k20.toml
    """
    from sluiceway.backtest import promote as promoting
    from sluiceway.backtest.results import Results
    from sluiceway.cli.log import say
    from sluiceway.cli.screen import counted, working
    from sluiceway.flows.reach import load, reach

    results = Results.load(result)
    number = promoting.numbered(results, variant)
    reached = reach(load(flow))
    with working(f"promoting to {reached.flow}", reached.lanes) as step:
        done = promoting.promote(results, number, reached, step, create_topics=create_topics)
    if as_json:
        print(json.dumps({"flow": reached.flow, "variant": number, **asdict(done)}, indent=2))
        return
    what = f"{counted(done.streams, 'stream')} of {done.label}, {counted(done.snapshots, 'snapshot')} told"
    say(f"{reached.flow}: {what}; `sluiceway run {flow}` goes on where the backtest ended")
