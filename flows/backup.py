"""A flow's state in files, and from files: consistent per lane, also of a flow that runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.filling import fill, refuse_state
from sluiceway.flows.reach import Reached, refuse_foreign, refuse_running
from sluiceway.topics.backup_files import Manifest, begin, finish, read_lane, read_manifest, write_lane
from sluiceway.topics.state_records import Contents
from sluiceway.topics.store import BelongsTo, first_difference
from sluiceway.wording import counted


@dataclass(frozen=True, slots=True)
class Copy:
    """All lanes of a flow, each as of some commit, and the run that they are about."""

    lanes: list[Contents]
    belongs_to: BelongsTo


def read_all(reached: Reached, step: Callable[[], None]) -> Copy:
    """Everything a flow knows; it may run meanwhile, and each lane is then as of a commit of its own."""
    store = reached.store
    refuse_foreign(reached)
    found: dict[int, Contents] = {}
    # lane 0, which may be the only one to keep the run, comes last: no lane is then of a later run
    for lane in reversed(range(reached.lanes if store is not None else 0)):
        assert store is not None
        found[lane] = store.read(lane)
        step()
    lanes = [replace(found[lane], opened=None) for lane in sorted(found)]
    commits = [contents.commit for contents in lanes if contents.commit is not None]
    if not commits:
        raise SettingsError(f"{reached.flow!r} has no state yet: nothing was ever committed to {reached.state}")
    runs = [contents.run for contents in lanes if contents.run is not None]
    run = max(runs, key=lambda each: each.number, default=None)
    # a lane that has learnt nothing may still be of settings that were mended since
    learnt = [contents.commit for contents in lanes if contents.commit is not None and contents.streams]
    for one, other in pairwise(learnt):
        if first_difference(one.belongs_to, other.belongs_to) is not None:
            raise FlowError(f"{reached.state} has lanes of flows with other settings: it cannot be copied")
    return Copy([replace(contents, run=run) for contents in lanes], (learnt or commits)[0].belongs_to)


def backup(reached: Reached, directory: Path, step: Callable[[], None]) -> Manifest:
    """Write a backup; the directory is made."""
    if reached.store is None:
        raise SettingsError(f"{reached.flow!r} has no state yet: there is no {reached.state.removeprefix('the ')}")
    begin(directory)
    copy = read_all(reached, step)
    entries = [write_lane(directory, lane, contents) for lane, contents in enumerate(copy.lanes)]
    return finish(
        directory,
        flow=reached.flow,
        belongs_to=copy.belongs_to,
        state=str(reached.settings.state),
        lanes=entries,
    )


def restore(reached: Reached, directory: Path, step: Callable[[], None]) -> Manifest:
    """Put a backup where the flow has no state; nothing is changed unless all of it can be used."""
    manifest = read_manifest(directory)
    if reached.input is None:
        raise SettingsError(f"the input topic {reached.settings.source} does not exist: its positions mean nothing")
    wanted = reached.belongs_to
    difference = first_difference(manifest.belongs_to, wanted)
    if difference is not None:
        name, was, now = difference
        raise SettingsError(
            f"{directory} is a backup of flow {manifest.flow!r} with {name.replace('_', ' ')} = {was!r}, but the flow"
            f" has {now!r}: it is another flow's, or of other models; nothing was restored"
        )
    if len(manifest.lanes) != reached.input.partitions:
        raise SettingsError(
            f"{directory} has {counted(len(manifest.lanes), 'lane')}, but the input has"
            f" {counted(reached.input.partitions, 'partition')}:"
            f" keys have moved; nothing was restored"
        )
    refuse_running(reached)
    refuse_state(reached)
    lanes = [read_lane(directory, entry) for entry in manifest.lanes]
    fill(reached, lanes, step)
    return manifest
