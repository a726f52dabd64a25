"""`sluiceway apply`: instances with only the selected features, on a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def apply(
    flow: Annotated[Path, typer.Argument(help="The selecting flow's TOML file.", metavar="FLOW")],
    recovery: Annotated[
        Path | None,
        typer.Option(help="Checkpoint store of applying, not the flow's own; created if missing.", metavar="DIR"),
    ] = None,
    flow_recovery: Annotated[
        Path | None,
        typer.Option(help="The selecting flow's store; needed where its topics are directories.", metavar="DIR"),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(help="Seconds between checkpoints; output becomes visible at each.", metavar="SECONDS")
    ] = 2.0,
    recovery_partitions: Annotated[
        int, typer.Option(help="Partitions of a new store: at least as many as processes will ever run.", metavar="N")
    ] = 8,
    create_topics: Annotated[bool, typer.Option("--create-topics", help="Create a missing topic applied.")] = False,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Go on although store and output tell different stories (see the refusal)."),
    ] = False,
) -> None:
    """Write FLOW's instances with only their selected features to its topic `applied`.

    An instance gets the newest selection that FLOW had made before it met this instance: a matter of the data, not of
    timing. So each is held back until FLOW has passed it; FLOW must run, or have run, with --recovery.

    \b
    sluiceway apply spam.toml --recovery ./spam-apply-store --create-topics
    """
    from sluiceway.errors import SettingsError
    from sluiceway.flows.apply import ApplySettings, work
    from sluiceway.flows.run import run as run_flow
    from sluiceway.flows.topics.bounds import Bounds

    from .run import say, tell_warnings

    if not 0.05 <= checkpoint_every <= 300:
        raise SettingsError(f"--checkpoint-every must lie between 0.05 and 300 seconds, not {checkpoint_every:g}")
    if not 1 <= recovery_partitions <= 1000:
        raise SettingsError(f"--recovery-partitions must lie between 1 and 1000, not {recovery_partitions}")
    tell_warnings()
    settings = ApplySettings.load(flow)

    def started(bounds: Bounds) -> None:
        until = "until stopped" if None in bounds.stops else "to the end"
        say(
            f"{settings.flow.name}: the selections of {settings.selecting_flow} on {settings.source}"
            f" ({len(bounds)} partitions, {until}), as far as {settings.selecting_flow} has come"
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
        work=work(flow_recovery),
    )
    say(f"{settings.flow.name}: stopped at a checkpoint" if stopped else f"{settings.flow.name}: the input has ended")
