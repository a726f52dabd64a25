"""The join flow: instances and labels, each on a topic of its own, become labelled instances on one, exactly once.

The n-th instance of an id gets the n-th label of that id: a matter of the data alone. In which order records come out
is not, for two topics come in no repeatable order; so a learner reads what this flow has written, and not the two
topics themselves.

What waits is kept in the store with both positions. Where output goes to a directory, which has no transactions, a
record is first committed with the state (the *outbox*) and written after that commit: so a flow that goes on writes the
same again, though it reads the two topics in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import orjson

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.join_section import JoinSection
from sluiceway.flows.map_section import MapSection
from sluiceway.flows.pair_reader import PairPoll, PairReader
from sluiceway.flows.parts import Opening, OpenReader, Processor
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.progress import Progress
from sluiceway.flows.rewritten import rewritten
from sluiceway.flows.settings import MAX_NAME, FlowSection, Settings
from sluiceway.flows.watched_paths import WatchedPaths
from sluiceway.operators.stages.lane import damaged
from sluiceway.operators.stages.pairs import GIVEN_UP, INSTANCES, LABELS, SIDES, Half, Late, Pairs, Side
from sluiceway.operators.stages.pieces import Pieces, readable
from sluiceway.schemas import encode
from sluiceway.schemas.judge import listed, text_of_id
from sluiceway.schemas.lane import LaneOutput, OutRecord, RawPoll
from sluiceway.schemas.paths import find, place
from sluiceway.schemas.record_map import RecordMap
from sluiceway.schemas.refusal import Refused, StreamNaming, kind, refuse_unreadable
from sluiceway.schemas.state import PIECE, StoredChange, pack, unpack_stream
from sluiceway.schemas.times import milliseconds
from sluiceway.topics.reader import Reader, open_reader
from sluiceway.topics.registry import check_registry, json_reader
from sluiceway.topics.store import JOIN, Restored
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic

STAGE = "join"
ROLES = ("instances", "labels")
WAITING, OUTBOX = "waiting", "outbox"
"""What the two parts of a lane's state are called in its store."""
OUTBOX_VERSION = 1
Put = Callable[[str, OutRecord], None]
"""Takes a record, and what it carries."""


class JoinSettings(Settings):
    """The learning flow's own file, read for joining: the input is two topics, the name has a suffix."""

    verb: ClassVar[str] = "join"

    @classmethod
    def load(cls, path: Path) -> Self:
        settings = super().load(path)
        name = settings.flow.name + JOIN
        if len(name) > MAX_NAME:
            raise SettingsError(
                f"{path}: flow.name has {len(name) - len(JOIN)} characters: to be joined it may have"
                f" {MAX_NAME - len(JOIN)}, for joining is a flow of its own, called {JOIN!r} after it"
            )
        for position in (settings.input.start, settings.input.stop):
            if position is not None and position.lstrip("-").isdigit():
                raise SettingsError(
                    f"{path}: joining reads two topics, for which the offset {position} of [input] means two things:"
                    f" use beginning, end or a time"
                )
        return settings.model_copy(update={"flow": FlowSection(name=name)})

    def _refuse_unfit_state(self) -> None:
        """`topics.state` is the learning flow's, which looks at it itself."""

    def _refuse_unfit_join(self) -> None:
        super()._refuse_unfit_join()
        if self.topics.labels is None:
            raise SettingsError("the setting topics.labels is missing: it says where the labels are")

    @property
    def joining(self) -> JoinSection:
        return self.join or JoinSection()

    @property
    def output_urls(self) -> dict[str, str]:
        """A directory has one writer: beside one, this flow's dead letters lie apart from the learning flow's."""
        labelled, dead_letters = self.topics.labelled, self.topics.dead_letters
        assert labelled is not None
        if isinstance(self.topic(dead_letters), DirectoryTopic):
            dead_letters = f"{dead_letters.rstrip('/')}{JOIN}"
        return {"labelled": labelled, "dead_letters": dead_letters}

    @property
    def inputs(self) -> dict[str, Topic]:
        assert self.topics.labels is not None
        return {"instances": self.source, "labels": self.topic(self.topics.labels)}

    @property
    def _source_url(self) -> str:
        return self.topics.instances or ""

    @property
    def state(self) -> Topic:
        """Where joining keeps what waits: beside what it writes."""
        labelled = self.outputs["labelled"]
        if isinstance(labelled, KafkaTopic):
            return KafkaTopic(labelled.bootstrap, f"{self.flow.name}.state")
        return DirectoryTopic(labelled.path.with_name(labelled.path.name + ".state"))


