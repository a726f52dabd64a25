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

    from sluiceway.flows.progress import Progress
    from sluiceway.flows.run import Work
    from sluiceway.flows.settings import Settings


CheckpointEvery = Annotated[
    float,
    typer.Option(
        help="Seconds between checkpoints; output becomes visible at each.",
        metavar="SECONDS",
        envvar="BYTEWAX_SNAPSHOT_INTERVAL",
    ),
]
RecoveryPartitions = Annotated[
    int, typer.Option(help="Partitions of a new store: at least as many as processes will ever run.", metavar="N")
]
Adopt = Annotated[
    bool, typer.Option("--adopt", help="Go on although store and output tell different stories (see the refusal).")
]


def run(
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file.", metavar="FLOW")],
    recovery: Annotated[
        Path | None,
        typer.Option(
            help="Checkpoint store: created if missing, resumed if present.",
            metavar="DIR",
            envvar="BYTEWAX_RECOVERY_DIRECTORY",
        ),
    ] = None,
    checkpoint_every: CheckpointEvery = 2.0,
    recovery_partitions: RecoveryPartitions = 8,
    create_topics: Annotated[bool, typer.Option("--create-topics", help="Create missing output topics.")] = False,
    adopt: Adopt = False,
) -> None:
    """Run FLOW until its input ends or it is stopped.

    SIGTERM or Ctrl-C finishes the epoch, checkpoints and exits 0; run again to
    go on. On a terminal it shows how far it is. Several processes run one flow
    together under BYTEWAX_ADDRESSES and BYTEWAX_PROCESS_ID.

    \b
    sluiceway run spam.toml --recovery ./spam-store
    sluiceway run spam.toml --recovery ./spam-store --create-topics
    """
    from sluiceway.flows.settings import Settings

    def load() -> tuple[Settings, str, None]:
        settings = Settings.load(flow)
        return settings, settings.operator.name, None

    execute(load, recovery, checkpoint_every, recovery_partitions, create_topics=create_topics, adopt=adopt)


def execute(
    load: Callable[[], tuple[Settings, str, Work | None]],
    recovery: Path | None,
    checkpoint_every: float,
    recovery_partitions: int,
    *,
    create_topics: bool,
    adopt: bool,
) -> None:
    """Run what `load` gives (settings, what is done in a word or two, how), and tell about it on standard error."""
    from sluiceway.cli.screen import counted
    from sluiceway.errors import SettingsError
    from sluiceway.flows.progress import Progress
    from sluiceway.flows.run import run as run_flow
    from sluiceway.topics.bounds import Bounds
    from sluiceway.topics.url import DirectoryTopic

    if not 0.05 <= checkpoint_every <= 300:
        raise SettingsError(f"--checkpoint-every must lie between 0.05 and 300 seconds, not {checkpoint_every:g}")
    if not 1 <= recovery_partitions <= 1000:
        raise SettingsError(f"--recovery-partitions must lie between 1 and 1000, not {recovery_partitions}")
    tell_warnings()
    settings, what, work = load()
    progress = Progress()

    with ExitStack() as display:

        def started(bounds: Bounds) -> None:
            until = "until stopped" if None in bounds.stops else "to the end"
            where = f"checkpoints every {checkpoint_every:g} s in {recovery}" if recovery else "no checkpoints"
            say(
                f"{settings.flow.name}: {what} on {settings.source}"
                f" ({counted(len(bounds), 'partition')}, {until}); {where}"
            )
            if recovery is None:
                say("without --recovery a restart begins anew and sends its output again")
            if sys.stderr.isatty():
                display.enter_context(_live(progress, in_bytes=isinstance(settings.source, DirectoryTopic)))

        stopped = run_flow(
            settings,
            recovery=recovery,
            checkpoint_seconds=checkpoint_every,
            partitions=recovery_partitions,
            create_topics=create_topics,
            adopt=adopt,
            on_start=started,
            on_compile=lambda: say("compiling the operator's kernels, once for this installation (some seconds) ..."),
            progress=progress,
            work=work,
        )
    how = "stopped at a checkpoint" if stopped else "the input has ended"
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
