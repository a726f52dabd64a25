"""What `sluiceway run` does with a lane: decode its polls, learn from them, select."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any

from sluiceway.flows.lane_run import Processor
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.progress import Progress
from sluiceway.flows.settings import Settings
from sluiceway.flows.work import OpenReader
from sluiceway.operators.stages import bank_lane, scale
from sluiceway.operators.stages.bank_lane import BankLane
from sluiceway.operators.stages.column_stream import ColumnStreamConfig
from sluiceway.operators.stages.emission import Emit
from sluiceway.operators.stages.lane import Lane
from sluiceway.operators.stages.stream import StreamConfig
from sluiceway.operators.stages.streams import StreamKind
from sluiceway.operators.stages.unscored import Unscored
from sluiceway.operators.stages.window_stream import WindowStreamConfig
from sluiceway.schemas import decode
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.decode_columns import ColumnDecoder
from sluiceway.schemas.lane import LaneBatch, RawPoll
from sluiceway.schemas.refusal import NamedBy
from sluiceway.topics.kafka_writer import RECORD_OVERHEAD
from sluiceway.topics.reader import open_reader
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

    def prepare(self, settings: Settings, on_compile: Callable[[], None] | None) -> None:
        """Load or compile the kernels before the first record waits for them."""
        in_bank = _in_bank(stream_kind(settings, Surroundings(1, "", {}, None)))
        ready = settings.operator_class.is_compiled() if in_bank is None else bank_lane.is_compiled(in_bank)
        if on_compile is not None and not (ready and decode.is_compiled()):
            on_compile()
        decode.warm_up()
        if in_bank is not None:
            bank_lane.warm_up(in_bank, Decoder(1).decode)
        else:
            settings.operator_class.warm_up()
            scale.warm_up()

    def reader(self, settings: Settings, around: Surroundings, progress: Progress) -> OpenReader:
        return partial(open_reader, settings.source, settings.kafka)

    def decode(self, settings: Settings, around: Surroundings) -> Decode:
        return decoding(settings, around)

    def processor(self, settings: Settings, around: Surroundings) -> Callable[[int, Restored], Processor]:
        kind, topic, reads = stream_kind(settings, around), settings.source.name, settings.source_role

        def make(number: int, restored: Restored) -> Lane | BankLane:
            lane = lane_of(kind, topic, number)
            lane.restore(None if restored.commit is None else restored.commit.positions.get(reads), restored.streams)
            return lane

        return make


SELECTING = Selecting()


def lane_of(kind: StreamKind, topic: str, number: int) -> Lane | BankLane:
    """Learners share a bank; what else reads a stream has a stream's object each."""
    in_bank = _in_bank(kind)
    return Lane(kind, topic) if in_bank is None else BankLane(in_bank, topic, number)


def _in_bank(kind: StreamKind) -> StreamConfig | None:
    """The kind, if its streams are learners that live in a bank."""
    return kind if isinstance(kind, StreamConfig) and bank_lane.fits(kind) else None


def model_settings(settings: Settings) -> dict[str, Any]:
    """The settings that a model depends on, wherever its instances come from."""
    return {
        "operator": settings.operator.name,
        "state_version": settings.operator_class.STATE_VERSION,
        "params": settings.make_operator().params,
        "stream": settings.input.stream,
        "scale": settings.scale,
        "classes": settings.input.classes,
        "target_type": settings.input.target_type,
        "feature_names": settings.input.feature_names,
        "window": None if settings.window is None else settings.window.model_dump(),
    }


def _named_by(settings: Settings) -> NamedBy:
    given = settings.input.stream
    return "member" if given == "key" and isinstance(settings.source, DirectoryTopic) else given


def decoding(settings: Settings, around: Surroundings) -> Decode:
    """Reads polls as the settings say, with a decoder for each worker thread: it keeps names and room between them."""
    decoders: defaultdict[int, Decoder | ColumnDecoder] = defaultdict(partial(_decoder, settings, around))
    return lambda poll: decoders[get_ident()].decode(poll)


def _decoder(settings: Settings, around: Surroundings) -> Decoder | ColumnDecoder:
    given = settings.input
    if settings.source_role == "features":
        return ColumnDecoder(around.lanes, _named_by(settings), given.target_type)
    return Decoder(
        around.lanes,
        stream=_named_by(settings),
        classes=given.classes,
        feature_names=given.feature_names,
        max_features_per_instance=given.max_features_per_instance,
    )


def stream_kind(settings: Settings, around: Surroundings) -> StreamKind:
    """What the flow's streams are: the operator's kind and what it reads decide."""
    given, selections = settings.emit, around.outputs.get("selections")
    flow, operator = settings.flow.name, settings.operator.name
    emit = Emit(given.every, given.on_change, given.min_gap, given.final, given.top)
    limit = None if selections is None else selections.max_message_bytes - RECORD_OVERHEAD
    if settings.source_role == "features":
        return ColumnStreamConfig(
            flow=flow,
            operator=operator,
            emit=emit,
            max_snapshot_bytes=limit,
            new_selector=settings.make_operator,
            selector_from_state=settings.operator_class.from_state,
            verdicts=settings.topics.verdicts is not None,
        )
    if settings.window is not None:
        return WindowStreamConfig(
            flow=flow,
            operator=operator,
            emit=emit,
            max_snapshot_bytes=limit,
            new_selector=settings.make_operator,
            size=settings.window.size,
            slide=settings.window.slide or settings.window.size,
            max_pending=settings.input.max_pending,
        )
    scored, classes = settings.kind == "learner", settings.input.classes
    return StreamConfig(
        flow=flow,
        operator=operator,
        emit=emit,
        max_snapshot_bytes=limit,
        new_learner=settings.make_operator if scored else lambda: Unscored(settings.make_operator()),
        learner_from_state=settings.operator_class.from_state
        if scored
        else partial(Unscored.restored, settings.operator_class),
        scored=scored,
        look_every=1 if scored else settings.make_operator().params["refresh"],
        scale=settings.scale,
        max_pending=settings.input.max_pending,
        predictions=settings.topics.predictions is not None,
        classes=None if classes is None else (classes[0], classes[1]),
    )
