"""`sluiceway fork`: a flow's models for a flow of another name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sluiceway.cli.options import Json


def fork(
    flow: Annotated[Path, typer.Argument(help="The TOML file of the flow that has the models.", metavar="FLOW")],
    new: Annotated[Path, typer.Argument(help="The TOML file of the flow that gets them.", metavar="NEW.toml")],
    as_json: Json = False,
) -> None:
    """Copy FLOW's state to the flow in NEW.toml, which then goes on by itself.

    NEW has another name and no state yet, the same input and the same models:
    operator, parameters, scale and the like. Outputs, emission and the end of
    the input may differ. FLOW may run meanwhile, and is not changed. NEW writes
    of a stream when it next has something to say of it, nothing of before.

    \b
    sluiceway fork spam.toml spam-often.toml
    sluiceway run spam-often.toml --create-topics
    """
    from sluiceway.cli.log import say
    from sluiceway.cli.screen import counted, working
    from sluiceway.flows.fork import fork as copy
    from sluiceway.flows.reach import load, reach

    old, to = reach(load(flow)), reach(load(new))
    with working(f"reading {old.state.removeprefix('the ')}", old.lanes) as step:
        forked = copy(old, to, step)
    if as_json:
        positions = [dict(lane.commit.positions) for lane in forked if lane.commit is not None]
        content = {"from": old.flow, "to": to.flow, "streams": sum(len(lane.streams) for lane in forked)}
        print(json.dumps({**content, "positions": positions}, indent=2))
        return
    streams = counted(sum(len(lane.streams) for lane in forked), "stream")
    say(f"{to.flow}: goes on with {counted(len(forked), 'lane')}, {streams} of {old.flow}; `sluiceway run {new}`")
