"""`sluiceway check`: would this flow run, and what would it do?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli.options import Again, Apply, Join, Json, Set

if TYPE_CHECKING:
    from sluiceway.flows.examine import Findings
    from sluiceway.flows.settings import Settings


def check(
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file.", metavar="FLOW")],
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="As `sluiceway run --create-topics` would find it.")
    ] = False,
    again: Again = False,
    given: Set = None,
    applying: Apply = False,
    joining: Join = False,
    as_json: Json = False,
) -> None:
    """Say whether FLOW would run, and if not, why.

    Looks at all that a run depends on: settings, topics and their partitions,
    the state and whether it fits, the schema registry, what this client may do,
    message sizes. Makes
    nothing, and disturbs no running flow. The last line and the exit code are
    those of `sluiceway run`.

    \b
    sluiceway check spam.toml
    sluiceway check spam.toml --create-topics --json
    sluiceway check spam.toml --set input.stop=end --again
    """
    from sluiceway.errors import SettingsError, SluicewayError
    from sluiceway.flows.changes import load_changed, parse_single
    from sluiceway.flows.examine import examine
    from sluiceway.flows.reach import load, work_of

    try:
        changes = parse_single(given or [])
        if changes and (applying or joining):
            raise SettingsError("--set goes with `sluiceway run` alone: leave out --apply and --join")
        settings = load_changed(flow, changes) if changes else load(flow, applying=applying, joining=joining)
    except SluicewayError as problem:
        if as_json:
            print(json.dumps({"ready": False, "problems": [str(problem)]}, indent=2))
        raise
    found = examine(settings, work_of(settings), create=create_topics, again=again)
    if as_json:
        print(json.dumps(_content(settings, found), indent=2))
    elif found.lanes is not None or found.missing:  # else the sentence below is all there is to say
        _show(settings, found)
    if found.problems:
        raise found.problems[0]


def _content(settings: Settings, found: Findings) -> dict[str, Any]:
    given = settings.input
    return {
        "flow": settings.flow.name,
        "ready": not found.problems,
        "problems": [str(problem) for problem in found.problems],
        "warnings": found.warnings,
        "topics": {name: str(topic) for name, topic in settings.all_topics.items()},
        "missing": found.missing,
        "would_create": found.would_create,
        "lanes": found.lanes,
        "operator": {"name": settings.operator.name, "params": settings.make_operator().params},
        "start": given.start,
        "stop": given.stop,
        "state": str(settings.state),
        "committed_lanes": found.committed,
        "checkpoint_age_seconds": None if found.checkpoint_age is None else round(found.checkpoint_age, 1),
        "members": found.members,
        "ended": found.ended,
    }


def _show(settings: Settings, found: Findings) -> None:
    from sluiceway.cli.screen import console, counted, facts

    screen = console()
    screen.print(f"{settings.flow.name}: {'would not run' if found.problems else 'ready to run'}", style="bold")
    params = ", ".join(f"{name}={value}" for name, value in settings.make_operator().params.items())
    given = settings.input
    about = {
        **{name: str(topic) for name, topic in settings.all_topics.items()},
        "lanes": "unknown" if found.lanes is None else counted(found.lanes, "partition"),
        "operator": f"{settings.operator.name} ({params})",
        "input": f"from {given.start} {'on' if given.stop is None else f'to {given.stop}'}, scale {settings.scale}",
        "state": f"{settings.state}, {_state(found)}",
    }
    if found.members:
        about["running"] = counted(found.members, "worker")
    if found.missing:
        would = "`--create-topics` would make them" if found.would_create else "`--create-topics` could not make them"
        about["missing"] = f"{', '.join(found.missing)}: {would}"
    for number, problem in enumerate(found.problems, 1):
        about[f"problem {number}"] = str(problem)
    for number, warning in enumerate(found.warnings, 1):
        about[f"warning {number}"] = warning
    screen.print(facts(about))


def _state(found: Findings) -> str:
    from sluiceway.wording import counted

    if not found.committed:
        return "nothing in it yet"
    age = "" if found.checkpoint_age is None else f", the newest {found.checkpoint_age:.0f} s ago"
    ended = "; this run has ended, `--again` begins the next" if found.ended else ""
    return f"with checkpoints of {found.committed} of {counted(found.lanes or 0, 'lane')}{age}{ended}"
