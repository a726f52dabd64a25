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
        print(json.dumps([describe(each, entry) for each, entry in registry.operators().items()], indent=2))
    else:
        _show_all()


def describe(name: str, entry: Any) -> dict[str, Any]:
    """Everything the registry and the class tell, as plain values."""
    import inspect
    import sys

    from sluiceway.operators.parameters import parameters_of

    parameters = [
        {
            "name": parameter.name,
            "meaning": parameter.meaning,
            "type": parameter.annotation,
            "values": parameter.values,
            "required": parameter.required,
            "default": None if parameter.required else parameter.default,
        }
        for parameter in parameters_of(entry.cls).values()
    ]
    return {
        "name": name,
        "kind": entry.kind.name,
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
    for name, entry in registry.operators().items():
        table.add_row(name, entry.kind.name, entry.summary)
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
    for column in ("parameter", "default"):
        table.add_column(column, no_wrap=True)
    table.add_column("what it may be", ratio=2)
    table.add_column("meaning", ratio=3)
    for parameter in described["parameters"]:
        values = parameter["values"] or parameter["type"]
        table.add_row(parameter["name"], Text(_default_of(parameter)), Text(values), Text(parameter["meaning"]))
    screen.print()
    screen.print(table)
    screen.print()
    about = {"time": described["time"], "state": described["state"], "paper": described["paper"]}
    screen.print(facts({**about, **{f"law {law}": reason for law, reason in described["exceptions"].items()}}))
    screen.print()
    screen.print(Markdown(described["doc"], code_theme="default"))


def _default_of(parameter: dict[str, Any]) -> str:
    default = parameter["default"]
    return "required" if parameter["required"] else "none" if default is None else json.dumps(default)
