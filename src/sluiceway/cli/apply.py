"""`sluiceway apply`: instances with only the selected features, on a topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.run import Adopt, CheckpointEvery, RecoveryPartitions, execute

if TYPE_CHECKING:
    from sluiceway.flows.apply import ApplySettings
    from sluiceway.flows.run import Work


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
    checkpoint_every: CheckpointEvery = 2.0,
    recovery_partitions: RecoveryPartitions = 8,
    create_topics: Annotated[bool, typer.Option("--create-topics", help="Create a missing topic applied.")] = False,
    adopt: Adopt = False,
) -> None:
    """Write FLOW's instances with only their selected features.

    They go to FLOW's topic `applied`. An instance gets the newest selection
    that FLOW had made before it met this instance: a matter of the data, not
    of timing. So each is held back until FLOW has passed it; FLOW must run, or
    have run, with --recovery.

    \b
    sluiceway apply spam.toml --recovery ./spam-apply-store --create-topics
    """

    def load() -> tuple[ApplySettings, str, Work]:
        from sluiceway.flows.apply import ApplySettings, work

        settings = ApplySettings.load(flow)
        return settings, f"what {settings.selecting_flow} selects, as far as it has come,", work(flow_recovery)

    execute(load, recovery, checkpoint_every, recovery_partitions, create_topics=create_topics, adopt=adopt)