class JoiningWork:
    """The work of `sluiceway join`."""

    step = "join"

    def belongs_to(self, settings: Settings, around: Surroundings) -> dict[str, Any]:
        """What makes pairs what they are."""
        assert isinstance(settings, JoinSettings)
        instances, labels = _paths(settings)
        return {
            "flow": settings.flow.name,
            "input": settings.source.identity,
            "input_id": around.input_id,
            "labels": settings.inputs["labels"].identity,
            "labels_id": around.other_ids.get("labels", ""),
            "stream": _named_by(settings.source, settings),
            "paths": {"instances": instances.roles, "labels": labels.roles},
        }

    def prepare(self, settings: Settings, on_compile: Callable[[], None] | None) -> None: ...

    def reader(self, settings: Settings, around: Surroundings, progress: Progress) -> OpenReader:
        if settings.registry is not None:
            check_registry(settings.registry)

        def open_pairs(opening: Opening) -> Reader:
            assert isinstance(opening.processor, Joiner)
            instances, labels = (
                open_reader(settings.inputs[role], settings.kafka, opening.lane, *opening.span(role)) for role in ROLES
            )
            return PairReader(opening.lane, instances, labels, opening.processor)

        return open_pairs

    def decode(self, settings: Settings, around: Surroundings, progress: Progress) -> Callable[[RawPoll], RawPoll]:
        assert isinstance(settings, JoinSettings)
        watches = watched_paths(settings, progress)

        def look(poll: RawPoll) -> RawPoll:
            if isinstance(poll, PairPoll):
                watches[poll.side].look(poll)
            if poll.end:
                for watch in watches:
                    watch.end()
            return poll

        return look

    def processor(self, settings: Settings, around: Surroundings) -> Callable[[int, Restored], Processor]:
        assert isinstance(settings, JoinSettings)
        return lambda lane, restored: Joiner(settings, lane, around.lanes, restored)


JOINING = JoiningWork()


def watched_paths(settings: JoinSettings, progress: Progress) -> tuple[WatchedPaths, WatchedPaths]:
    """Of instances: the id's, without which none gets its label, and all others of the map that the flow's file names.
    Of labels: the time's, if it is named. A label without its id is a dead letter that says so."""
    given = settings.input.map or MapSection()
    paths = {"id": given.id, **given.model_dump(include=given.model_fields_set & {"time", "stream"})}
    times = settings.joining.model_dump(include=settings.joining.model_fields_set & {"time"})
    instances = {f"input.map.{name}": path for name, path in paths.items() if path is not None}
    labels = {f"join.{name}": path for name, path in times.items()}
    name, as_json, warnings = settings.flow.name, settings.plan.as_json, progress.warnings
    return WatchedPaths(name, instances, as_json, warnings), WatchedPaths(name, labels, as_json, warnings)


def _paths(settings: JoinSettings) -> tuple[RecordMap, RecordMap]:
    """Where everything is in an instance, and in a record of the labels."""
    given = settings.input.map
    return RecordMap() if given is None else given.record_map(), settings.joining.paths()


def _named_by(topic: Topic, settings: Settings) -> str:
    """What names the stream within which ids are told apart; a member or the partition tells nothing of a label's."""
    given = settings.input.map
    if settings.input.stream == "partition" or (given is not None and given.stream is not None):
        return "partition"
    return "member" if isinstance(topic, DirectoryTopic) else "key"


@dataclass(slots=True)
class JoinedOutput(LaneOutput):
    """What one poll gave."""

    labelled: list[OutRecord] = field(default_factory=list)
    labels_stop: int = 0

    def positions(self, reads: str) -> dict[str, int]:
        return dict(zip(ROLES, (self.stop, self.labels_stop), strict=True))

    @property
    def lists(self) -> tuple[Sequence[OutRecord], ...]:
        return self.labelled, self.dead_letters


