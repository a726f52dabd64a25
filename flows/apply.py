"""The apply flow: instances in, the same instances with only the selected features out, exactly once.

Which selection an instance gets is a matter of the data alone, never of timing: the instance at offset `o` gets the
newest snapshot of its stream whose `source` (the next offset to read when it was made) is at most `o`. That is what the
selecting flow had learnt before it met this instance.

Two topics arrive in no repeatable order, so an instance is held back until nothing can change its answer: until the
selecting flow has committed its progress past it, and everything that stood in the selections' partition at that
moment has been read. Instances and selections are co-partitioned, so each lane waits for its own partition only.

Nothing is kept in the checkpoint but the position: at a start the selections are read again from the beginning.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import bytewax.operators as op
import orjson
from bytewax.dataflow import Dataflow
from confluent_kafka import Consumer, KafkaException, TopicPartition

from sluiceway import kafka
from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.graph import SOURCE, Running, decoder, open_reader, sink
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.recovery import Store
from sluiceway.flows.run import Work
from sluiceway.flows.settings import FlowSection, Settings
from sluiceway.flows.topics.directory import DirectoryReader, partition_count
from sluiceway.flows.topics.kafka_source import KafkaReader
from sluiceway.flows.topics.source import Reader, TopicSource
from sluiceway.flows.topics.url import DirectoryTopic, KafkaTopic, Topic
from sluiceway.operators.adapters.failure import noted
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import LaneOutput, OutRecord, RawPoll, lane_key

logger = logging.getLogger("sluiceway.apply")

SUFFIX = "-apply"
LOOK_SECONDS = 0.2
"""Between two looks at the selecting flow's progress."""
QUESTION_SECONDS = 5.0


class ApplySettings(Settings):
    """The selecting flow's own file, read for applying: the output is `topics.applied`, the name has a suffix."""

    @classmethod
    def load(cls, path: Path) -> Self:
        settings = super().load(path)
        if settings.topics.applied is None:
            raise SettingsError(f"{path}: the setting topics.applied is missing: it says where applied instances go")
        if settings.topics.instances is None:
            raise SettingsError(f"{path}: the flow selects from columns: there are no instances to apply it to")
        name = FlowSection(name=settings.flow.name + SUFFIX)
        return settings.model_copy(update={"flow": name})

    @property
    def selecting_flow(self) -> str:
        return self.flow.name.removesuffix(SUFFIX)

    @property
    def output_urls(self) -> dict[str, str]:
        return {} if self.topics.applied is None else {"applied": self.topics.applied}

    @property
    def selections(self) -> Topic:
        return self.topic(self.topics.selections)


def work(flow_store: Path | None = None) -> Work:
    """What `run` does to apply; `flow_store` is the selecting flow's recovery store, needed for directory topics."""

    def build_it(settings: Settings, running: Running) -> Dataflow:
        assert isinstance(settings, ApplySettings)
        return build(settings, running, flow_store)

    return Work(build=build_it, belongs_to=_belongs_to, prepare=lambda settings, on_compile: None)


def build(settings: ApplySettings, running: Running, flow_store: Path | None = None) -> Dataflow:
    """source (instances and what is selected for them) -> apply -> sink."""
    around = running.around
    look_at = _refuse_unfit(settings, around, flow_store)

    def open_joined(partition: int, position: int | None) -> Reader:
        selections = settings.selections
        reader: Reader
        if isinstance(selections, KafkaTopic):
            low, _ = _marks(selections, settings.kafka, partition)
            reader = KafkaReader(selections, settings.kafka, partition, low, None)
        else:
            reader = DirectoryReader(selections, partition, 0, None)
        instances = open_reader(settings, running, partition, position)
        return JoinedReader(settings.selecting_flow, partition, instances, reader, look_at(partition))

    flow = Dataflow(settings.flow.name)
    polls = op.input(SOURCE, flow, TopicSource(around.lanes, open_joined, running.stopping, running.progress))
    mapper = Applier(settings.selecting_flow, decoder(settings, around), settings.input.feature_names)
    outputs = op.map("apply", polls, mapper)
    op.output("sink", outputs, sink(settings, around, running))
    return flow


