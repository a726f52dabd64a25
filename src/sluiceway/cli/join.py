"""`sluiceway join`: instances and their labels, from two topics, on one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli import log
from sluiceway.cli.log import LogFormat, LogFormatOption
from sluiceway.cli.options import Again, Json
from sluiceway.cli.run import (
    CheckpointEvery,
    Listen,
    UnhealthyAfter,
    execute,
)

if TYPE_CHECKING:
    from sluiceway.flows.settings import Settings
    from sluiceway.flows.work import Work


def join(
    flow: Annotated[Path, typer.Argument(help="The learning flow's TOML file.", metavar="FLOW")],
    checkpoint_every: CheckpointEvery = 2.0,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Create missing topics: labelled, and the one for the state.")
    ] = False,
    again: Again = False,
    as_json: Json = False,
    listen: Listen = None,
    unhealthy_after: UnhealthyAfter = 30.0,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Bring FLOW's instances and their labels together.

    Instances come from FLOW's topic `instances`, labels with the same ids from
    its topic `labels`; both go, as one record each, to its topic `labelled`,
    from which `sluiceway run FLOW` learns. Where an id comes again, the first
    instance has the first label, the second the second. The section join of
    FLOW says how long they wait for each other.

    \b
    sluiceway join spam.toml --create-topics
    """
    log.begin(log_format)

    def load() -> tuple[Settings, str, Work]:
        from sluiceway.flows.join import JOINING, JoinSettings

        settings = JoinSettings.load(flow)
        return settings, f"labels of {settings.inputs['labels']}, and instances,", JOINING

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
