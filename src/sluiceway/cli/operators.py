"""`sluiceway operators`: the algorithms there are, and what each can be told."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from sluiceway.cli.options import Json


def operators(
    name: Annotated[
        str | None,
        typer.Argument(help="One operator: its parameters, paper, cost and documentation.", metavar="[NAME]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the operators, or describe one.

    \b
    sluiceway operators
    sluiceway operators ofs
    sluiceway operators --json
    """
    from sluiceway.operators import registry

    if name is not None:
        described = describe(name, registry.get(name))
        if as_json:
            print(json.dumps(described, indent=2))
        else:
            _show_one(described)
    elif as_json:
        print(json.dumps([describe(each, entry) for each, entry in registry.OPERATORS.items()], indent=2))
    else:
        _show_all()


def describe(name: str, entry: Any) -> dict[str, Any]:
    """Everything the registry and the class tell, as plain values."""
    import inspect
    import sys

    parameters = []
    for parameter in inspect.signature(entry.cls).parameters.values():
        required = parameter.default is parameter.empty
        parameters.append(
            {
                "name": parameter.name,
                "type": "" if parameter.annotation is parameter.empty else str(parameter.annotation),
                "required": required,
                "default": None if required else parameter.default,
            }
        )
    return {
        "name": name,
        "kind": entry.kind,
        "summary": entry.summary,
        "paper": entry.paper,
        "time": entry.time,
        "state": entry.state,
        "parameters": parameters,
        "exceptions": {str(law): reason for law, reason in entry.exceptions.items()},
        "doc": inspect.cleandoc(sys.modules[entry.cls.__module__].__doc__ or entry.cls.__doc__ or ""),
    }


def _show_all() -> None:
    from sluiceway.cli.screen import console, plain_table
    from sluiceway.operators import registry

    table = plain_table()
    table.add_column("operator", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("what it does", ratio=1)
    for name, entry in registry.OPERATORS.items():
        table.add_row(name, entry.kind, entry.summary)
    screen = console()
    screen.print(table)
    screen.print("\nMore of one: sluiceway operators NAME", style="dim")


def _show_one(described: dict[str, Any]) -> None:
    from rich.markdown import Markdown
    from rich.text import Text

    from sluiceway.cli.screen import console, facts, plain_table

    screen = console()
    screen.print(Text.assemble((described["name"], "bold"), f"  ({described['kind']})  {described['summary']}"))
    table = plain_table()
    for column in ("parameter", "type", "default"):
        table.add_column(column, no_wrap=True)
    for parameter in described["parameters"]:
        default = "required" if parameter["required"] else json.dumps(parameter["default"])
        table.add_row(parameter["name"], Text(parameter["type"]), Text(default))
    screen.print()
    screen.print(table)
    screen.print()
    about = {"time": described["time"], "state": described["state"], "paper": described["paper"]}
    screen.print(facts({**about, **{f"law {law}": reason for law, reason in described["exceptions"].items()}}))
    screen.print()
    screen.print(Markdown(described["doc"], code_theme="default"))
