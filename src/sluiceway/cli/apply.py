"""`sluiceway apply`: instances with only the selected features, on a topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli import log
from sluiceway.cli.log import LogFormat, LogFormatOption
from sluiceway.cli.options import Again, Json
from sluiceway.cli.run import (
    CheckpointEvery,
    Gone,
    GoneFlag,
    Listen,
    UnhealthyAfter,
    execute,
    refuse_gone,
)

if TYPE_CHECKING:
    from sluiceway.flows.settings import Settings
    from sluiceway.flows.work import Work


def apply(
    flow: Annotated[Path, typer.Argument(help="The selecting flow's TOML file.", metavar="FLOW")],
    checkpoint_every: CheckpointEvery = 2.0,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Create missing topics: applied, and the one for the state.")
    ] = False,
    again: Again = False,
    as_json: Json = False,
    listen: Listen = None,
    unhealthy_after: UnhealthyAfter = 30.0,
    log_format: LogFormatOption = LogFormat.TEXT,
    recovery: Gone = None,
    flow_recovery: Gone = None,
    recovery_partitions: Gone = None,
    adopt: GoneFlag = False,
) -> None:
    """Write FLOW's instances with only their selected features.

    They go to FLOW's topic `applied`. An instance gets the newest selection
    that FLOW had made before it met this instance: a matter of the data, not
    of timing. So each is held back until FLOW has passed it; FLOW must run, or
    have run.

    \b
    sluiceway apply spam.toml --create-topics
    """
    log.begin(log_format)
    refuse_gone(
        recovery=recovery, flow_recovery=flow_recovery, recovery_partitions=recovery_partitions, adopt=adopt
    )

    def load() -> tuple[Settings, str, Work]:
        from sluiceway.flows.apply import APPLYING, ApplySettings

        settings = ApplySettings.load(flow)
        return settings, f"what {settings.selecting_flow} selects, as far as it has come,", APPLYING

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
