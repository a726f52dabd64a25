"""`sluiceway reset`: a flow forgets what it has learnt and begins anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli.options import Join, Json, Yes

if TYPE_CHECKING:
    from sluiceway.flows.reset import Plan


def reset(
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file.", metavar="FLOW")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    snapshots: Annotated[
        bool, typer.Option("--snapshots", help="Also its streams' snapshots, by tombstones in the selections topic.")
    ] = False,
    joining: Join = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove FLOW's state, so that it begins anew.

    Its models, its position and its consumer groups go, and those of its
    `apply`; with --join those of its `join` alone. Refused while the flow runs. What it has written stays where it is;
    --snapshots ends the snapshots of its streams. Output directories are kept:
    a flow that begins anew wants empty ones.

    \b
    sluiceway reset spam.toml --dry-run
    sluiceway reset spam.toml --snapshots --yes
    """
    from sluiceway.cli.log import say
    from sluiceway.cli.screen import working
    from sluiceway.errors import SettingsError
    from sluiceway.flows.reset import carry_out, plan

    asks = sys.stdin.isatty() and sys.stderr.isatty()
    if not (yes or dry_run or asks):
        raise SettingsError("`sluiceway reset` removes models for good: say --yes, or --dry-run to see what would go")
    with working("looking") as step:
        wanted = plan(flow, with_snapshots=snapshots, joining=joining, step=step)
    name = wanted.parts[0].reached.flow
    if wanted.is_empty and not as_json:
        say(f"{name}: there is nothing to reset")
    elif not as_json:
        _show(wanted)
    if not (dry_run or wanted.is_empty):
        if not (yes or _agreed(f"Remove this of {name}, for good?")):
            say(f"{name}: nothing was removed")
            raise typer.Exit(1)
        with working("removing"):
            carry_out(wanted)
        say(f"{name}: reset; {_how_it_begins(flow, wanted)}")
    if as_json:
        print(json.dumps({"dry_run": dry_run, **_content(wanted)}, indent=2))


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        return False


def _content(plan: Plan) -> dict[str, Any]:
    parts = [
        {
            "flow": part.reached.flow,
            "state": str(part.reached.settings.state),
            "exists": part.reached.store is not None,
            "lanes": part.reached.lanes if part.reached.store is not None else 0,
            "streams": part.streams,
            "bytes": part.bytes,
            "groups": part.groups,
        }
        for part in plan.parts
    ]
    kept = [str(topic) for topic in plan.kept]
    return {"removed": parts, "snapshots": sorted(plan.snapshots) if plan.with_snapshots else [], "kept": kept}


def _show(plan: Plan) -> None:
    from rich.filesize import decimal

    from sluiceway.cli.screen import console, counted, facts

    screen = console()
    about: dict[str, str] = {}
    for part in plan.parts:
        reached = part.reached
        of = "" if part is plan.parts[0] else " of apply"
        if reached.store is not None:
            what = "cannot be read" if part.streams is None else counted(part.streams, "stream")
            size = "" if part.bytes is None else f" ({decimal(part.bytes)})"
            about[f"state{of}"] = f"{counted(reached.lanes, 'lane')}, {what}{size} in {reached.settings.state}"
        if part.groups:
            about[f"groups{of}"] = ", ".join(part.groups)
    if plan.selections is not None and plan.with_snapshots:
        about["snapshots"] = f"of {counted(len(plan.snapshots), 'stream')} in {plan.selections}, by tombstones"
    screen.print(facts(about))
    if plan.selections is not None and plan.snapshots and not plan.with_snapshots:
        screen.print(f"kept: snapshots of {counted(len(plan.snapshots), 'stream')}, which --snapshots would remove")
    for topic in plan.kept:
        screen.print(f"kept: {topic}", soft_wrap=True)


def _how_it_begins(flow: Path, plan: Plan) -> str:
    if plan.kept:
        paths = " ".join(str(topic.path) for topic in plan.kept)
        return (
            f"its output directories are kept, and a flow that begins anew refuses directories that hold output: name"
            f" others in {flow}, or remove them by hand (rm -r {paths})"
        )
    return f"`sluiceway {plan.parts[0].reached.settings.verb} {flow}` begins anew"