class Outbox:
    """Records that are committed with the state before they are written."""

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._fresh: list[tuple[int, str, OutRecord]] = []
        """Number, what it carries, the record: not in a commit yet."""
        self._committed: list[tuple[int, str, OutRecord]] = []

    def __len__(self) -> int:
        return len(self._fresh) + len(self._committed)

    @property
    def ready(self) -> bool:
        """Whether there is something to be written."""
        return bool(self._committed)

    def put(self, carries: str, record: OutRecord) -> None:
        number = self._pieces.add(lambda: [carries, *record])
        self._fresh.append((number, carries, record))

    def take(self) -> list[tuple[str, OutRecord]]:
        """What is in a commit: to be written now, and dropped with the next one."""
        committed, self._committed = self._committed, []
        for number, _, _ in committed:
            self._pieces.drop(number)
        return [(carries, record) for _, carries, record in committed]

    def change(self) -> StoredChange:
        added, dropped = self._pieces.changes()
        self._committed += self._fresh
        self._fresh = []
        head = {
            "stream": OUTBOX,
            "state_version": OUTBOX_VERSION,
            "pieces": len(self._committed),
            "next_piece": self._pieces.following,
        }
        pieces = {number: pack(piece, PIECE) for number, piece in added.items()}
        return StoredChange(OUTBOX, 1, pack(head), pieces, dropped)

    def restore(self, state: Any) -> None:
        head = readable(state, OUTBOX, OUTBOX_VERSION)
        self._pieces = Pieces(head["next_piece"])
        for number, (carries, offset, key, value, headers) in sorted(state.pieces.items()):
            record = OutRecord(offset, key, value, tuple((name, content) for name, content in headers))
            self._committed.append((number, carries, record))


