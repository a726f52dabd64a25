"""The apply flow: instances in, the same instances with only the selected features out, exactly once.

Which selection an instance gets is a matter of the data alone, never of timing: the instance at offset `o` gets the
newest snapshot of its stream whose `source` (the next offset to read when it was made) is at most `o`. That is what the
selecting flow had learnt before it met this instance. `sluiceway.flows.joined` holds it back until that is known.

Nothing is kept in the checkpoint but the position: at a start the selections are read again from the beginning.
"""

from __future__ import annotations

import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import bytewax.operators as op
import orjson
from bytewax.dataflow import Dataflow

from sluiceway.errors import SettingsError
from sluiceway.flows.graph import SINK, SOURCE, Decode, Running, decoding, open_reader, sink
from sluiceway.flows.joined import JoinedPoll, JoinedReader, KafkaProgress, Looking, Selection, StoreProgress
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.recovery import MANIFEST, read_json
from sluiceway.flows.run import Work
from sluiceway.flows.settings import MAX_NAME, FlowSection, Settings
from sluiceway.flows.source import Reader, TopicSource
from sluiceway.operators.adapters.failure import noted
from sluiceway.schemas import decode
from sluiceway.schemas.lane import LaneOutput, OutRecord, RawPoll, lane_key
from sluiceway.topics import kafka
from sluiceway.topics.directory import partition_count
from sluiceway.topics.directory_reader import DirectoryReader
from sluiceway.topics.kafka_reader import KafkaReader, first_offset
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic

SUFFIX = "-apply"
LONG_NUMBER = re.compile(rb"\d{19}")
"""What may not fit into 64 bits."""
READ_DEPTH = 1024
"""How deeply nested a record may be to be read at all."""


class ApplySettings(Settings):
    """The selecting flow's own file, read for applying: the output is `topics.applied`, the name has a suffix."""

    verb: ClassVar[str] = "apply"

    @classmethod
    def load(cls, path: Path) -> Self:
        settings = super().load(path)
        if settings.topics.applied is None:
            raise SettingsError(f"{path}: the setting topics.applied is missing: it says where applied instances go")
        if settings.topics.instances is None:
            raise SettingsError(f"{path}: the flow selects from columns: there are no instances to apply it to")
        name = settings.flow.name + SUFFIX
        if len(name) > MAX_NAME:
            raise SettingsError(
                f"{path}: flow.name has {len(name) - len(SUFFIX)} characters: to be applied it may have"
                f" {MAX_NAME - len(SUFFIX)}, for applying is a flow of its own, called {SUFFIX!r} after it"
            )
        return settings.model_copy(update={"flow": FlowSection(name=name)})

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

    return Work(build=build_it, belongs_to=_belongs_to, prepare=_warm_up)


def _warm_up(settings: Settings, on_compile: Callable[[], None] | None) -> None:
    if on_compile is not None and not decode.is_compiled():
        on_compile()
    decode.warm_up()


def build(settings: ApplySettings, running: Running, flow_store: Path | None = None) -> Dataflow:
    """source (instances and what is selected for them) -> apply -> sink."""
    around = running.around
    look_at = _refuse_unfit(settings, around, flow_store)

    def open_joined(partition: int, position: int | None) -> Reader:
        selections = settings.selections
        reader: Reader
        if isinstance(selections, KafkaTopic):
            low = first_offset(selections, settings.kafka, partition)
            reader = KafkaReader(selections, settings.kafka, partition, low, None)
        else:
            reader = DirectoryReader(selections, partition, 0, None)
        instances = open_reader(settings, running, partition, position)
        tell = partial(running.progress.tell, partition)
        return JoinedReader(settings.selecting_flow, partition, instances, reader, look_at(partition), tell)

    flow = Dataflow(settings.flow.name)
    polls = op.input(SOURCE, flow, TopicSource(around.lanes, open_joined, running.stopping, running.progress))
    mapper = Applier(settings.selecting_flow, decoding(settings, around), settings.input.feature_names)
    outputs = op.map("apply", polls, mapper)
    op.output(SINK, outputs, sink(settings, around, running))
    return flow


def _belongs_to(settings: Settings, around: Surroundings) -> dict[str, Any]:
    """What makes the output what it is."""
    assert isinstance(settings, ApplySettings)
    return {
        "flow": settings.flow.name,
        "input": settings.source.identity,
        "input_id": around.input_id,
        "input_partitions": around.lanes,
        "selections": settings.selections.identity,
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
    if flow_store is not None:
        _refuse_strange_store(settings, flow_store)

    def look_at(lane: int) -> Looking:
        if isinstance(selections, KafkaTopic):
            return KafkaProgress(settings.selecting_flow, instances.name, selections, settings.kafka, lane)
        assert flow_store is not None
        return StoreProgress(settings.selecting_flow, flow_store, lane)

    return look_at


def _refuse_strange_store(settings: ApplySettings, directory: Path) -> None:
    """Another flow's progress, or a directory that never holds any, would be waited for until the end of days."""
    if not (directory / MANIFEST).is_file():
        raise SettingsError(f"--flow-recovery {directory} holds no recovery store; run the flow first, with --recovery")
    found = read_json(directory / MANIFEST)
    for name, wanted in (("flow", settings.selecting_flow), ("input", settings.source.identity)):
        if found.get(name) != wanted:
            raise SettingsError(
                f"--flow-recovery {directory} is the store of another flow: its {name} is {found.get(name)!r}, not"
                f" {wanted!r}"
            )


@dataclass(slots=True)
class AppliedOutput(LaneOutput):
    """What one poll gave, for the topic `applied`."""

    applied: list[OutRecord] = field(default_factory=list)


class Applier:
    """Keeps what is selected in each lane, rebuilt from the selections at every start, and applies it.

    A record keeps all its members but the features that are not selected; an array becomes an object. Added are
    `stream` and `selection`: whose selection, and the instance's place; they replace members of these names. Later
    labels are handed on as they came, also those for which no instance waits: that only the selecting flow knows.
    Records that cannot be read are not here: the selecting flow has sent them to its dead letters.
    """

    def __init__(self, flow: str, decode: Decode, feature_names: Sequence[str] | None) -> None:
        self._flow = flow
        self._decode = decode
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
        for stream, rows in self._decode(poll).streams:
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
                change = partial(self._reduced, stream=stream, current=current, lane=poll.lane, offset=offset)
                yield OutRecord(offset, key, _rewritten(value, record, change))

    def _reduced(
        self, record: dict[str, Any], stream: str, current: Selection | None, lane: int, offset: int
    ) -> dict[str, Any]:
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
        return record


def _rewritten(value: bytes, record: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """A record with a change, else as it came: also where orjson would shorten an integer, or not write it again."""
    if LONG_NUMBER.search(value) is None:
        try:
            return orjson.dumps(change(record))
        except orjson.JSONEncodeError:
            pass  # it is nested more deeply than orjson writes, though not than it reads
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(usual + READ_DEPTH)
    try:
        return json.dumps(change(json.loads(value)), separators=(",", ":"), ensure_ascii=False).encode()
    finally:
        sys.setrecursionlimit(usual)


def _current(known: deque[Selection] | None, offset: int) -> Selection | None:
    """The newest that holds at an offset; those before it are over and dropped: offsets only rise."""
    if not known:
        return None
    while len(known) > 1 and known[1].source <= offset:
        known.popleft()
    return known[0] if known[0].source <= offset else None
