"""Putting a whole state where a flow has none: what restoring, forking and promoting end with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.preflight import make_state_topic
from sluiceway.flows.reach import Reached, kafka_store, refuse_running
from sluiceway.schemas.lane import LaneOutput
from sluiceway.topics import groups, kafka
from sluiceway.topics.directory_store import DirectoryStore, lane_path, write_new
from sluiceway.topics.kafka_store import KafkaLane, KafkaStore
from sluiceway.topics.offsets import Offsets
from sluiceway.topics.state_records import Contents
from sluiceway.topics.url import DirectoryTopic, KafkaTopic


def refuse_state(reached: Reached) -> None:
    """Only where there is none may one be put."""
    if any(commit is not None for commit in reached.commits()):
        raise SettingsError(
            f"{reached.state} holds a state already: `sluiceway reset FLOW` removes it, for good"
        )


@dataclass(frozen=True, slots=True)
class Words:
    """Records that become visible together with a state on Kafka: a lane's output each."""

    outputs: Sequence[LaneOutput] = ()
    topics: Mapping[str, kafka.TopicInfo] = field(default_factory=dict)
    """Where they go, by what they are."""


def fill(
    reached: Reached, lanes: Sequence[Contents], step: Callable[[], None], words: Words | None = None
) -> None:
    """Make the flow's state what `lanes` say, all of it or nothing; `step` is called for each lane."""
    refuse_running(reached)
    refuse_state(reached)
    if isinstance(reached.settings.state, DirectoryTopic):
        _fill_directory(reached, lanes, step)
    else:
        _fill_topic(reached, lanes, step, words or Words())


def _fill_directory(reached: Reached, lanes: Sequence[Contents], step: Callable[[], None]) -> None:
    """Made beside its place and moved there: half a store is never seen."""
    state = reached.settings.state
    assert isinstance(state, DirectoryTopic)
    if isinstance(reached.store, DirectoryStore):  # lanes that were opened and never committed
        reached.store.remove()
    fresh = state.path.with_name(f"{state.path.name}.{os.getpid()}.new")
    try:
        fresh.mkdir(parents=True)
        for number, contents in enumerate(lanes):
            # lane 0 keeps the run for all
            write_new(lane_path(fresh, number), contents if number == 0 else replace(contents, run=None))
            step()
        _sync(fresh)
        fresh.rename(state.path)
        _sync(state.path.parent)
    except OSError as problem:
        raise FlowError(f"{reached.state} cannot be made: {(problem.strerror or str(problem)).lower()}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fill_topic(reached: Reached, lanes: Sequence[Contents], step: Callable[[], None], words: Words) -> None:
    """One transaction a lane, each by the lane's own producer, so that whoever opens it meanwhile fences this one.

    They are committed one after the other at the end. Before that the flow's group is told the positions: a lane that
    has none but whose group has one is refused by `run`, so a death between two commits is not taken for a new flow.
    """
    settings = reached.settings
    store = kafka_store(settings, make_state_topic(settings, len(lanes)), reached.belongs_to, words.topics)
    with ExitStack() as stack:
        filled: list[KafkaLane] = []
        for number, contents in enumerate(lanes):
            lane = KafkaLane(number, store, lambda: True)
            stack.callback(lane.close)
            lane.fill(contents)
            if words.outputs:
                lane.write(words.outputs[number])
            filled.append(lane)
            step()
        _tell_group(reached, lanes)
        for number, lane in enumerate(filled):
            try:
                lane.seal()
            except FlowError as problem:
                if number == 0:
                    with suppress(FlowError):
                        groups.remove(store.topic.bootstrap, settings.kafka, [reached.flow])
                    raise
                raise FlowError(
                    f"{problem}; lanes 0 to {number - 1} of {reached.flow!r} are written, the others are not:"
                    f" `sluiceway reset FLOW`, and try again"
                ) from problem


def _tell_group(reached: Reached, lanes: Sequence[Contents]) -> None:
    settings, source = reached.settings, reached.settings.source
    if isinstance(source, KafkaTopic):
        told = {
            number: contents.commit.positions for number, contents in enumerate(lanes) if contents.commit is not None
        }
        with closing(Offsets(reached.flow, source.bootstrap, settings.kafka, settings.read_names)) as offsets:
            offsets.tell_all(told)


def fence(store: KafkaStore, lanes: int) -> None:
    """After this nobody who had a lane before can commit."""
    for number in range(lanes):
        lane = KafkaLane(number, store, lambda: True)
        try:
            lane.fence()
        finally:
            lane.close()