def _belongs_to(settings: Settings, around: Surroundings) -> dict[str, Any]:
    """What makes the output what it is."""
    assert isinstance(settings, ApplySettings)
    return {
        "flow": settings.flow.name,
        "input": str(settings.source),
        "input_id": around.input_id,
        "input_partitions": around.lanes,
        "selections": str(settings.selections),
        "stream": settings.input.stream,
        "classes": settings.input.classes,
        "feature_names": settings.input.feature_names,
    }


def _refuse_unfit(
    settings: ApplySettings, around: Surroundings, flow_store: Path | None
) -> Callable[[int], Looking]:
    """Check what applying needs beyond a run; how to look at the selecting flow's progress, by lane."""
    instances, selections = settings.source, settings.selections
    if settings.topics.applied == settings.topics.selections:
        raise SettingsError("topics.applied and topics.selections are the same topic")
    if isinstance(instances, KafkaTopic) and isinstance(selections, KafkaTopic):
        if settings.output.delivery != "exactly-once":
            raise SettingsError(
                "applying needs output.delivery = \"exactly-once\": only then does the selecting flow tell its progress"
            )
        found = kafka.describe_topics(selections.bootstrap, settings.kafka, [selections.name])[selections.name]
        if found is None:
            raise SettingsError(f"topic {selections.name!r} (selections) does not exist on {selections.bootstrap}")
        count = found.partitions
    elif isinstance(instances, DirectoryTopic) and isinstance(selections, DirectoryTopic):
        if flow_store is None:
            raise SettingsError(
                "on directory topics only the selecting flow's recovery store knows how far it has come: name it with"
                " --flow-recovery DIR"
            )
        pinned = partition_count(selections)
        if pinned is None:
            raise SettingsError(f"the topic {selections} does not exist; run the flow first")
        count = pinned
    else:
        raise SettingsError("to be applied, instances and selections must both lie on Kafka or both in directories")
    if count < around.lanes:
        raise SettingsError(
            f"topic {selections.name!r} (selections) has {count} partitions, the input has {around.lanes}: they are not"
            f" of one flow"
        )

    def look_at(lane: int) -> Looking:
        if isinstance(selections, KafkaTopic):
            return KafkaProgress(settings.selecting_flow, instances.name, selections, settings.kafka, lane)
        assert flow_store is not None
        return StoreProgress(settings.selecting_flow, flow_store, lane)

    return look_at


# -- how far the selecting flow is ------------------------------------------------------------------------------------


class Look(NamedTuple):
    """All snapshots made from input before `position` stand before `mark` in the selections' partition."""

    position: int
    mark: int | None
    """None = they stand before its end."""


class KafkaProgress:
    """The selecting flow's consumer group, asked first, and the end of the selections' partition, asked after it.

    The end that counts is the one of all records, committed or not: a transaction's records are written before its
    offsets are, but may become visible after them. Reading committed records up to that end waits for those.
    """

    def __init__(self, flow: str, instances: str, selections: KafkaTopic, config: kafka.Config, lane: int) -> None:
        self._place = TopicPartition(instances, lane)
        self._selections = TopicPartition(selections.name, lane)
        self._consumer = Consumer(
            kafka.client_config(
                selections.bootstrap,
                config,
                group_id=flow,
                enable_auto_commit=False,
                isolation_level="read_uncommitted",
            ),
            logger=kafka.logger,
        )

    def __call__(self) -> Look | None:
        try:
            [committed] = self._consumer.committed([self._place], timeout=QUESTION_SECONDS)
            marks = self._consumer.get_watermark_offsets(self._selections, timeout=QUESTION_SECONDS)
        except KafkaException as problem:
            if problem.args[0].code() in kafka.PASSING:
                return None
            raise FlowError(f"the selecting flow's progress cannot be read: {kafka.sentence(problem)}") from problem
        return None if committed.offset < 0 or marks is None else Look(committed.offset, marks[1])

    def close(self) -> None:
        self._consumer.close()


