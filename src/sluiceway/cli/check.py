"""`sluiceway check`: would this flow start?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sluiceway.cli.options import Json


def check(
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file.", metavar="FLOW")],
    as_json: Json = False,
) -> None:
    """Validate FLOW, reach its topics, and print what would run. Changes nothing.

    \b
    sluiceway check spam.toml
    sluiceway check spam.toml --json
    """
    from sluiceway.cli.screen import console, counted, facts
    from sluiceway.flows.preflight import look_around
    from sluiceway.flows.settings import Settings

    settings = Settings.load(flow)
    around = look_around(settings, create_directories=False)
    params = settings.make_operator().params
    given = settings.input
    topics = {name: str(topic) for name, topic in settings.all_topics.items()}
    if as_json:
        import json

        operator = {"name": settings.operator.name, "params": params}
        content = {"flow": settings.flow.name, "topics": topics, "lanes": around.lanes, "operator": operator}
        ends = {"start": given.start, "stop": given.stop, "state": str(settings.state)}
        print(json.dumps({**content, **ends}, indent=2))
        return
    screen = console()
    screen.print(f"{settings.flow.name}: ready to run", style="bold")
    about = {
        **topics,
        "lanes": counted(around.lanes, "partition"),
        "operator": f"{settings.operator.name} ({', '.join(f'{name}={value}' for name, value in params.items())})",
        "input": f"from {given.start} to {given.stop or 'ever'}, scale {settings.scale}",
        "state": str(settings.state),
    }
    screen.print(facts(about))
