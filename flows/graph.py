"""Settings to a Bytewax dataflow: source -> decode -> select -> sink. Wiring only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import get_ident

import bytewax.operators as op
from bytewax.dataflow import Dataflow

from sluiceway.flows.preflight import Surroundings, look_around
from sluiceway.flows.progress import Progress
from sluiceway.flows.settings import Settings
from sluiceway.flows.sink import TopicSink, Writer, WriterState
from sluiceway.flows.source import Reader, TopicSource
from sluiceway.operators.adapters.failure import noted
from sluiceway.operators.adapters.lanes import select
from sluiceway.operators.stages.column_stream import ColumnStreamConfig
from sluiceway.operators.stages.emission import Emit
from sluiceway.operators.stages.stream import StreamConfig
from sluiceway.operators.stages.streams import StreamKind
from sluiceway.operators.stages.unscored import Unscored
from sluiceway.operators.stages.window_stream import WindowStreamConfig
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.decode_columns import ColumnDecoder
from sluiceway.schemas.lane import LaneBatch, RawPoll, lane_key
from sluiceway.schemas.refusal import NamedBy
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory_reader import DirectoryReader, directory_bounds
from sluiceway.topics.directory_writer import DirectoryLane, DirectoryOutput
from sluiceway.topics.kafka_reader import KafkaReader, kafka_bounds
from sluiceway.topics.kafka_writer import RECORD_OVERHEAD, IdempotentLane, KafkaOutput, TransactionalLane
from sluiceway.topics.url import DirectoryTopic, KafkaTopic

SOURCE, SINK = "source", "sink"


@dataclass(frozen=True, slots=True)
class Running:
    """What only `sluiceway run` can give a flow."""

    around: Surroundings
    bounds: Callable[[], Bounds]
    stopping: Callable[[], bool]
    exactly_once: bool
    """Whether there is a checkpoint store for transactions to agree with."""
    checkpoint_seconds: float
    progress: Progress = field(default_factory=Progress)


def build(settings: Settings | Path | str, running: Running | None = None) -> Dataflow:
    """The flow as a dataflow. By itself, under `python -m bytewax.run`, it delivers at least once and ends abruptly."""
    if not isinstance(settings, Settings):
        settings = Settings.load(Path(settings))
    if running is None:
        around = look_around(settings)
        bounds = resolve_bounds(settings, around)
        running = Running(around, lambda: bounds, lambda: False, False, 10.0)
    around = running.around
    flow = Dataflow(settings.flow.name)
    reader = partial(open_reader, settings, running)
    polls = op.input(SOURCE, flow, TopicSource(around.lanes, reader, running.stopping, running.progress))
    batches = op.map("decode", polls, partial(_decode, decoding(settings, around)))
    outputs = select("select", batches, _stream_kind(settings, around), settings.source.name)
    op.output(SINK, outputs, sink(settings, around, running))
    return flow


def source_step(settings: Settings) -> str:
    """The source's step id as the checkpoint store has it."""
    return f"{settings.flow.name}.{SOURCE}"


def sink_step(settings: Settings) -> str:
    """The sink's."""
    return f"{settings.flow.name}.{SINK}"


def resolve_bounds(settings: Settings, around: Surroundings) -> Bounds:
    """From where to where each partition is read, as of now."""
    topic, given = settings.source, settings.input
    if isinstance(topic, KafkaTopic):
        return kafka_bounds(topic, settings.kafka, around.lanes, given.start, given.stop)
    return directory_bounds(topic, around.lanes, given.start, given.stop)


def open_reader(settings: Settings, running: Running, partition: int, position: int | None) -> Reader:
    """Read a partition of the input from the checkpoint's position on, or from where the run begins."""
    topic, bounds = settings.source, running.bounds()
    start = bounds.starts[partition] if position is None else position
    if isinstance(topic, KafkaTopic):
        return KafkaReader(topic, settings.kafka, partition, start, bounds.stops[partition])
    return DirectoryReader(topic, partition, start, bounds.stops[partition])


@noted
def _decode(decode: Decode, poll: RawPoll) -> tuple[str, LaneBatch]:
    return lane_key(poll.lane), decode(poll)


def _named_by(settings: Settings) -> NamedBy:
    given = settings.input.stream
    return "member" if given == "key" and isinstance(settings.source, DirectoryTopic) else given


Decode = Callable[[RawPoll], LaneBatch]


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


def _stream_kind(settings: Settings, around: Surroundings) -> StreamKind:
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


def sink(settings: Settings, around: Surroundings, running: Running) -> TopicSink:
    """Writes every output topic, exactly once where there is a store to agree with."""
    directories = {
        name: topic for name, topic in settings.outputs.items() if isinstance(topic, DirectoryTopic)
    }
    untouched = (0,) * around.lanes
    output = kafka_output(settings, around, running.checkpoint_seconds)
    exactly_once = running.exactly_once and settings.output.delivery == "exactly-once"
    starters = ThreadPoolExecutor(max_workers=around.lanes, thread_name_prefix="lane-start")

    def open_writers(lane: int, states: list[WriterState] | None) -> Sequence[Writer]:
        writers: list[Writer] = []
        if directories:
            begins = running.bounds().begins
            targets = [
                DirectoryOutput(name, topic, begins.get(topic.identity, untouched))
                for name, topic in directories.items()
            ]
            writers.append(DirectoryLane(lane, targets, states[0] if states else None))
        if output is not None:
            known = states[-1] if states else None
            writers.append(
                TransactionalLane(lane, output, starters, known) if exactly_once else IdempotentLane(lane, output)
            )
        return writers

    return TopicSink(around.lanes, open_writers)


def kafka_output(settings: Settings, around: Surroundings, checkpoint_seconds: float) -> KafkaOutput | None:
    """The flow's Kafka side; None if all its output goes to directories."""
    if not around.outputs:
        return None
    topics = settings.kafka_topics
    [bootstrap] = {topics[name].bootstrap for name in around.outputs}
    return KafkaOutput(
        flow=settings.flow.name,
        bootstrap=bootstrap,
        config=settings.kafka,
        topics=around.outputs,
        progress_topic=progress_topic(settings, around),
        transaction_seconds=max(120.0, 3 * checkpoint_seconds),
    )


def progress_topic(settings: Settings, around: Surroundings) -> str:
    """The Kafka topic whose partitions name the lanes in the flow's group."""
    source = settings.source
    return source.name if isinstance(source, KafkaTopic) else next(iter(around.outputs.values())).name