class StoreProgress:
    """The last whole checkpoint of the selecting flow: directory topics are synced before it."""

    def __init__(self, flow: str, directory: Path, lane: int) -> None:
        self._store = Store(directory)
        self._step = f"{flow}.{SOURCE}"
        self._lane = lane

    def __call__(self) -> Look | None:
        position = self._store.positions(self._step).get(self._lane)
        return None if position is None else Look(position, None)

    def close(self) -> None: ...


def _marks(topic: KafkaTopic, config: kafka.Config, partition: int) -> tuple[int, int]:
    consumer = Consumer(kafka.client_config(topic.bootstrap, config, group_id="sluiceway-reader"), logger=kafka.logger)
    try:
        return kafka.watermarks(consumer, topic.name, partition)
    finally:
        consumer.close()


# -- instances and selections as one input ----------------------------------------------------------------------------


class Selection(NamedTuple):
    """What a snapshot selects, and from which offset of the instances on."""

    source: int
    version: int
    features: frozenset[str]


@dataclass(slots=True)
class JoinedPoll(RawPoll):
    """Instances whose selection is settled, with what has been selected since the last poll."""

    news: dict[str, list[Selection]] = field(default_factory=dict)
    """By stream, in order; may repeat what was told before."""


class Looking(Protocol):
    def __call__(self) -> Look | None: ...

    def close(self) -> None: ...


class JoinedReader:
    """One lane's instances up to where the selecting flow has come, and the snapshots that it has made by then."""

    def __init__(self, flow: str, lane: int, instances: Reader, selections: Reader, look: Looking) -> None:
        self.position = instances.position
        self.stop = instances.stop
        self._flow = flow
        self._lane = lane
        self._instances = instances
        self._selections = selections
        self._look = look
        self._held: RawPoll | None = None
        self._settled = -1
        """Instances before this position have their answer."""
        self._waiting: Look | None = None
        self._next_look = 0.0
        self._news: dict[str, list[Selection]] = {}

    def poll(self) -> JoinedPoll | None:
        if self._held is None:
            self._held = self._instances.poll()
        if self._held is None:
            return None
        if self._held.arrow:
            raise FlowError("the instances hold Arrow batches, which `sluiceway apply` does not read: only `run` does")
        if self._held.stop > self._settled:
            self._settle()
        return self._release(self._held)

    def _settle(self) -> None:
        """Go on with a look at the flow's progress: it holds once the selections have been read up to its mark."""
        if self._waiting is None:
            if time.monotonic() < self._next_look:
                return
            look = self._look()
            self._next_look = time.monotonic() + LOOK_SECONDS
            if look is None or look.position <= self._settled:
                return
            self._waiting = look
        poll = self._selections.poll()
        if poll is not None:
            self._take(poll)
        mark = self._waiting.mark
        if poll is None if mark is None else self._selections.position >= mark:
            self._settled = self._waiting.position
            self._waiting = None

    def _release(self, held: RawPoll) -> JoinedPoll | None:
        if held.stop <= self._settled:
            now, self._held = held, None
        else:
            rows = bisect_right(held.next_offsets, self._settled)
            if rows == 0:
                return None
            now, self._held = _split(held, rows)
        news, self._news = self._news, {}
        self.position = now.stop
        return JoinedPoll(
            now.lane, now.start, now.stop, now.end, now.keys, now.values, now.offsets, now.next_offsets, news=news
        )

    def _take(self, poll: RawPoll) -> None:
        prefix = f"{self._flow}/".encode()
        for key, value in zip(poll.keys, poll.values, strict=True):
            if value is None or (key is not None and not key.startswith(prefix)):
                continue  # a retired stream has no instances to come, and others' snapshots are none of ours
            snapshot = orjson.loads(value)
            if snapshot["flow"] != self._flow:
                continue
            source = snapshot["source"].get("instances")
            if source is None or source["partition"] != self._lane:
                raise FlowError(
                    f"a snapshot of {self._flow}/{snapshot['stream']} in partition {self._lane} was made from"
                    f" {orjson.dumps(snapshot['source']).decode()}: not from this partition of these instances"
                )
            features = frozenset(selected["feature"] for selected in snapshot["selected"])
            known = self._news.setdefault(snapshot["stream"], [])
            if source["offset"] <= self.position:
                known.clear()  # at a start: all instances to come are after this one already
            known.append(Selection(source["offset"], snapshot["version"], features))

    def close(self) -> None:
        self._instances.close()
        self._selections.close()
        self._look.close()


