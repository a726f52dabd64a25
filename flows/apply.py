"""The apply flow: instances in, the same instances with only the selected features out, exactly once.

Which selection an instance gets is a matter of the data alone, never of timing: the instance at offset `o` gets the
newest snapshot of its stream whose `source` (the next offset to read when it was made) is at most `o`. That is what the
selecting flow had learnt before it met this instance. `sluiceway.flows.joined` holds it back until that is known.

Nothing is kept in the store but the position: when a lane is opened the selections are read again from the beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import orjson

from sluiceway.errors import SettingsError
from sluiceway.flows.joined import JoinedPoll, JoinedReader, KafkaProgress, Looking, Selection, StoreProgress
from sluiceway.flows.parts import Opening, OpenReader, Processor
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.progress import Progress
from sluiceway.flows.rewritten import rewritten
from sluiceway.flows.select import decoding
from sluiceway.flows.settings import APPLY, MAX_NAME, FlowSection, Settings
from sluiceway.schemas import decode
from sluiceway.schemas.lane import LaneBatch, LaneOutput, OutRecord, RawPoll
from sluiceway.schemas.state import StoredChange
from sluiceway.topics import kafka
from sluiceway.topics.directory import partition_count
from sluiceway.topics.directory_reader import DirectoryReader
from sluiceway.topics.directory_store import DirectoryStore
from sluiceway.topics.kafka_reader import KafkaReader, first_offset
from sluiceway.topics.reader import Reader, open_reader
from sluiceway.topics.state_topic import StateTopic
from sluiceway.topics.store import Restored
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic
from sluiceway.wording import counted


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
        name = settings.flow.name + APPLY
        if len(name) > MAX_NAME:
            raise SettingsError(
                f"{path}: flow.name has {len(name) - len(APPLY)} characters: to be applied it may have"
                f" {MAX_NAME - len(APPLY)}, for applying is a flow of its own, called {APPLY!r} after it"
            )
        return settings.model_copy(update={"flow": FlowSection(name=name)})

    def _refuse_unfit_state(self) -> None:
        """`topics.state` is the selecting flow's, which looks at it itself."""

    @property
    def selecting(self) -> Settings:
        """The selecting flow's own settings."""
        given = {name: getattr(self, name) for name in Settings.model_fields}
        return Settings.model_construct(**{**given, "flow": FlowSection(name=self.flow.name.removesuffix(APPLY))})

    @property
    def selecting_flow(self) -> str:
        return self.flow.name.removesuffix(APPLY)

    @property
    def output_urls(self) -> dict[str, str]:
        return {} if self.topics.applied is None else {"applied": self.topics.applied}

    @property
    def state(self) -> Topic:
        """Where applying keeps its position: beside what it writes."""
        applied = self.outputs["applied"]
        if isinstance(applied, KafkaTopic):
            return KafkaTopic(applied.bootstrap, f"{self.flow.name}.state")
        return DirectoryTopic(applied.path.with_name(applied.path.name + ".state"))

    @property
    def selections(self) -> Topic:
        return self.topic(self.topics.selections)


class Applying:
    """The work of `sluiceway apply`."""

    step = "apply"

    def belongs_to(self, settings: Settings, around: Surroundings) -> dict[str, Any]:
        """What makes the output what it is."""
        assert isinstance(settings, ApplySettings)
        return {
            "flow": settings.flow.name,
            "input": settings.source.identity,
            "input_id": around.input_id,
            "selections": settings.selections.identity,
            "stream": settings.input.stream,
            "classes": settings.input.classes,
            "feature_names": settings.input.feature_names,
        }

    def prepare(self, settings: Settings, on_compile: Callable[[], None] | None) -> None:
        if on_compile is not None and not decode.is_compiled():
            on_compile()
        decode.warm_up()

    def reader(self, settings: Settings, around: Surroundings, progress: Progress) -> OpenReader:
        """Instances and what is selected for them."""
        assert isinstance(settings, ApplySettings)
        look_at = _refuse_unfit(settings, around)
        flow, selections = settings.selecting_flow, settings.selections

        def open_joined(opening: Opening) -> Reader:
            lane = opening.lane
            selected: Reader
            if isinstance(selections, KafkaTopic):
                low = first_offset(selections, settings.kafka, lane)
                selected = KafkaReader(selections, settings.kafka, lane, low, None)
            else:
                selected = DirectoryReader(selections, lane, 0, None)
            instances = open_reader(settings.source, settings.kafka, lane, *opening.span(settings.source_role))
            return JoinedReader(flow, lane, instances, selected, look_at(lane), partial(progress.tell, lane))

        return open_joined

    def decode(
        self, settings: Settings, around: Surroundings, progress: Progress
    ) -> Callable[[RawPoll], tuple[RawPoll, LaneBatch]]:
        decode_poll = decoding(settings, around, progress)
        return lambda poll: (poll, decode_poll(poll))

    def processor(self, settings: Settings, around: Surroundings) -> Callable[[int, Restored], Processor]:
        assert isinstance(settings, ApplySettings)
        flow, names = settings.selecting_flow, settings.input.feature_names
        return lambda lane, restored: Applier(flow, names)