class Joiner:
    """Brings together what belongs together in one lane."""

    wants_commit = False

    def __init__(self, settings: JoinSettings, lane: int, lanes: int, restored: Restored) -> None:
        joining = settings.joining
        self.pairs = Pairs(joining.limit)
        self._lane = lane
        self._keeps_unlabelled = joining.unlabelled == "keep"
        self._paths = _paths(settings)
        self._unit = self._paths[INSTANCES].time_unit
        self._topics = tuple(settings.inputs[role] for role in ROLES)
        self._naming = tuple(
            StreamNaming(_named_by(topic, settings), lanes)  # type: ignore[arg-type]  # one of its three words
            for topic in self._topics
        )
        by_key = _named_by(settings.source, settings) == "key"
        self._adds_stream = by_key and isinstance(settings.outputs["labelled"], DirectoryTopic)
        self._through_outbox = any(isinstance(topic, DirectoryTopic) for topic in settings.outputs.values())
        self._outbox = Outbox()
        self._as_json = bytes if settings.registry is None else json_reader(settings.registry)
        positions = {} if restored.commit is None else restored.commit.positions
        self._labels_stop = positions.get("labels", restored.run.bounds.others["labels"].starts[lane])
        self._restore(restored)

    def _restore(self, restored: Restored) -> None:
        stored = restored.asleep.find([WAITING, OUTBOX])
        self._stores_outbox = self._through_outbox or OUTBOX in stored
        for name, part in ((WAITING, self.pairs), (OUTBOX, self._outbox)):
            if name in stored:
                try:
                    part.restore(unpack_stream(stored[name]))
                except Exception as problem:  # there is no end to what damaged content can lead to
                    raise damaged(self._lane, name, problem) from problem

    @property
    def ready(self) -> bool:
        """Whether it has something to write that needs no input."""
        return self._outbox.ready

    @property
    def unfinished(self) -> bool:
        return len(self._outbox) > 0

    def close(self) -> None: ...

    def changes(self) -> Sequence[StoredChange]:
        head, added, dropped = self.pairs.changes()
        pieces = {number: pack(piece, PIECE) for number, piece in added.items()}
        waiting = StoredChange(WAITING, 0, pack(head), pieces, dropped)
        return [waiting, self._outbox.change()] if self._stores_outbox else [waiting]

    # -- a poll --------------------------------------------------------------------------------------------------

    def process(self, poll: RawPoll) -> JoinedOutput:
        output = JoinedOutput(poll.lane, poll.start, poll.stop, poll.end)
        for carries, record in self._outbox.take():
            getattr(output, carries).append(record)
        put = self._outbox.put if self._through_outbox else partial(_put, output)
        if isinstance(poll, PairPoll):
            self._labels_stop = poll.labels_stop
            self._read(poll, put)
            for side, up_to in poll.settled.items():
                self._give_up(side, self.pairs.give_up(side, up_to), put)
            if poll.end:  # both topics have been read to their ends
                for side in SIDES:
                    self._give_up(side, self.pairs.give_up(side, self.pairs.due(side) or 0), put)
        output.instances = len(output.labelled)
        output.end = poll.end and not self.unfinished
        output.labels_stop = self._labels_stop
        return output

    def _read(self, poll: PairPoll, put: Put) -> None:
        if poll.arrow:
            raise FlowError(f"{self._topics[poll.side]} holds Arrow messages, which `sluiceway join` does not read")
        take = self._instance if poll.side == INSTANCES else self._label
        for key, value, offset in zip(poll.keys, poll.values, poll.offsets, strict=True):
            try:
                take(key, value, offset, put)
            except Refused as refused:
                self._refuse(poll.side, refused, offset, key, value, put)

    def _refuse(
        self, side: Side, refused: Refused, offset: int, key: bytes | None, value: bytes | None, put: Put
    ) -> None:
        letter = refused.letter(offset, key, value, STAGE)
        put("dead_letters", encode.dead_letter(letter, self._topics[side].name, self._lane))

    def _instance(self, key: bytes | None, value: bytes | None, offset: int, put: Put) -> None:
        record = self._parse(value)
        assert value is not None
        stream, time, id_, label = self._said(INSTANCES, key, record)
        half = Half(INSTANCES, stream, id_ or "", time, offset, key, value)
        if label is not None:
            self._write(half, offset, put)
            return
        other = GIVEN_UP if id_ is None else self.pairs.take(half)  # without an id no label can be its own
        if isinstance(other, Late):
            self._give_up(INSTANCES, [half], put)
        elif other is not None:
            self._write(half, offset, put, self._label_of(other))

    def _label(self, key: bytes | None, value: bytes | None, offset: int, put: Put) -> None:
        record = self._parse(value)
        assert value is not None
        stream, time, id_, label = self._said(LABELS, key, record)
        paths = self._paths[LABELS]
        if id_ is None:
            raise Refused("bad-id", f"the label's record has no id at {paths.id} (join.id): {_members(record)}")
        if label is None or type(label) in (dict, list):
            said = "no label" if label is None else kind(label)
            where = f"{paths.label} (join.label)"
            raise Refused("bad-label", f"the label's record has {said} at {where}: {_members(record)}")
        half = Half(LABELS, stream, id_, time, offset, key, value)
        other = self.pairs.take(half)
        if isinstance(other, Late):
            raise Refused("late-label", f"the instance {id_!r} that this label is for was given up before it came")
        if other is not None:
            self._write(other, offset, put, label)

    def _label_of(self, half: Half) -> Any:
        return find(self._parse(half.value), self._paths[LABELS].label)

    def _said(self, side: Side, key: bytes | None, record: dict[str, Any]) -> tuple[str, int, str | None, Any]:
        """Stream, time, id and label."""
        paths = self._paths[side]
        stream = self._naming[side].stream(key, record.get("stream"), self._lane)
        time, id_ = find(record, paths.time), find(record, paths.id)
        at = self.pairs.newest if time is None else milliseconds(time, self._unit, paths.time)
        return stream, at, None if id_ is None else text_of_id(id_), find(record, paths.label)

    def _parse(self, value: bytes | None) -> dict[str, Any]:
        try:
            record = orjson.loads(self._as_json(value) if value else b"")
        except orjson.JSONDecodeError as error:
            refuse_unreadable(value, error)
        if type(record) is not dict:
            raise Refused("not-an-object", f"the record is {kind(record)}, not an object")
        return record

    # -- what comes out ------------------------------------------------------------------------------------------

    def _write(self, instance: Half, offset: int, put: Put, label: object = None) -> None:
        """An instance with the label that came for it, or as it is."""
        stream, value = instance.stream, self._as_json(instance.value)
        adds_stream = self._adds_stream and instance.key is not None

        def change(record: dict[str, Any]) -> dict[str, Any]:
            if label is not None:
                place(record, self._paths[INSTANCES].label, label)
            return {**record, "stream": stream} if adds_stream else record

        if label is not None or adds_stream:
            value = rewritten(value, orjson.loads(value), change)
        put("labelled", OutRecord(offset, instance.key or stream.encode(), value))

    def _give_up(self, side: Side, halves: Sequence[Half], put: Put) -> None:
        for half in halves:
            if side == LABELS:
                refused = Refused("orphan-label", f"no instance {half.id!r} came for this label in time")
                self._refuse(side, refused, half.offset, half.key, half.value, put)
            elif self._keeps_unlabelled:
                self._write(half, half.offset, put)
            else:
                came = f"no label came for the instance {half.id!r} in time" if half.id else self._no_id(half)
                self._refuse(side, Refused("unlabelled", came), half.offset, half.key, half.value, put)


    def _no_id(self, half: Half) -> str:
        members = _members(self._parse(half.value))
        return f"it has no id at {self._paths[INSTANCES].id} (input.map.id), so no label: {members}"


def _put(output: JoinedOutput, carries: str, record: OutRecord) -> None:
    getattr(output, carries).append(record)


def _members(record: dict[str, Any]) -> str:
    return f"it has {listed(record)}"
