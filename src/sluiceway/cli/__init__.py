"""The command line: a file a verb, every mistake one sentence on stderr."""

from __future__ import annotations

import sys

import typer

from sluiceway.errors import SettingsError, SluicewayError

from . import check, run

app = typer.Typer(
    name="sluiceway",
    help="Feature selection on streams: instances in, selection snapshots out, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(run.run)
app.command()(check.check)


def main() -> None:
    """Entry point. Exit codes: 0 done or stopped, 1 the flow failed, 2 a user's mistake."""
    try:
        app()
    except SluicewayError as problem:
        print(f"sluiceway: {problem}", file=sys.stderr)
        sys.exit(2 if isinstance(problem, SettingsError) else 1)
