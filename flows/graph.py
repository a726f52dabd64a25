"""Settings to a Bytewax dataflow: source -> decode -> select -> sink. Wiring only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import bytewax.operators as op
from bytewax.dataflow import Dataflow

from sluiceway.flows.preflight import Surroundings, look_around
from sluiceway.flows.progress import Progress
from sluiceway.flows.settings import Settings
from sluiceway.flows.topics.bounds import Bounds
from sluiceway.flows.topics.directory import DirectoryLane, DirectoryReader, directory_bounds
from sluiceway.flows.topics.kafka_sink import RECORD_OVERHEAD, IdempotentLane, KafkaOutput, TransactionalLane
from sluiceway.flows.topics.kafka_source import KafkaReader, kafka_bounds
from sluiceway.flows.topics.sink import TopicSink, Writer, WriterState
from sluiceway.flows.topics.source import Reader, TopicSource
from sluiceway.flows.topics.url import DirectoryTopic, KafkaTopic
from sluiceway.operators.adapters.lanes import select
from sluiceway.operators.stages.emission import Emit
from sluiceway.operators.stages.stream import StreamConfig
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import LaneBatch, RawPoll, lane_key

SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Running:
    """What only `sluiceway run` can give a flow."""

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
    around = look_around(settings)
    if running is None:
        running = Running(lambda: resolve_bounds(settings, around), lambda: False, False, 10.0)
    flow = Dataflow(settings.flow.name)
    reader = partial(open_reader, settings, running)
    polls = op.input(SOURCE, flow, TopicSource(around.lanes, reader, running.stopping, running.progress))
    batches = op.map("decode", polls, partial(_decode, decoder(settings, around)))
    outputs = select("select", batches, _stream_config(settings, around), settings.instances.name)
    op.output("sink", outputs, sink(settings, around, running))
    return flow


def source_step(settings: Settings) -> str:
    """The source's step id as the checkpoint store has it."""
    return f"{settings.flow.name}.{SOURCE}"


def resolve_bounds(settings: Settings, around: Surroundings) -> Bounds:
    """From where to where each partition is read, as of now."""
    topic, given = settings.instances, settings.input
    if isinstance(topic, KafkaTopic):
        return kafka_bounds(topic, settings.kafka, around.lanes, given.start, given.stop)
    return directory_bounds(topic, around.lanes, given.start, given.stop)


def open_reader(settings: Settings, running: Running, partition: int, position: int | None) -> Reader:
    """Read a partition of the instances from the checkpoint's position on, or from where the run begins."""
    topic, bounds = settings.instances, running.bounds()
    start = bounds.starts[partition] if position is None else position
    if isinstance(topic, KafkaTopic):
        return KafkaReader(topic, settings.kafka, partition, start, bounds.stops[partition])
    return DirectoryReader(topic, partition, start, bounds.stops[partition])


def _decode(decoder: Decoder, poll: RawPoll) -> tuple[str, LaneBatch]:
    return lane_key(poll.lane), decoder.decode(poll)


def decoder(settings: Settings, around: Surroundings) -> Decoder:
    """Reads the instances as the settings say."""
    given = settings.input
    of_directory = isinstance(settings.instances, DirectoryTopic)
    return Decoder(
        settings.instances.name,
        around.lanes,
        stream="member" if given.stream == "key" and of_directory else given.stream,
        classes=given.classes,
        feature_names=given.feature_names,
        max_features_per_instance=given.max_features_per_instance,
    )


def _stream_config(settings: Settings, around: Surroundings) -> StreamConfig:
    given, emit = settings.input, settings.emit
    selections = around.outputs.get("selections")
    classes = given.classes
    return StreamConfig(
        flow=settings.flow.name,
        operator=settings.operator.name,
        new_learner=settings.make_learner,
        learner_from_state=settings.learner_class.from_state,
        emit=Emit(emit.every, emit.on_change, emit.min_gap, emit.final, emit.top),
        scale=given.scale,
        max_pending=given.max_pending,
        predictions=settings.topics.predictions is not None,
        classes=None if classes is None else (classes[0], classes[1]),
        max_snapshot_bytes=None if selections is None else selections.max_message_bytes - RECORD_OVERHEAD,
    )


def sink(settings: Settings, around: Surroundings, running: Running) -> TopicSink:
    """Writes every output topic, exactly once where there is a store to agree with."""
    directories = {
        name: topic for name, topic in settings.outputs.items() if isinstance(topic, DirectoryTopic)
    }
    output = kafka_output(settings, around, running.checkpoint_seconds)
    exactly_once = running.exactly_once and settings.output.delivery == "exactly-once"
    starters = ThreadPoolExecutor(max_workers=around.lanes, thread_name_prefix="lane-start")

    def open_writers(lane: int, states: list[WriterState] | None) -> Sequence[Writer]:
        writers: list[Writer] = []
        if directories:
            writers.append(DirectoryLane(lane, directories, states[0] if states else None))
        if output is not None:
            writers.append(TransactionalLane(lane, output, starters) if exactly_once else IdempotentLane(lane, output))
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
    instances = settings.instances
    return instances.name if isinstance(instances, KafkaTopic) else next(iter(around.outputs.values())).name
