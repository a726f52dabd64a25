"""A flow's models for a flow of another name: other outputs, other emission, the same models from here on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import orjson

from sluiceway.errors import SettingsError
from sluiceway.flows.backup import read_all
from sluiceway.flows.filling import fill, refuse_state
from sluiceway.flows.reach import Reached, refuse_running
from sluiceway.topics.directory import create_directory_topic, whole_size
from sluiceway.topics.state_records import CommitRecord, Contents, RunRecord
from sluiceway.topics.store import BelongsTo, first_difference
from sluiceway.topics.url import DirectoryTopic
from sluiceway.wording import counted


def fork(old: Reached, new: Reached, step: Callable[[], None]) -> list[Contents]:
    """Make the newest commits of `old`, which may run meanwhile, the first ones of `new`."""
    _refuse_shared(old, new)
    if new.input is None:
        raise SettingsError(f"the input topic {new.settings.source} does not exist")
    refuse_running(new)
    refuse_state(new)
    copy = read_all(old, step)
    refuse_other_models(repr(old.flow), repr(new.flow), {**copy.belongs_to, "flow": new.flow}, new.belongs_to)
    if len(copy.lanes) != new.input.partitions:
        raise SettingsError(
            f"{old.flow!r} has {counted(len(copy.lanes), 'lane')}, but the input has"
            f" {counted(new.input.partitions, 'partition')}: keys have"
            f" moved, and its models cannot go on"
        )
    _make_directories(new)
    lanes = [_first(lane, contents, new) for lane, contents in enumerate(copy.lanes)]
    fill(new, lanes, lambda: None)
    return lanes


def _refuse_shared(old: Reached, new: Reached) -> None:
    if old.flow == new.flow:
        raise SettingsError(f"both flows are called {old.flow!r}: a fork needs a flow.name of its own")
    if old.settings.state == new.settings.state:
        raise SettingsError(f"both flows keep their state in {old.settings.state}: a fork needs a place of its own")
    taken = [topic for topic in old.settings.outputs.values() if isinstance(topic, DirectoryTopic)]
    for name, topic in new.settings.outputs.items():
        if topic in taken:
            raise SettingsError(f"both flows write {topic} ({name}): a directory has one writer, name another one")


def refuse_other_models(old: str, new: str, found: BelongsTo, wanted: BelongsTo) -> None:
    """What models depend on must be the same wherever they go on."""
    difference = first_difference(found, wanted)
    if difference is None:
        return
    name, was, now = difference
    if name == "params" and isinstance(was, dict) and isinstance(now, dict):
        inner = first_difference(was, now)
        if inner is not None:
            name, was, now = f"operator.{inner[0]}", inner[1], inner[2]
    raise SettingsError(
        f"{old} was made with {name.replace('_', ' ')} = {orjson.dumps(was).decode()}, {new} has"
        f" {orjson.dumps(now).decode()}: its models would be others; outputs, emission and topics may differ, that may"
        f" not"
    )


def _make_directories(new: Reached) -> None:
    """As for any flow that begins: its own, and empty."""
    assert new.input is not None
    for topic in new.settings.outputs.values():
        if isinstance(topic, DirectoryTopic):
            create_directory_topic(topic, new.input.partitions)
            for lane in range(new.input.partitions):
                if whole_size(topic, lane):
                    raise SettingsError(f"{topic} already holds output: {new.flow!r} must begin with empty directories")


def _first(lane: int, contents: Contents, new: Reached) -> Contents:
    """The first commit of the new flow, before any run of it: whether it is bounded is its own affair."""
    commit, reads = contents.commit, new.settings.source_role
    positions = {} if commit is None else commit.positions
    if reads not in positions:
        # where the old flow would begin to read it was decided at the start of its run
        positions = decided(lane, contents.run, reads)
    sizes = {topic.identity: 0 for topic in new.settings.outputs.values() if isinstance(topic, DirectoryTopic)}
    before = CommitRecord.of(RunRecord.none(), positions, new.belongs_to, sizes, final=False)
    return replace(contents, opened=None, run=None, commit=before)


def decided(lane: int, run: RunRecord | None, reads: str) -> dict[str, int]:
    """Where a lane without a commit begins."""
    return {} if run is None or lane >= len(run.bounds) else {reads: run.bounds.starts[lane]}
