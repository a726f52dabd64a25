"""`sluiceway warm-up`: what a first start would compile, compiled ahead."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sluiceway.cli.options import Json


def warm_up(
    operators: Annotated[
        list[str] | None, typer.Argument(help="Operators; all without any.", metavar="OPERATOR")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile ahead what the flows of some operators, or of all, need.

    Otherwise a first start does it, which takes some ten seconds. What is
    compiled is kept for later processes, beside the package or where
    NUMBA_CACHE_DIR says, until the package or the kind of CPU changes.

    \b
    sluiceway warm-up
    sluiceway warm-up ofs saola --json
    """
    from sluiceway.cli.screen import console, plain_table, working
    from sluiceway.flows.warm_up import warm_up as warmed
    from sluiceway.operators import registry

    names = list(dict.fromkeys(operators or registry.operators()))
    for name in names:
        registry.get(name)
    done = []
    with working("compiling", len(names)) as tick:
        for name in names:
            done.append(warmed(name))
            tick()
    if as_json:
        print(json.dumps([one._asdict() for one in done], indent=2))
        return
    table = plain_table()
    table.add_column("operator", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("before")
    for one in done:
        table.add_row(one.operator, f"{one.seconds:.1f}", "compiled already" if one.was_compiled else "not compiled")
    console().print(table)
