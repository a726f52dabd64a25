"""`sluiceway run`: run a flow until its input ends or it is stopped."""

from __future__ import annotations

import logging
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluiceway.flows.preflight import Surroundings
    from sluiceway.flows.progress import Progress
    from sluiceway.flows.settings import Settings
    from sluiceway.flows.work import Work


CheckpointEvery = Annotated[
    float,
    typer.Option(
        help="Seconds between commits; output becomes visible at each.",
        metavar="SECONDS",
        envvar="BYTEWAX_SNAPSHOT_INTERVAL",
    ),
]
Again = Annotated[
    bool, typer.Option("--again", help="Begin the next run of a bounded flow that has ended: read on to its end now.")
]
Gone = Annotated[str | None, typer.Option(hidden=True)]
GoneFlag = Annotated[bool, typer.Option(hidden=True)]


def run(
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file.", metavar="FLOW")],
    checkpoint_every: CheckpointEvery = 2.0,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Create missing topics: outputs, and the one for the state.")
    ] = False,
    again: Again = False,
    recovery: Gone = None,
    recovery_partitions: Gone = None,
    adopt: GoneFlag = False,
) -> None:
    """Run FLOW until its input ends or it is stopped.

    Output, state and position become durable together, where the output goes:
    kill it at any moment and run it again, anywhere. SIGTERM or Ctrl-C commits
    and exits 0. On a terminal it shows how far it is. Start as many processes
    as you like, on as many machines: the broker shares the work out.

    \b
    sluiceway run spam.toml --create-topics
    sluiceway run spam.toml --checkpoint-every 0.2
    """
    from sluiceway.flows.select import SELECTING
    from sluiceway.flows.settings import Settings

    refuse_gone(recovery=recovery, recovery_partitions=recovery_partitions, adopt=adopt)

    def load() -> tuple[Settings, str, Work]:
        settings = Settings.load(flow)
        return settings, settings.operator.name, SELECTING

    execute(flow, load, checkpoint_every, create_topics=create_topics, again=again)


_begun: list[str] = []


def has_begun() -> bool:
    """Whether this process has run a flow, so that clients of a broker may still be at work."""
    return bool(_begun)


def refuse_gone(**given: object) -> None:
    """Options of earlier releases: what to do instead."""
    from sluiceway.errors import SettingsError

    instead = {
        "recovery": "a flow keeps its state where its output goes, so leave it out (`sluiceway inspect FLOW` shows it)",
        "recovery_partitions": "there is no recovery directory any more, so leave it out",
        "adopt": "a flow whose state was lost begins anew with `sluiceway reset`, or goes on after `sluiceway restore`",
        "flow_recovery": "applying finds the flow's state by the flow's file, so leave it out",
    }
    for name, value in given.items():
        if value:
            raise SettingsError(f"--{name.replace('_', '-')} is gone: {instead[name]}")


def execute(
    flow: Path,
    load: Callable[[], tuple[Settings, str, Work]],
    checkpoint_every: float,
    *,
    create_topics: bool,
    again: bool,
) -> None:
    """Run what `load` gives (settings, what is done in a word or two, how), and tell about it on standard error."""
    from sluiceway.cli.screen import counted
    from sluiceway.errors import SettingsError
    from sluiceway.flows.progress import Progress
    from sluiceway.flows.run import Outcome
    from sluiceway.flows.run import run as run_flow
    from sluiceway.topics.url import DirectoryTopic

    if not 0.05 <= checkpoint_every <= 300:
        raise SettingsError(f"--checkpoint-every must lie between 0.05 and 300 seconds, not {checkpoint_every:g}")
    tell_warnings()
    settings, what, work = load()
    progress = Progress()

    with ExitStack() as display:

        def started(around: Surroundings) -> None:
            _begun.append(settings.flow.name)
            until = "until stopped" if settings.input.stop is None else "to the end"
            say(
                f"{settings.flow.name}: {what} on {settings.source}"
                f" ({counted(around.lanes, 'partition')}, {until}); a commit every {checkpoint_every:g} s, state in"
                f" {settings.state}"
            )
            if sys.stderr.isatty():
                display.enter_context(_live(progress, in_bytes=isinstance(settings.source, DirectoryTopic)))

        outcome = run_flow(
            settings,
            checkpoint_seconds=checkpoint_every,
            create_topics=create_topics,
            again=again,
            on_start=started,
            on_compile=lambda: say("compiling the operator's kernels, once for this installation (some seconds) ..."),
            progress=progress,
            work=work,
        )
    if outcome is Outcome.OVER:
        say(
            f"{settings.flow.name}: this flow has come to the end of its input already; `sluiceway {settings.verb}"
            f" {flow} --again` reads on to where the input ends now, `sluiceway reset {flow}` begins anew"
        )
        return
    how = "stopped, everything committed" if outcome is Outcome.STOPPED else "the input has ended"
    say(f"{settings.flow.name}: {how}; {counted(progress.records, 'record')} in {progress.seconds:.1f} s")


def _live(progress: Progress, *, in_bytes: bool) -> AbstractContextManager[object]:
    """Drawn about once a second by a thread of its own, and gone at the end."""
    from rich.live import Live

    from sluiceway.cli.progress import ProgressView
    from sluiceway.cli.screen import console

    view = ProgressView(progress, in_bytes=in_bytes)
    return Live(get_renderable=view, console=console(stderr=True), refresh_per_second=1, transient=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to what `sys.stderr` is at the time: a live display takes it over, and lets lines pass above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def tell_warnings() -> None:
    """Warnings of libraries as lines of ours."""
    logging.basicConfig(level=logging.WARNING, format="sluiceway: %(name)s: %(message)s", handlers=[_Stderr()])
