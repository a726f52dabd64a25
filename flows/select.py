"""What `sluiceway run` does with a lane: decode its polls, learn from them, select."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any

from sluiceway.flows.memory import memory_of
from sluiceway.flows.parts import Opening, OpenReader, Processor
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.progress import Progress
from sluiceway.flows.settings import Settings
from sluiceway.flows.watched_paths import WatchedPaths
from sluiceway.operators.kinds.kind import AnyDecoder
from sluiceway.operators.stages.streams import AnyLane
from sluiceway.schemas import decode
from sluiceway.schemas.lane import LaneBatch, RawPoll
from sluiceway.schemas.record_map import ROLES
from sluiceway.schemas.refusal import NamedBy
from sluiceway.topics.kafka_writer import RECORD_OVERHEAD
from sluiceway.topics.reader import Reader, open_reader
from sluiceway.topics.registry import check_registry
from sluiceway.topics.store import Restored
from sluiceway.topics.url import DirectoryTopic

Decode = Callable[[RawPoll], LaneBatch]


class Selecting:
    """The work of `sluiceway run`."""

    step = "select"

    def belongs_to(self, settings: Settings, around: Surroundings) -> dict[str, Any]:
        return {
            "flow": settings.flow.name,
            "input": settings.source.identity,
            "input_id": around.input_id,
            **model_settings(settings),
        }

    def is_compiled(self, settings: Settings) -> bool:
        """Whether `prepare` will be quick."""
        kind, plan = settings.kind, settings.plan
        return kind.is_compiled(plan) and decode.is_compiled(mapped=plan.record_map is not None)

    def prepare(self, settings: Settings, on_compile: Callable[[], None] | None) -> None:
        """Load or compile the kernels before the first record waits for them."""
        if on_compile is not None and not self.is_compiled(settings):
            on_compile()
        decode.warm_up(mapped=settings.plan.record_map is not None)
        settings.kind.warm_up(settings.plan)

    def reader(self, settings: Settings, around: Surroundings, progress: Progress) -> OpenReader:
        source, config, reads = settings.source, settings.kafka, settings.source_role

        def open_lane(opening: Opening) -> Reader:
            return open_reader(source, config, opening.lane, *opening.span(reads))

        return open_lane

    def decode(self, settings: Settings, around: Surroundings, progress: Progress) -> Decode:
        return decoding(settings, around, progress)

    def processor(self, settings: Settings, around: Surroundings) -> Callable[[int, Restored], Processor]:
        selections = around.outputs.get("selections")
        limit = None if selections is None else selections.max_message_bytes - RECORD_OVERHEAD
        streams = settings.kind.streams(settings.plan, limit)
        topic, reads = settings.source.name, settings.source_role
        memory = memory_of(settings.flow.memory, around.lanes)

        def make(number: int, restored: Restored) -> AnyLane:
            lane = streams.lane(topic, number)
            position = None if restored.commit is None else restored.commit.positions.get(reads)
            lane.restore(position, restored.asleep, None if memory is None else memory.part())
            return lane

        return make


SELECTING = Selecting()


def model_settings(settings: Settings) -> dict[str, Any]:
    """The settings that a model depends on, wherever its instances come from.

    Features are known by their names, so `input.map` is none of them: it may be mended while a flow goes on.
    """
    return {
        "operator": settings.operator.name,
        "state_version": settings.operator_class.STATE_VERSION,
        "params": settings.make_operator().params,
        "stream": settings.input.stream,
        "scale": settings.scale,
        "intercept": settings.input.intercept or None,
        "classes": settings.input.classes,
        "target_type": settings.input.target_type,
        "feature_names": settings.input.feature_names,
        "window": None if settings.window is None else settings.window.model_dump(),
    }


def _named_by(settings: Settings) -> NamedBy:
    given = settings.input.stream
    if settings.input.map is not None and settings.input.map.stream is not None:
        return "member"
    return "member" if given == "key" and isinstance(settings.source, DirectoryTopic) else given


def watched_paths(settings: Settings, progress: Progress) -> WatchedPaths:
    """Of the map: the label's, and all others that the flow's file names."""
    given = settings.input.map
    paths = {} if given is None else {"label": given.label, **given.model_dump(include=given.model_fields_set)}
    watched = {f"input.map.{name}": paths[name] for name in (*ROLES, "features") if paths.get(name)}
    label = "y" if given is None else given.label
    return WatchedPaths(settings.flow.name, watched, settings.plan.as_json, progress.warnings, label)


def decoding(settings: Settings, around: Surroundings, progress: Progress) -> Decode:
    """Reads polls as the settings say, with a decoder for each worker thread: it keeps names and room between them."""
    if settings.registry is not None:
        check_registry(settings.registry)
    make = partial(settings.kind.decoder, settings.plan, around.lanes, _named_by(settings))
    decoders: defaultdict[int, AnyDecoder] = defaultdict(make)
    watch = watched_paths(settings, progress)

    def decode(poll: RawPoll) -> LaneBatch:
        batch = decoders[get_ident()].decode(poll)
        watch.look(poll, batch.dead_letters)
        return batch

    return decode
