"""`sluiceway run`: run a flow until its input ends or it is stopped."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli import log
from sluiceway.cli.log import LogFormat, LogFormatOption, say
from sluiceway.cli.options import Again, Json, Set

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluiceway.flows.preflight import Surroundings
    from sluiceway.flows.progress import Progress
    from sluiceway.flows.settings import Settings
    from sluiceway.flows.work import Work


LEAST_UNHEALTHY_SECONDS = 10.0
"""Whether anybody answers is looked at every few seconds."""
CheckpointEvery = Annotated[
    float,
    typer.Option(
        help="Seconds between commits; output becomes visible at each.",
        metavar="SECONDS",
        envvar="BYTEWAX_SNAPSHOT_INTERVAL",
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        help="Answer /metrics, /healthz and /readyz there, for example at 127.0.0.1:9464; off by default.",
        metavar="HOST:PORT",
        envvar="SLUICEWAY_LISTEN",
        show_default=False,
    ),
]
UnhealthyAfter = Annotated[
    float,
    typer.Option(
        help="Seconds without an answer, or that a lane may stand still, before /healthz says so.", metavar="SECONDS"
    ),
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
    given: Set = None,
    as_json: Json = False,
    listen: Listen = None,
    unhealthy_after: UnhealthyAfter = 30.0,
    log_format: LogFormatOption = LogFormat.TEXT,
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
    sluiceway run spam.toml --checkpoint-every 0.2 --set emit.every=100
    sluiceway run spam.toml --listen 127.0.0.1:9464 --log-format json
    """
    from sluiceway.flows.changes import load_changed, parse_single
    from sluiceway.flows.select import SELECTING

    log.begin(log_format)
    refuse_gone(recovery=recovery, recovery_partitions=recovery_partitions, adopt=adopt)

    def load() -> tuple[Settings, str, Work]:
        settings = load_changed(flow, parse_single(given or []))
        return settings, settings.operator.name, SELECTING

    execute(
        flow,
        load,
        checkpoint_every,
        create_topics=create_topics,
        again=again,
        as_json=as_json,
        listen=listen,
        unhealthy_after=unhealthy_after,
    )


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
    as_json: bool,
    listen: str | None,
    unhealthy_after: float,
) -> None:
    """Run what `load` gives (settings, what is done in a word or two, how), and tell about it on standard error.

    With `as_json` how it ended is told on standard output too.
    """
    from sluiceway.cli.screen import console, counted, may_draw
    from sluiceway.errors import FlowError, SettingsError
    from sluiceway.flows.progress import Progress
    from sluiceway.flows.run import Outcome
    from sluiceway.flows.run import run as run_flow
    from sluiceway.topics.url import DirectoryTopic

    if not 0.05 <= checkpoint_every <= 300:
        raise SettingsError(f"--checkpoint-every must lie between 0.05 and 300 seconds, not {checkpoint_every:g}")
    if not unhealthy_after >= LEAST_UNHEALTHY_SECONDS:
        raise SettingsError(
            f"--unhealthy-after must be at least {LEAST_UNHEALTHY_SECONDS:g} seconds, not {unhealthy_after:g}"
        )
    settings, what, work = load()
    progress = Progress()

    with ExitStack() as display:
        if listen is not None:
            from sluiceway.cli.listen import listening

            display.enter_context(listening(listen, settings, progress, unhealthy_after))

        def started(around: Surroundings) -> None:
            _begun.append(settings.flow.name)
            until = "until stopped" if settings.input.stop is None else "to the end"
            say(
                f"{settings.flow.name}: {what} on {settings.source}"
                f" ({counted(around.lanes, 'partition')}, {until}); a commit every {checkpoint_every:g} s, state in"
                f" {settings.state}"
            )
            if may_draw(console(stderr=True)):
                display.enter_context(_live(progress, in_bytes=isinstance(settings.source, DirectoryTopic)))

        def compiling(long: str) -> None:
            say(f"compiling the operator's kernels, once for this installation ({long}) ...")

        try:
            outcome = run_flow(
                settings,
                checkpoint_seconds=checkpoint_every,
                create_topics=create_topics,
                again=again,
                on_start=started,
                on_compile=compiling,
                progress=progress,
                work=work,
                leaving=True,
            )
        except FlowError:
            if as_json and progress.dead_letters.too_many is not None:  # a flow that was stopped has its report, too
                print(json.dumps(_report(settings, "too-many-dead-letters", progress)), flush=True)
            raise
    if as_json:
        print(json.dumps(_report(settings, outcome.name.lower(), progress)), flush=True)
    if outcome is Outcome.OVER:
        say(
            f"{settings.flow.name}: this flow has come to the end of its input already; `sluiceway {settings.verb}"
            f" {flow} --again` reads on to where the input ends now, `sluiceway reset {flow}` begins anew"
        )
        return
    dead = progress.dead_letters
    how = "stopped, everything committed" if outcome is Outcome.STOPPED else "the input has ended"
    told = f"; {dead.sentence()}" if dead.count else ""
    say(f"{settings.flow.name}: {how}; {counted(progress.records, 'record')} in {progress.seconds:.1f} s{told}")
    if dead.count:
        where = settings.output_urls["dead_letters"]
        say(f"{settings.flow.name}: `sluiceway inspect {where}` shows dead letters by class")
    useless = dead.nothing_else([topic.name for topic in settings.inputs.values()])
    if useless is not None:
        done = "joined" if settings.verb == "join" else "learnt"
        of = f" of {useless}" if len(settings.inputs) > 1 else ""
        raise FlowError(
            f"{settings.flow.name}: nothing was {done}, every record{of} that was read became a dead letter; `sluiceway"
            f" new NEW.toml --from {settings.source}` looks at some records and proposes a flow for them"
        )


def _report(settings: Settings, outcome: str, progress: Progress) -> dict[str, Any]:
    return {
        "flow": settings.flow.name,
        "outcome": outcome,
        "records": progress.records,
        "seconds": round(progress.seconds, 3),
        "warnings": progress.warnings,
        "dead_letters": {name: asdict(one) for name, one in sorted(progress.dead_letters.classes.items())},
    }


def _live(progress: Progress, *, in_bytes: bool) -> AbstractContextManager[object]:
    """Drawn about once a second by a thread of its own, and gone at the end."""
    from sluiceway.cli.progress import ProgressView
    from sluiceway.cli.screen import Drawing, console

    view = ProgressView(progress, in_bytes=in_bytes)
    return Drawing(get_renderable=view, console=console(stderr=True), refresh_per_second=1, transient=True)
