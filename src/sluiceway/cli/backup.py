"""`sluiceway backup`: a flow's state in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sluiceway.cli.options import Apply, Join, Json


def backup(
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file.", metavar="FLOW")],
    directory: Annotated[Path, typer.Argument(help="Where to, a new directory.", metavar="DIR", show_default=False)],
    applying: Apply = False,
    joining: Join = False,
    as_json: Json = False,
) -> None:
    """Write FLOW's state to DIR: models and positions, not its output.

    The flow may run meanwhile: each lane is saved as of one of its commits.
    `sluiceway restore FLOW DIR` puts it back where the state was lost or reset.

    \b
    sluiceway backup spam.toml backups/spam-monday
    """
    from dataclasses import asdict

    from rich.filesize import decimal

    from sluiceway.cli.screen import counted, working
    from sluiceway.flows.backup import backup as make
    from sluiceway.flows.reach import load, reach

    reached = reach(load(flow, applying=applying, joining=joining))
    with working(f"reading {reached.state.removeprefix('the ')}", reached.lanes) as step:
        manifest = make(reached, directory, step)
    if as_json:
        print(json.dumps({"directory": str(directory), **asdict(manifest)}, indent=2))
        return
    from sluiceway.cli.log import say

    streams = counted(sum(lane.streams for lane in manifest.lanes), "stream")
    size = decimal(sum(lane.bytes for lane in manifest.lanes))
    say(f"{manifest.flow}: {counted(len(manifest.lanes), 'lane')}, {streams} ({size}) saved in {directory}")