APPLYING = Applying()


def _refuse_unfit(settings: ApplySettings, around: Surroundings) -> Callable[[int], Looking]:
    """Check what applying needs beyond a run; how to look at the selecting flow's progress, by lane."""
    instances, selections, state = settings.source, settings.selections, settings.selecting.state
    if settings.topics.applied == settings.topics.selections:
        raise SettingsError("topics.applied and topics.selections are the same topic")
    look_at: Callable[[int], Looking]
    if isinstance(instances, KafkaTopic) and isinstance(selections, KafkaTopic) and isinstance(state, KafkaTopic):
        found = kafka.describe_topics(selections.bootstrap, settings.kafka, [selections.name, state.name])
        told, kept = found[selections.name], found[state.name]
        if told is None:
            raise SettingsError(f"topic {selections.name!r} (selections) does not exist on {selections.bootstrap}")
        if kept is None:
            raise SettingsError(f"the flow's state topic {state.name!r} does not exist; run the flow first")
        count = told.partitions
        topic = StateTopic(settings.selecting_flow, state.bootstrap, settings.kafka, kept)
        look_at = partial(KafkaProgress, topic, selections)
    elif (
        isinstance(instances, DirectoryTopic)
        and isinstance(selections, DirectoryTopic)
        and isinstance(state, DirectoryTopic)
    ):
        pinned = partition_count(selections)
        if pinned is None:
            raise SettingsError(f"the topic {selections} does not exist; run the flow first")
        count = pinned
        store = DirectoryStore(settings.selecting_flow, state.path, {}, {})
        if not store.lanes():
            raise SettingsError(f"the flow's store {state.path} does not exist; run the flow first")
        look_at = partial(StoreProgress, store)
    else:
        raise SettingsError("to be applied, instances and selections must both lie on Kafka or both in directories")
    if count < around.lanes:
        raise SettingsError(
            f"topic {selections.name!r} (selections) has {counted(count, 'partition')}, the input has"
            f" {around.lanes}: they are not"
            f" of one flow"
        )
    return look_at


@dataclass(slots=True)
class AppliedOutput(LaneOutput):
    """What one poll gave, for the topic `applied`."""

    applied: list[OutRecord] = field(default_factory=list)

    @property
    def lists(self) -> tuple[list[OutRecord], ...]:
        return (self.applied,)


class Applier:
    """Keeps what is selected in a lane, rebuilt from the selections whenever it is opened, and applies it.

    A record keeps all its members but the features that are not selected; an array becomes an object. Added are
    `stream` and `selection`: whose selection, and the instance's place; they replace members of these names. Later
    labels are handed on as they came, also those for which no instance waits: that only the selecting flow knows.
    Records that cannot be read are not here: the selecting flow has sent them to its dead letters.
    """

    def __init__(self, flow: str, feature_names: Sequence[str] | None) -> None:
        self._flow = flow
        self._feature_names = feature_names
        self._selected: dict[str, deque[Selection]] = {}

    wants_commit = unfinished = False

    def changes(self) -> Sequence[StoredChange]:
        return ()

    def close(self) -> None: ...

    def process(self, decoded: tuple[RawPoll, LaneBatch]) -> AppliedOutput:
        poll, batch = decoded
        selected = self._selected
        for stream, news in poll.news.items() if isinstance(poll, JoinedPoll) else ():
            known = selected.setdefault(stream, deque())
            known.extend(selection for selection in news if not known or selection.version > known[-1].version)
        output = AppliedOutput(poll.lane, poll.start, poll.stop, poll.end)
        output.applied = list(self._applied(poll, batch, selected))
        output.instances = 0 if batch.columns is None else len(batch.columns)
        return output

    def _applied(
        self, poll: RawPoll, batch: LaneBatch, selected: Mapping[str, deque[Selection]]
    ) -> Iterable[OutRecord]:
        assert batch.columns is not None
        names = batch.columns.streams
        streams = {offset: name.decode() for offset, name in zip(batch.columns.offset.tolist(), names, strict=True)}
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
                yield OutRecord(offset, key, rewritten(value, record, change))

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


def _current(known: deque[Selection] | None, offset: int) -> Selection | None:
    """The newest that holds at an offset; those before it are over and dropped: offsets only rise."""
    if not known:
        return None
    while len(known) > 1 and known[1].source <= offset:
        known.popleft()
    return known[0] if known[0].source <= offset else None
