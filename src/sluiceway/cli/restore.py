"""`sluiceway restore`: a flow's state from a backup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Apply, Join, Json

if TYPE_CHECKING:
    from sluiceway.flows.reach import Reached
    from sluiceway.topics.backup_files import Manifest


def restore(
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file.", metavar="FLOW")],
    directory: Annotated[Path, typer.Argument(help="The backup.", metavar="DIR", show_default=False)],
    applying: Apply = False,
    joining: Join = False,
    as_json: Json = False,
) -> None:
    """Put FLOW's state back from the backup in DIR; `run` goes on from there.

    Refused while the flow runs or has a state (`sluiceway reset` removes it),
    and for a backup that is another flow's or damaged. The flow reads on from
    the backup's position. Kafka outputs get again what was written after it; in
    directories what stands after it is compared with what comes again, so
    nothing comes twice.

    \b
    sluiceway restore spam.toml backups/spam-monday
    """
    from dataclasses import asdict

    from sluiceway.cli.log import say
    from sluiceway.cli.screen import counted, working
    from sluiceway.flows.backup import restore as put_back
    from sluiceway.flows.reach import load, reach

    reached = reach(load(flow, applying=applying, joining=joining))
    with working(f"restoring {reached.flow}", reached.lanes) as step:
        manifest = put_back(reached, directory, step)
    if as_json:
        print(json.dumps({"directory": str(directory), **asdict(manifest)}, indent=2))
    else:
        streams = counted(sum(lane.streams for lane in manifest.lanes), "stream")
        say(f"{manifest.flow}: {counted(len(manifest.lanes), 'lane')}, {streams} restored from {directory}")
    say(_what_follows(reached, manifest))


def _what_follows(reached: Reached, manifest: Manifest) -> str:
    from sluiceway.cli.screen import moment
    from sluiceway.topics.url import DirectoryTopic, KafkaTopic

    outputs = reached.settings.outputs.values()
    told = f"it goes on from its commits of {moment(min((lane.at for lane in manifest.lanes if lane.at), default=0))}"
    if any(isinstance(topic, KafkaTopic) for topic in outputs):
        told += (
            "; ATTENTION: what it had written to Kafka topics after them COMES AGAIN (at least once, from here up to"
            " where the flow had been)"
        )
    if any(isinstance(topic, DirectoryTopic) for topic in outputs):
        told += (
            "; what stands after them in its output directories is compared with what comes again: the same is not"
            " written twice, anything else stops the flow"
        )
    return told
