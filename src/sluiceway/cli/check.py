"""`sluiceway check`: would this flow start?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file.", metavar="FLOW")],
) -> None:
    """Validate FLOW, reach its topics, and print what would run. Changes nothing.

    sluiceway check spam.toml
    """
    from rich.console import Console
    from rich.table import Table

    from sluiceway.flows.preflight import look_around
    from sluiceway.flows.settings import Settings

    settings = Settings.load(flow)
    around = look_around(settings, create_directories=False)
    table = Table(title=f"{settings.flow.name}: ready to run", title_justify="left", show_header=False)
    for name, topic in settings.all_topics.items():
        table.add_row(name, str(topic))
    table.add_row("lanes", str(around.lanes))
    params = ", ".join(f"{name}={value}" for name, value in settings.make_learner().params.items())
    table.add_row("operator", f"{settings.operator.name} ({params})")
    given = settings.input
    table.add_row("input", f"from {given.start} to {given.stop or 'ever'}, scale {given.scale}")
    table.add_row("delivery", settings.output.delivery)
    Console().print(table)
