"""One poll of raw messages -> columns with the rows of all its streams, and a dead letter for each record refused.

A record is a JSON object (orjson's JSON: UTF-8, no NaN, no infinity; of repeated members the last counts).
A member that is null counts as absent, and unknown members are ignored.

    x   object, name -> number, no name empty; or array of numbers, named "0", "1", ... or by `feature_names`.
        A number is any JSON number that is finite as a float64; true and false are not numbers. Where nulls are kept,
        null is a value that is not known: NaN in the columns.
        A zero says the same as an absent feature, so zeros do not enter the columns, unless they are to be kept.
    y   the label: without `classes` true/false, 1/-1 or 1/0 (1.0 is not a label); with `classes` one of those,
        of the same JSON type. In the columns: -1 and +1 for two classes, 1, 2, 3, ... for more, 0 = unlabelled.
    id  a string that is not empty, or an integer, which becomes its decimal text.
    ts  an integer, milliseconds, 0 to 2**63 - 1.

Without `x`, a record with `id` and `y` is the later label of an earlier instance; any other is refused.

A record that is as records usually are is read by compiled code (`sluiceway.schemas.read_rows`), any other by orjson
and the rules in Python (`sluiceway.schemas.judge`), into the same columns. Records of another shape are read by a map
of them (`sluiceway.schemas.record_map`), in the same two ways (`read_mapped`, `mapped_judge`). A message of Arrow holds
many instances: `sluiceway.schemas.arrow`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import orjson
from numpy.typing import NDArray

from sluiceway import compiling
from sluiceway.schemas.array_names import ArrayNames
from sluiceway.schemas.arrow import ARROW_HEADERS, read_instances
from sluiceway.schemas.batch import MAX_FEATURES_PER_INSTANCE, Label
from sluiceway.schemas.column_room import ColumnRoom
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.judge import Judge, text_of_id
from sluiceway.schemas.labels import SpeltLabels
from sluiceway.schemas.lane import DeadLetter, LaneBatch, RawPoll, RawRecords
from sluiceway.schemas.mapped_judge import MappedJudge
from sluiceway.schemas.member_table import NO_LINES, NO_TEXT, ReadingPlan
from sluiceway.schemas.name_hash import NameTable, names_are_compiled
from sluiceway.schemas.read_mapped import read_mapped
from sluiceway.schemas.read_rows import DONE, NO_ROOM, Desk, read_rows
from sluiceway.schemas.record_map import RecordMap
from sluiceway.schemas.refusal import NamedBy, Refused, StreamNaming
from sluiceway.schemas.times import UNITS


class Decoder:
    """Decodes the polls of one topic, one after the other: the columns of a poll hold until the next is decoded."""

    def __init__(
        self,
        partitions: int,
        stream: NamedBy = "key",
        classes: Sequence[Label] | None = None,
        feature_names: Sequence[str] | None = None,
        max_features_per_instance: int = MAX_FEATURES_PER_INSTANCE,
        record_map: RecordMap | None = None,
        *,
        keep_zeros: bool = False,
        keep_nulls: bool = False,
        as_json: Callable[[bytes], bytes] | None = None,
    ) -> None:
        if max_features_per_instance < 1:
            raise ValueError(f"max_features_per_instance must be at least 1, not {max_features_per_instance}")
        self._naming = StreamNaming(stream, partitions)
        self.max_features_per_instance = max_features_per_instance
        self.label_names: tuple[Label, ...] = (-1, 1) if classes is None else tuple(classes)
        """How labels are written, in the order of the classes: (negative, positive) for two."""
        self._array = ArrayNames(feature_names, max_features_per_instance)
        named = None if classes is None else self.label_names
        self._judge: Judge
        self._plan: ReadingPlan | None = None
        """How to read records of another shape."""
        if record_map is None:
            self._judge = Judge(self._naming, named, self._array, keep_nulls=keep_nulls)
            self._labels = SpeltLabels(self._judge.targets)
        else:
            if stream == "member" and record_map.stream is None:
                record_map = replace(record_map, stream="stream")
            judge = self._judge = MappedJudge(self._naming, named, self._array, record_map, keep_nulls=keep_nulls)
            self._labels = SpeltLabels(judge.targets, judge.plain.spelt())
            self._plan = ReadingPlan(record_map, UNITS[record_map.time_unit], arrays=feature_names is None)
        self._began = 0
        self._as_json = as_json
        """What turns values of other formats into JSON, or says `Refused`; None if all are JSON."""
        self._unread: dict[int, Refused] = {}
        self._arrow_names: list[str] = []
        self._arrow_table = NameTable.of(())
        self._room = ColumnRoom()
        self._room.put(Desk.LABELS, self._labels.lines)
        desk = self._room.desk
        desk[Desk.LABEL_COUNT], desk[Desk.LIMIT] = len(self._labels.lines), max_features_per_instance
        desk[Desk.BY_MEMBER], desk[Desk.KEEPS_ZEROS] = stream == "member", keep_zeros
        desk[Desk.KEEPS_NULLS] = keep_nulls
        self._keep_zeros, self._keep_nulls = keep_zeros, keep_nulls

    def decode(self, poll: RawPoll) -> LaneBatch:
        """The rows of all streams, in the order of their offsets; every record refused becomes a dead letter."""
        room, count, given = self._room, len(poll.values), poll.values
        desk = room.desk
        if self._as_json is not None:
            poll = replace(poll, values=self._translated(poll, self._as_json))
        streams = _Streams(self._naming, poll)
        by_hand = iter((*sorted(poll.arrow.union(streams.unnamed, self._unread)), count))
        stop = next(by_hand)
        dead_letters: list[DeadLetter] = []
        self._begin(poll)
        while True:
            said = read_rows(desk, stop) if self._plan is None else read_mapped(desk, self._plan.numbers, stop)
            if said == NO_ROOM:
                room.more_features()
                continue
            if said == NO_TEXT:
                room.more_text()
                continue
            if said == NO_LINES and self._plan is not None:
                self._plan.more_lines()
                continue
            record = desk.item(Desk.NEXT_RECORD)
            if said == DONE and record == count:
                break
            is_arrow = record in poll.arrow
            try:
                if is_arrow:
                    self._add_arrow(poll, record, streams)
                else:
                    self._add_json(poll, record, streams)
            except Refused as refused:
                key, value, headers = poll.keys[record], given[record], ARROW_HEADERS if is_arrow else ()
                dead_letters.append(refused.letter(poll.offsets[record], key, value, headers=headers))
            desk[Desk.NEXT_RECORD] = record + 1
            if record == stop:
                stop = next(by_hand)
        columns = self._columns(poll, streams)
        raw: RawRecords = {}
        if room.label_only.any():
            for record in room.record[room.label_only].tolist():
                raw[poll.offsets[record]] = poll.keys[record], given[record]
        return LaneBatch(poll.lane, poll.start, poll.stop, poll.end, [], dead_letters, raw, columns, self._unseen)

    def _unseen(self, value: bytes | None) -> str:
        """Of a record without features: whether there may be some."""
        try:
            record = orjson.loads(value or b"" if self._as_json is None else self._as_json(value or b""))
        except (Refused, orjson.JSONDecodeError):
            return ""
        return self._judge.unseen(record)

    def _translated(self, poll: RawPoll, as_json: Callable[[bytes], bytes]) -> list[bytes | None]:
        """The values as JSON; of those that cannot be, `_unread` knows why."""
        self._unread, values = {}, list(poll.values)
        for record, value in enumerate(values):
            if value and record not in poll.arrow:
                try:
                    values[record] = as_json(value)
                except Refused as refused:
                    self._unread[record], values[record] = refused, b""
        return values

    def _begin(self, poll: RawPoll) -> None:
        if self._plan is None:
            self._room.begin(poll.values, self._array.table)
        else:
            self._plan.begin()
            added = self._room.desk.item(Desk.LETTERS) - self._began
            self._room.begin(poll.values, self._array.table, spare=added + added // 4)  # as the poll before needed
            self._began = self._room.desk.item(Desk.LETTERS)

    def _columns(self, poll: RawPoll, streams: _Streams) -> Columns:
        room = self._room
        offset, following = _numbers(poll.offsets), _numbers(poll.next_offsets)
        record = room.record
        if len(record) < len(offset) or poll.arrow:  # not a row a record
            offset, following = offset[record], following[record]
        return room.columns(streams.by_row(room), offset, following)

    def _add_json(self, poll: RawPoll, record: int, streams: _Streams) -> None:
        """A record that compiled code did not read."""
        room = self._room
        if record in self._unread:
            raise self._unread[record]
        judged = self._judge.judge(poll.keys[record], poll.values[record], poll.lane)
        values, id_ = np.frombuffer(judged.values, dtype=np.float64), (judged.id or "").encode()
        streams.name_row(room.rows, judged.stream)
        if type(judged.x) is list:
            self._array.know(len(values))
            room.add_array_row(judged.y, judged.ts, id_, self._array.table, values)
            return
        names = [name.encode() for name in judged.x or ()]
        if not self._keep_zeros and (values == 0).any():
            names = [name for name, value in zip(names, values.tolist(), strict=True) if value]
            values = values[values != 0]
        room.add_row(judged.y, judged.ts, id_, names, values, label_only=judged.x is None)

    def _add_arrow(self, poll: RawPoll, record: int, streams: _Streams) -> None:
        """The instances of a message of Arrow."""
        room = self._room
        stream = self._naming.stream(poll.keys[record], None, poll.lane)
        given = read_instances(
            poll.values[record], self._judge.target, text_of_id, self.max_features_per_instance,
            keep_zeros=self._keep_zeros, keep_nulls=self._keep_nulls,
        )  # fmt: skip
        if given.names != self._arrow_names:
            self._arrow_names, self._arrow_table = given.names, NameTable.of([name.encode() for name in given.names])
        for row in range(room.rows, room.rows + len(given.y)):
            streams.name_row(row, stream)
        ids = [(id_ or "").encode() for id_ in given.ids or [None] * len(given.y)]
        table, rows = self._arrow_table, (given.indptr, given.indices, given.values)
        room.add_rows(given.y, given.ts, ids, table, *rows)


class _Streams:
    """The names of a poll's streams: by record where the message itself tells, otherwise by what the record says."""

    def __init__(self, naming: StreamNaming, poll: RawPoll) -> None:
        self._poll, self._by_member = poll, naming.by == "member"
        self.unnamed: list[int] = []
        """Records whose key names no stream: there is more to say of them."""
        self._by_record = cast("list[bytes]", poll.keys)
        self._by_hand: dict[int, bytes] = {}
        if self._by_member:
            self._default = naming.stream(None, None, poll.lane).encode()
        elif naming.by == "partition":
            self._by_record = [naming.stream(None, None, poll.lane).encode()] * len(poll.keys)
        elif not all(poll.keys) or not b"".join(self._by_record).isascii():
            default = naming.stream(None, None, poll.lane).encode()
            self._by_record = [key or default for key in poll.keys]
            self.unnamed = [record for record, key in enumerate(self._by_record) if not _is_utf8(key)]

    def name_row(self, row: int, stream: str) -> None:
        """Of a row that compiled code did not read."""
        if self._by_member:
            self._by_hand[row] = stream.encode()

    def by_row(self, room: ColumnRoom) -> list[bytes]:
        if not self._by_member:
            of = self._by_record
            records = room.record
            return of if len(records) == len(of) and not self._poll.arrow else [of[at] for at in records.tolist()]
        values = cast("list[bytes]", self._poll.values)
        begins, ends = room.member_names()
        records, default = room.record.tolist(), self._default
        names = [values[at][begin:end] or default for at, begin, end in zip(records, begins, ends, strict=True)]
        for row, name in self._by_hand.items():
            names[row] = name
        return names


def _numbers(given: list[int] | range) -> NDArray[np.int64]:
    return np.arange(given.start, given.stop) if isinstance(given, range) else np.array(given, dtype=np.int64)


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_compiled(*, mapped: bool = False) -> bool:
    """Whether `warm_up` will be quick."""
    return compiling.is_compiled(read_mapped if mapped else read_rows) and names_are_compiled()


def warm_up(*, mapped: bool = False) -> None:
    """Load or compile what reads."""
    poll = RawPoll(0, 0, 2, False, [None] * 2, [b'{"x":{"a":1}}', b'{"x":{"\\n":1}}'], [0, 1], [1, 2])
    columns = Decoder(1, record_map=RecordMap() if mapped else None).decode(poll).columns
    assert columns is not None
    columns.batches()
