"""One poll of raw messages -> one columnar batch a stream, and a dead letter for each record that cannot be used.

A record is a JSON object (orjson's JSON: UTF-8, no NaN, no infinity; of repeated members the last counts).
A member that is null counts as absent, and unknown members are ignored.

    x   object, name -> number, no name empty; or array of numbers, named "0", "1", ... or by `feature_names`.
        A number is any JSON number that is finite as a float64; true and false are not numbers.
        A zero says the same as an absent feature, so zeros do not enter the batch.
    y   the label: without `classes` true/false, 1/-1 or 1/0 (1.0 is not a label); with `classes` one of those,
        of the same JSON type. In the batch: -1 and +1 for two classes, 1, 2, 3, ... for more, 0 = unlabelled.
    id  a string that is not empty, or an integer, which becomes its decimal text.
    ts  an integer, milliseconds, 0 to 2**63 - 1.

`x` is skimmed from the bytes by compiled code (`sluiceway.schemas.skim`) wherever it is as it nearly always is, and the
record is parsed without it; otherwise it is parsed whole. Either way the same records are accepted.

A message of Arrow holds many instances: `sluiceway.schemas.arrow`.

Without `x`, a record with `id` and `y` is the later label of an earlier instance; any other is refused.
`sluiceway.schemas.records` states the same rules as typed models; the tests hold the two to each other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import orjson

from sluiceway import compiling
from sluiceway.schemas.arrow import ARROW_HEADERS, read_instances
from sluiceway.schemas.batch import BINARY_LABELS, MAX_FEATURES_PER_INSTANCE, UNLABELLED, InstanceBatch, Label
from sluiceway.schemas.lane import DeadLetter, LaneBatch, RawPoll, RawRecords
from sluiceway.schemas.places import place_rows
from sluiceway.schemas.refusal import (
    MAX_TS,
    NamedBy,
    Refused,
    StreamNaming,
    kind,
    lenient,
    refuse_ts,
    refuse_unreadable,
    show,
)
from sluiceway.schemas.rows import ArrayNames, Names, Rows
from sluiceway.schemas.skim import NOTHING_SKIMMED, Skimmer, skim_records

MAX_CLASSES = 127
WORTH_SKIMMING = 4
"""Fewer records in a poll are parsed in the time that it takes to begin."""

_KEPT_BYTES = 64 * 2**20
"""How much the names kept from poll to poll may weigh, all streams together."""


class Decoder:
    """Decodes the polls of one topic.

    What a decoder remembers from poll to poll only saves time: a stream whose records keep their names gets the
    very same `names` tuple in every batch, possibly with names that this batch does not use.
    """

    def __init__(
        self,
        partitions: int,
        stream: NamedBy = "key",
        classes: Sequence[Label] | None = None,
        feature_names: Sequence[str] | None = None,
        max_features_per_instance: int = MAX_FEATURES_PER_INSTANCE,
    ) -> None:
        if max_features_per_instance < 1:
            raise ValueError(f"max_features_per_instance must be at least 1, not {max_features_per_instance}")
        self._naming = StreamNaming(stream, partitions)
        self.max_features_per_instance = max_features_per_instance
        self.label_names: tuple[Label, ...] = (-1, 1) if classes is None else tuple(classes)
        """How labels are written, in the order of the classes: (negative, positive) for two."""
        self._targets = BINARY_LABELS if classes is None else _targets(self.label_names)
        self._accepted = ", ".join(map(show, (True, False, 1, 0, -1) if classes is None else classes))
        self._array = ArrayNames(feature_names, max_features_per_instance)
        self._kept: OrderedDict[str, Names] = OrderedDict()
        self._kept_bytes = 0
        self._arrow_names: tuple[str, ...] = ()
        self._skimmer = Skimmer(max_features_per_instance)

    def decode(self, poll: RawPoll) -> LaneBatch:
        """A batch a stream, in order of first appearance; every record refused becomes a dead letter.

        A message of Arrow makes a batch of its own, so a stream may have several, in their order.
        """
        if poll.arrow:
            return self._decode_parts(poll)
        loads, targets, by_member = orjson.loads, self._targets, self._naming.by == "member"
        streams: dict[str, Rows] = {}
        by_key: dict[bytes | None, Rows] = {}
        dead_letters: list[DeadLetter] = []
        raw: RawRecords = {}
        found, begins, ends, sizes = NOTHING_SKIMMED, [0] * len(poll.values), [0], [0]
        if len(poll.values) >= WORTH_SKIMMING:
            found = self._skimmer.skim(poll.values)
            begins, ends, sizes = found.within()
        for at, (key, value, begin) in enumerate(zip(poll.keys, poll.values, begins, strict=True)):
            try:
                try:
                    # a 0 in place of an x that was skimmed: making objects of it is what costs; None is refused
                    record = loads(value[:begin] + b"0" + value[ends[at] :] if begin else value)  # type: ignore[arg-type, index]
                except orjson.JSONDecodeError:
                    record = self._parse(value)
                if type(record) is not dict:
                    raise Refused("not-an-object", f"the record is {kind(record)}, not an object")
                get = record.get

                y = get("y")
                if y is None:
                    target = UNLABELLED
                else:
                    try:
                        target = targets[type(y), y]
                    except (KeyError, TypeError):
                        self._refuse_label(y)
                id_ = get("id")
                if id_ is not None and (type(id_) is not str or not id_):
                    id_ = _text_of_id(id_)
                ts = get("ts")
                if ts is None:
                    ts = 0
                elif type(ts) is not int or not 0 <= ts <= MAX_TS:
                    refuse_ts(ts)

                rows = None if by_member else by_key.get(key)
                if rows is None:
                    stream = self._naming.stream(key, get("stream"), poll.lane)
                    rows = streams.get(stream)
                    if rows is None:
                        rows = streams[stream] = Rows(self._take_names(stream), self._array)
                    by_key[key] = rows
                if begin:
                    rows.add_skimmed(at, sizes[at], id_, ts, target)
                    continue
                x = get("x")
                if x is None and (id_ is None or y is None):
                    raise Refused("missing-x", "there is no x, and for a later label id or y is missing")
                rows.add(at, x, id_, ts, target)
                if x is None:
                    raw[poll.offsets[at]] = key, value
            except Refused as refused:
                reason = self._first_reason(refused, value) if begin else refused
                dead_letters.append(reason.letter(poll.offsets[at], key, value))

        batches = []
        offsets = np.array((poll.offsets, poll.next_offsets), dtype=np.int64)
        for stream, rows in streams.items():
            if rows.at:
                batch, refused_late = rows.batch(poll, offsets, found, self._parse)
                dead_letters += refused_late
                if len(batch):
                    batches.append((stream, batch))
        batches.sort(key=lambda of_stream: of_stream[1].offset[0])
        dead_letters.sort(key=lambda letter: letter.offset)
        self._keep_names(streams)
        return LaneBatch(poll.lane, poll.start, poll.stop, poll.end, batches, dead_letters, raw)

    def _first_reason(self, refused: Refused, value: bytes | None) -> Refused:
        """Why a record is refused whose `x` was skimmed: that it is not JSON, if it is not, goes before all else."""
        try:
            self._parse(value)
        except Refused as unreadable:
            return unreadable
        return refused

    def _parse(self, value: bytes | None) -> Any:
        try:
            return orjson.loads(value)  # type: ignore[arg-type]  # None is refused like any other non-JSON
        except orjson.JSONDecodeError as error:
            self._refuse_value(value, error)

    def _decode_parts(self, poll: RawPoll) -> LaneBatch:
        """Messages of Arrow one by one, and what is between them as polls of their own."""
        whole = LaneBatch(poll.lane, poll.start, poll.stop, poll.end, [], [])
        start = 0
        for row in (*sorted(poll.arrow), len(poll.values)):
            if start < row:
                parts = (part[start:row] for part in (poll.keys, poll.values, poll.offsets, poll.next_offsets))
                # each part has the type of its list, which a generator of several types hides
                between = self.decode(RawPoll(poll.lane, poll.start, poll.stop, False, *parts))  # type: ignore[arg-type]
                whole.streams += between.streams
                whole.dead_letters += between.dead_letters
                whole.raw |= between.raw
            if row < len(poll.values):
                self._decode_arrow(poll, row, whole)
            start = row + 1
        return whole

    def _decode_arrow(self, poll: RawPoll, row: int, whole: LaneBatch) -> None:
        key, value, offset = poll.keys[row], poll.values[row], poll.offsets[row]
        try:
            stream = self._naming.stream(key, None, poll.lane)
            given = read_instances(value, self._target, _text_of_id, self.max_features_per_instance)
        except Refused as refused:
            whole.dead_letters.append(refused.letter(offset, key, value, headers=ARROW_HEADERS))
            return
        names = tuple(given.names)
        if names != self._arrow_names:
            self._arrow_names = names
        offsets, following = (np.full(len(given.y), at, dtype=np.int64) for at in (offset, poll.next_offsets[row]))
        batch = InstanceBatch(
            self._arrow_names,
            given.indptr,
            given.indices,
            given.values,
            given.y,
            given.ts,
            offsets,
            following,
            given.ids,
        )
        if len(batch):
            whole.streams.append((stream, batch))

    def _target(self, y: object) -> int:
        try:
            return self._targets[type(y), y]
        except (KeyError, TypeError):
            self._refuse_label(y)

    def _refuse_label(self, y: object) -> NoReturn:
        raise Refused("bad-label", f"the label y is {kind(y)}; accepted are {self._accepted}")

    def _refuse_value(self, value: bytes | None, error: orjson.JSONDecodeError) -> NoReturn:
        """Says what is wrong with a value that orjson does not read."""
        for name, number in self._array.named(_lenient_x(value)):
            if number == _INFINITY or number == -_INFINITY:
                raise Refused("bad-feature", f"feature {show(name)} is too large for a float64")
        refuse_unreadable(value, error)

    def _take_names(self, stream: str) -> Names:
        names = self._kept.pop(stream, None)
        if names is None:
            return Names()
        self._kept_bytes -= names.weight
        return names

    def _keep_names(self, streams: Mapping[str, Rows]) -> None:
        """Keeps the names of these streams for the next poll, and forgets those least recently used."""
        for stream, rows in streams.items():
            if rows.worth_keeping:
                self._kept[stream] = rows.names
                self._kept_bytes += rows.names.weight
        while self._kept_bytes > _KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= oldest.weight


def _targets(classes: tuple[Label, ...]) -> dict[tuple[type, object], int]:
    """What a label is in the batch, by its type and value: 1, True and 1.0 are equal in Python."""
    if not 2 <= len(classes) <= MAX_CLASSES:
        raise ValueError(f"classes must be 2 to {MAX_CLASSES}, not {len(classes)}")
    for name in classes:
        if type(name) not in (str, int, bool):
            raise ValueError(f"a class is a string, an integer or a boolean, not {name!r}")
    numbers = (-1, 1) if len(classes) == 2 else range(1, len(classes) + 1)
    targets: dict[tuple[type, object], int] = {
        (type(name), name): number for name, number in zip(classes, numbers, strict=True)
    }
    if len(targets) != len(classes):
        raise ValueError("classes must not repeat")
    return targets


def _text_of_id(id_: object) -> str:
    if type(id_) is int:
        return str(id_)
    if type(id_) is str and id_:
        return id_
    raise Refused("bad-id", f"id is {kind(id_)}, neither an integer nor a string that is not empty")


_INFINITY = float("inf")


def _lenient_x(value: bytes | None) -> object:
    """`x` of a record whose numbers may exceed float64, where orjson gives up; None if something else is wrong."""
    record = lenient(value)
    return record.get("x") if type(record) is dict else None


def is_compiled() -> bool:
    """Whether `warm_up` will be quick."""
    return compiling.is_compiled(skim_records) and compiling.is_compiled(place_rows)


def warm_up() -> None:
    """Load or compile what skims."""
    records = WORTH_SKIMMING
    offsets = [*range(records)]
    Decoder(1).decode(RawPoll(0, 0, records, False, [None] * records, [b'{"x":{"a":1}}'] * records, offsets, offsets))
