"""`sluiceway run`: run a flow until its input ends or it is stopped."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer


def run(
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file.", metavar="FLOW")],
    recovery: Annotated[
        Path | None,
        typer.Option(help="Checkpoint store: created if missing, resumed if present.", metavar="DIR"),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(help="Seconds between checkpoints; output becomes visible at each.", metavar="SECONDS")
    ] = 2.0,
    recovery_partitions: Annotated[
        int, typer.Option(help="Partitions of a new store: at least as many as processes will ever run.", metavar="N")
    ] = 8,
    create_topics: Annotated[bool, typer.Option("--create-topics", help="Create missing output topics.")] = False,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Go on although store and output tell different stories (see the refusal)."),
    ] = False,
) -> None:
    """Run FLOW. SIGTERM or Ctrl-C finishes the epoch, checkpoints and exits 0; run again to go on.

    sluiceway run spam.toml --recovery ./spam-store --checkpoint-every 0.5
    """
    from sluiceway.errors import SettingsError
    from sluiceway.flows.run import run as run_flow
    from sluiceway.flows.settings import Settings
    from sluiceway.flows.topics.bounds import Bounds

    if not 0.05 <= checkpoint_every <= 300:
        raise SettingsError(f"--checkpoint-every must lie between 0.05 and 300 seconds, not {checkpoint_every:g}")
    if not 1 <= recovery_partitions <= 1000:
        raise SettingsError(f"--recovery-partitions must lie between 1 and 1000, not {recovery_partitions}")
    logging.basicConfig(level=logging.WARNING, format="sluiceway: %(name)s: %(message)s", stream=sys.stderr)
    settings = Settings.load(flow)

    def started(bounds: Bounds) -> None:
        until = "until stopped" if None in bounds.stops else "to the end"
        where = f"checkpoints every {checkpoint_every:g} s in {recovery}" if recovery else "no checkpoints"
        say(
            f"{settings.flow.name}: {settings.operator.name} on {settings.instances}"
            f" ({len(bounds)} partitions, {until}); {where}"
        )
        if recovery is None:
            say("without --recovery a restart begins anew and sends its output again")

    stopped = run_flow(
        settings,
        recovery=recovery,
        checkpoint_seconds=checkpoint_every,
        partitions=recovery_partitions,
        create_topics=create_topics,
        adopt=adopt,
        on_start=started,
        on_compile=lambda: say("compiling the operator's kernels, once for this installation (some seconds) ..."),
    )
    say(f"{settings.flow.name}: stopped at a checkpoint" if stopped else f"{settings.flow.name}: the input has ended")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
