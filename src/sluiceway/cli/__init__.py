"""The command line: a file a verb, every mistake one sentence on stderr."""

from __future__ import annotations

import os
import sys
import traceback

import typer

from sluiceway.errors import SluicewayError, without_engine

from . import (
    apply,
    backtest,
    backup,
    capture,
    check,
    demo,
    diff,
    fork,
    inspect,
    join,
    log,
    new,
    operators,
    produce,
    promote,
    redrive,
    reproduce,
    reset,
    restore,
    retire,
    run,
    schemas,
    serve,
    warm_up,
    watch,
)
from .plain_help import Command, Group

app = typer.Typer(
    name="sluiceway",
    help="Feature selection on streams: instances in, selection snapshots out, exactly once.",
    epilog="Begin with: sluiceway demo",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=Group,
)
app.command()(demo.demo)
app.command()(new.new)
app.command()(run.run)
app.command()(join.join)
app.command()(apply.apply)
app.command()(check.check)
app.command()(watch.watch)
app.command()(serve.serve)
app.command()(produce.produce)
app.command()(inspect.inspect)
app.command()(redrive.redrive)
app.command()(backtest.backtest)
app.command()(capture.capture)
app.command()(diff.diff)
app.command()(reproduce.reproduce)
app.command()(promote.promote)
app.command()(backup.backup)
app.command()(restore.restore)
app.command()(reset.reset)
app.command()(fork.fork)
app.command()(operators.operators)
app.command()(retire.retire)
app.command()(schemas.schemas)
app.command(name="warm-up")(warm_up.warm_up)
for registered in app.registered_commands:
    registered.cls = Command


@app.callback(invoke_without_command=True)
def sluiceway(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
) -> None:
    if version:
        from sluiceway import __version__

        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Entry point. Exit codes: 0 done or stopped, 1 the world failed, 2 a user's mistake, 130 interrupted."""
    log.tell_warnings()
    code = _run()
    if run.has_begun():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # a Kafka client that was fenced, or waits for a broker, may abort or hold up an orderly end
    sys.exit(code)


def _run() -> int:
    try:
        code = app(prog_name="sluiceway", standalone_mode=False)
    except SluicewayError as problem:
        log.tell_failure(str(problem))
        return problem.exit_code
    except Exception as problem:
        usage = _usage(problem) or _without_engine(problem)
        if usage is None:  # a bug: all there is to say
            traceback.print_exc()
            return 1
        log.tell_failure(usage)
        return 2
    return code if isinstance(code, int) else 0


def _without_engine(problem: Exception) -> str | None:
    """The sentence for a command that a client's installation does not have."""
    return without_engine(problem, "this command") if isinstance(problem, ImportError) else None


def _usage(problem: Exception) -> str | None:
    """The sentence for arguments that cannot be understood; None for anything else."""
    tell = getattr(problem, "format_message", None)  # only the parser's own exceptions have it
    if tell is None:
        return None
    what = str(tell()).strip().rstrip(".")
    context = getattr(problem, "ctx", None)
    where = "" if context is None else f" (see `{context.command_path} --help`)"
    return f"{what[:1].lower()}{what[1:]}{where}"