def _split(poll: RawPoll, rows: int) -> tuple[RawPoll, RawPoll]:
    """The first rows, and the rest, which alone may be the end."""
    at = poll.next_offsets[rows - 1]
    keys, values, offsets, following = poll.keys, poll.values, poll.offsets, poll.next_offsets
    first = RawPoll(poll.lane, poll.start, at, False, keys[:rows], values[:rows], offsets[:rows], following[:rows])
    rest = RawPoll(poll.lane, at, poll.stop, poll.end, keys[rows:], values[rows:], offsets[rows:], following[rows:])
    return first, rest


# -- applying ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class AppliedOutput(LaneOutput):
    """What one poll gave, for the topic `applied`."""

    applied: list[OutRecord] = field(default_factory=list)


class Applier:
    """Keeps what is selected in each lane, rebuilt from the selections at every start, and applies it.

    A record keeps all its members but the features that are not selected; an array becomes an object. Added are
    `stream` and `selection`: whose selection, and the instance's place. Later labels are handed on as they came.
    Records that the selecting flow refuses are not here: it has sent them to its dead letters.
    """

    def __init__(self, flow: str, decoder: Decoder, feature_names: Sequence[str] | None) -> None:
        self._flow = flow
        self._decoder = decoder
        self._feature_names = feature_names
        self._lanes: dict[int, dict[str, deque[Selection]]] = {}

    @noted
    def __call__(self, poll: RawPoll) -> tuple[str, AppliedOutput]:
        assert isinstance(poll, JoinedPoll)
        selected = self._lanes.setdefault(poll.lane, {})
        for stream, news in poll.news.items():
            known = selected.setdefault(stream, deque())
            known.extend(selection for selection in news if not known or selection.version > known[-1].version)
        output = AppliedOutput(poll.lane, poll.start, poll.stop, poll.end)
        output.applied = list(self._applied(poll, selected))
        return lane_key(poll.lane), output

    def _applied(self, poll: JoinedPoll, selected: Mapping[str, deque[Selection]]) -> Iterable[OutRecord]:
        streams: dict[int, str] = {}
        for stream, rows in self._decoder.decode(poll).streams:
            streams |= dict.fromkeys(rows.offset.tolist(), stream)
        for key, value, offset in zip(poll.keys, poll.values, poll.offsets, strict=True):
            if offset not in streams:
                continue
            assert value is not None
            record = orjson.loads(value)
            if record.get("x") is None:
                yield OutRecord(offset, key, value)
            else:
                stream = streams[offset]
                current = _current(selected.get(stream), offset)
                yield OutRecord(offset, key, self._reduced(record, stream, current, poll.lane, offset))

    def _reduced(
        self, record: dict[str, Any], stream: str, current: Selection | None, lane: int, offset: int
    ) -> bytes:
        x = record["x"]
        if isinstance(x, list):
            names = self._feature_names or map(str, range(len(x)))
            x = dict(zip(names, x, strict=False))
        kept = frozenset() if current is None else current.features
        selection = {
            "flow": self._flow,
            "version": None if current is None else current.version,
            "partition": lane,
            "offset": offset,
        }
        record["stream"] = stream
        record["x"] = {name: number for name, number in x.items() if name in kept}
        record["selection"] = selection
        return orjson.dumps(record)


def _current(known: deque[Selection] | None, offset: int) -> Selection | None:
    """The newest that holds at an offset; those before it are over and dropped: offsets only rise."""
    if not known:
        return None
    while len(known) > 1 and known[1].source <= offset:
        known.popleft()
    return known[0] if known[0].source <= offset else None
