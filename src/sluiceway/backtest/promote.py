"""A variant's models for a live flow, which goes on where the backtest ended.

Its readers never saw what the variant selected meanwhile. So each stream's newest snapshot of the backtest becomes the
flow's first one, together with the state: all that it has selected has entered, nothing has left. Whatever comes next
is what a flow would write that had run from the window's beginning on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from sluiceway.backtest.results import Results
from sluiceway.backtest.start import Start, of_variant
from sluiceway.backtest.variant_lane import folder_of, selections_of
from sluiceway.errors import SettingsError
from sluiceway.flows.filling import Words, fill, refuse_state
from sluiceway.flows.fork import refuse_other_models
from sluiceway.flows.preflight import look_around, missing_topics
from sluiceway.flows.reach import Reached, refuse_running
from sluiceway.schemas.encode import snapshot_key
from sluiceway.schemas.lane import LaneOutput, OutRecord
from sluiceway.topics.directory import partition_path, whole_size
from sluiceway.topics.directory_writer import DirectoryWriter
from sluiceway.topics.state_records import CommitRecord, Contents, RunRecord
from sluiceway.topics.url import DirectoryTopic
from sluiceway.wording import counted


@dataclass(frozen=True, slots=True)
class Promoted:
    """What was put where."""

    label: str
    positions: tuple[int, ...]
    streams: int
    snapshots: int


def numbered(results: Results, variant: str) -> int:
    """Of a variant named by its number or its label."""
    for own in results.variants:
        if variant in (str(own["number"]), own["label"]):
            return int(own["number"])
    named = ", ".join(f"{own['number']} ({own['label']})" for own in results.variants[:10])
    raise SettingsError(f"{results.folder} has no variant {variant!r}; there are {named}")


def promote(
    results: Results, number: int, flow: Reached, step: Callable[[], None], *, create_topics: bool = False
) -> Promoted:
    """Make what the variant had learnt the first state of `flow`, all of it or nothing."""
    label, settings = results.variants[number]["label"], flow.settings
    _refuse_odd(results)
    if flow.input is None:
        raise SettingsError(f"the input topic {settings.source} does not exist")
    refuse_running(flow)
    refuse_state(flow)
    start = of_variant(folder_of(results.folder, number))
    refuse_other_models(f"variant {label}", repr(flow.flow), {**start.belongs_to, "flow": flow.flow}, flow.belongs_to)
    if len(start.lanes) != flow.input.partitions:
        raise SettingsError(
            f"the backtest read {counted(len(start.lanes), 'partition')}, the input has {flow.input.partitions}: keys"
            f" have moved, and the models cannot go on"
        )
    missing = missing_topics(settings)
    if missing and not create_topics:
        raise SettingsError(f"there is no topic {', '.join(map(repr, missing))}: --create-topics makes what is missing")
    around = look_around(settings, create=create_topics)
    words = [_words(results.folder, number, lane, flow.flow) for lane in range(len(start.lanes))]
    lanes = _lanes(start, words, flow)
    fill(flow, lanes, step, Words(words, {name: info for name, info in around.outputs.items() if name == "selections"}))
    return Promoted(
        label,
        start.positions(settings.source_role),
        sum(len(lane.streams) for lane in lanes),
        sum(len(output.selections) for output in words),
    )


def _refuse_odd(results: Results) -> None:
    """Models that a live flow could not have come by."""
    content = results.content
    if content["label_delay"] is not None:
        raise SettingsError(
            f"labels were withheld in this backtest ({content['label_delay']}), so its models learnt in another order"
            f" than a live flow: promote one made without --label-delay"
        )
    if content["streams_chosen"]:
        named = ", ".join(content["streams_chosen"])
        raise SettingsError(
            f"this backtest replayed only {named}: the other streams of the flow would begin anew in the middle;"
            f" promote one made without --stream"
        )


def _words(folder: Path, number: int, lane: int, flow: str) -> LaneOutput:
    """The newest snapshot of each stream, as the first that there is, in the order in which they were made."""
    newest: dict[str, bytes] = {}
    for line in _lines(partition_path(selections_of(folder_of(folder, number)), lane)):
        stream = orjson.loads(line)["stream"]
        newest.pop(stream, None)
        newest[stream] = line
    return LaneOutput(lane, 0, 0, False, selections=[_first(line, stream, flow) for stream, line in newest.items()])


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _first(line: bytes, stream: str, flow: str) -> OutRecord:
    snapshot = orjson.loads(line)
    snapshot |= {"flow": flow, "entered": [entry["feature"] for entry in snapshot["selected"]], "left": []}
    if "redundant" in snapshot:
        snapshot["redundant"] = {}
    return OutRecord(0, snapshot_key(flow, stream), orjson.dumps(snapshot))


def _lanes(start: Start, words: list[LaneOutput], flow: Reached) -> list[Contents]:
    """The flow's first commits, before any run of it. Directories are written first: what they hold without a state is
    compared with what is written again."""
    directories = {name: topic for name, topic in flow.settings.outputs.items() if isinstance(topic, DirectoryTopic)}
    nothing = {topic.identity: 0 for topic in directories.values()}
    positions, lanes = start.positions(flow.settings.source_role), []
    for number, contents in enumerate(start.lanes):
        at: dict[str, int] = {flow.settings.source_role: positions[number]}
        before = CommitRecord.of(RunRecord.none(), at, flow.belongs_to, nothing, final=False)
        with closing(DirectoryWriter(number, directories, before)) as writer:
            writer.write(words[number])
            sizes = writer.sync()
        for topic in directories.values():
            if whole_size(topic, number) != sizes[topic.identity]:
                raise SettingsError(f"{topic} already holds output: {flow.flow!r} must begin with empty directories")
        lanes.append(replace(contents, opened=None, run=None, commit=replace(before, sizes=sizes)))
    return lanes
