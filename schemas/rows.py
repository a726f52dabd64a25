"""The rows of one stream in one poll, from parsed records to a columnar batch, and the names they are told by."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count, islice
from struct import Struct
from struct import error as StructError
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.lane import DeadLetter, RawPoll
from sluiceway.schemas.places import Columnar, Places, place_rows
from sluiceway.schemas.refusal import Refused, kind, show
from sluiceway.schemas.skim import Skimmed

_KEPT_NAMES = 1024
"""So many names may gather for a stream whatever it uses; beyond, twice the names of its newest poll."""


class ArrayNames:
    """What the places of an array-form `x` are called, and how many features `x` may have at all."""

    def __init__(self, feature_names: Sequence[str] | None, limit: int) -> None:
        self.given = feature_names is not None
        self.limit = limit
        self._names = list(feature_names or ())
        if any(type(name) is not str or not name for name in self._names):
            raise ValueError("feature_names must be strings that are not empty")
        if len(set(self._names)) != len(self._names):
            raise ValueError("feature_names must not repeat")

    def of(self, size: int) -> list[str]:
        """The names of an array of this size."""
        self.check_size(size)
        names = self._first(size)
        if len(names) < size:
            raise Refused("bad-x", f"x has {size} values for {len(names)} feature_names")
        return names

    def check_size(self, size: int) -> None:
        if size > self.limit:
            raise Refused("too-many-features", f"x has {size} features, more than the {self.limit} allowed")

    def refuse_value(self, x: object) -> NoReturn:
        name, value = next((name, value) for name, value in self.named(x) if type(value) not in (int, float))
        raise Refused("bad-feature", f"feature {show(name)} is {kind(value)}, not a finite number")

    def named(self, x: object) -> Iterable[tuple[str, object]]:
        """Names and values of either form of `x`; nothing of anything else."""
        if type(x) is dict:
            return x.items()
        return zip(map(self._name, count()), x, strict=False) if type(x) is list else ()

    def _name(self, place: int) -> str:
        return self._names[place] if place < len(self._names) else str(place)

    def _first(self, size: int) -> list[str]:
        if size > len(self._names) and not self.given:
            self._names.extend(map(str, range(len(self._names), size)))
        return self._names[:size]


Parse = Callable[[bytes | None], dict[str, Any]]
"""A record from its bytes; refuses what is not an object of JSON."""
Offsets = NDArray[np.int64]
"""Of the records of a poll, and below them where reading goes on after each."""


class Names:
    """A stream's names in order of first appearance: their places."""

    __slots__ = ("array_places", "as_tuple", "index", "places", "spelt", "weight")

    def __init__(self) -> None:
        self.index: defaultdict[str, int] = defaultdict(count().__next__)
        self.as_tuple: tuple[str, ...] = ()
        self.weight = 0
        self.places = Places.none()
        self.spelt = 0
        """So many of them `places` knows."""
        self.array_places = np.zeros(0, dtype=np.int32)

    def freeze(self) -> tuple[str, ...]:
        """The same tuple as last time unless names have come."""
        if len(self.as_tuple) != len(self.index) or not self.weight:
            self.as_tuple = tuple(self.index)
            self.weight = 2048 + 2 * sum(map(len, self.as_tuple)) + 240 * len(self.as_tuple)
        return self.as_tuple

    def spell(self) -> Places:
        """`places`, knowing all names."""
        if self.spelt < len(self.index):
            self.places = self.places.and_also([*islice(self.index, self.spelt, None)], self.spelt)
            self.spelt = len(self.index)
        return self.places

    def grown(self) -> bool:
        """Whether so many names have come that it is worth spelling them."""
        return len(self.index) > self.spelt + self.spelt // 8


class Rows:
    """The rows of one stream in one poll, growing record by record; a refused record leaves nothing behind."""

    __slots__ = (
        "array_names",
        "at",
        "has_ids",
        "ids",
        "label_only",
        "names",
        "parsed",
        "records",
        "room",
        "ts",
        "worth_keeping",
        "y",
    )

    def __init__(self, names: Names, array_names: ArrayNames) -> None:
        self.names = names
        self.array_names = array_names
        self.worth_keeping = names.weight > 0
        self.records = array("q")
        """By row, what was skimmed; -1: nothing."""
        self.room = 0
        self.parsed: dict[int, tuple[Any, bytes]] = {}
        """`x` and its values, by row, of records that were not skimmed."""
        self.at = array("q")
        self.ts = array("q")
        self.y = array("b")
        self.ids: list[str | None] = []
        self.has_ids = False
        self.label_only: list[int] = []

    def add_skimmed(self, at: int, size: int, id_: str | None, ts: int, target: int) -> None:
        """The record at place `at` of the poll, of whose `x` so many features were skimmed."""
        self.room += size
        self._add(at, at, id_, ts, target)

    def add(self, at: int, x: Any, id_: str | None, ts: int, target: int) -> None:
        """The record at place `at` of the poll; without `x`, a later label. Checks first, then changes."""
        if x is None:
            self.label_only.append(len(self.at))
        else:
            self.parsed[len(self.at)] = x, self._checked(x)
            self.room += len(x)
        self._add(at, -1, id_, ts, target)

    def _add(self, at: int, record: int, id_: str | None, ts: int, target: int) -> None:
        self.at.append(at)
        self.records.append(record)
        self.ts.append(ts)
        self.y.append(target)
        self.ids.append(id_)
        if id_ is not None:
            self.has_ids = True

    def _checked(self, x: Any) -> bytes:
        """The values of a parsed `x`."""
        if type(x) is dict:
            values: Iterable[Any] = x.values()
        elif type(x) is list:
            values = x
        else:
            raise Refused("bad-x", f"x is {kind(x)}, not an object or an array")
        try:
            packed = _pack_doubles[len(x)](*values)
        except StructError:
            self.array_names.refuse_value(x)
        if _LIKE_BOOLEANS in packed and bool in map(type, values):
            self.array_names.refuse_value(x)
        if type(x) is list:
            self.array_names.of(len(x))
        else:
            self.array_names.check_size(len(x))
            if "" in x:
                raise Refused("bad-feature", "a feature's name is empty")
        return packed

    def _places(self, x: Any) -> NDArray[np.int32]:
        """Of the names in an `x` that has been checked."""
        index, size = self.names.index, len(x)
        if type(x) is dict:
            return np.fromiter(map(index.__getitem__, x), dtype=np.int32, count=size)
        if size > len(self.names.array_places):
            called = self.array_names.of(size)
            self.names.array_places = np.fromiter(map(index.__getitem__, called), dtype=np.int32, count=size)
        return self.names.array_places[:size]

    def batch(
        self, poll: RawPoll, offsets: Offsets, found: Skimmed, parse: Parse
    ) -> tuple[InstanceBatch, list[DeadLetter]]:
        """What was added, columnar; a record that only now shows to be unusable is a dead letter."""
        known = len(self.names.as_tuple)
        out, refused = self._place(poll, found, parse)
        names = self.names.freeze()
        indptr, filled = out.indptr, int(out.indptr[-1])
        indices, values = out.indices[:filled], out.values[:filled]
        new_or_steady = known in (0, len(names))
        self.worth_keeping = new_or_steady or len(names) <= max(_KEPT_NAMES, 2 * _used(indices))

        label_only = None
        if self.label_only:
            label_only = np.zeros(len(self.at), dtype=np.bool_)
            label_only[self.label_only] = True
        at = np.frombuffer(self.at, dtype=np.int64)
        batch = InstanceBatch(
            names,
            indptr,
            indices,
            values,
            np.frombuffer(self.y, dtype=np.int8),
            np.frombuffer(self.ts, dtype=np.int64),
            offsets[0, at],
            offsets[1, at],
            self.ids if self.has_ids else None,
            label_only,
        )
        return (_without(batch, list(refused)), [*refused.values()]) if refused else (batch, [])

    def _place(self, poll: RawPoll, found: Skimmed, parse: Parse) -> tuple[Columnar, dict[int, DeadLetter]]:
        """Places and values of all rows; by row, what is refused."""
        records = np.frombuffer(self.records, dtype=np.int64)
        out = Columnar(np.zeros(len(records) + 1, np.int64), np.empty(self.room, np.int32), np.empty(self.room))
        refused: dict[int, DeadLetter] = {}
        places, row = self.names.spell(), 0
        while row < len(records):
            if self.records[row] >= 0:
                row = place_rows(found, records, row, places, self.names.array_places, out)
                if row == len(records):
                    break
            x, values = self.parsed.get(row, _NOTHING)
            if self.records[row] >= 0:
                at = self.at[row]
                try:
                    read = parse(poll.values[at])["x"]
                    x, values = read, self._checked(read)
                except Refused as refusal:
                    refused[row] = refusal.letter(poll.offsets[at], poll.keys[at], poll.values[at])
            out.fill(row, self._places(x), values)
            row += 1
            if row < len(records) and self.names.grown():
                places = self.names.spell()
        return out, refused


def _without(batch: InstanceBatch, rows: list[int]) -> InstanceBatch:
    """The batch without these rows, which are empty."""
    return replace(
        batch,
        indptr=np.delete(batch.indptr, rows),
        y=np.delete(batch.y, rows),
        ts=np.delete(batch.ts, rows),
        offset=np.delete(batch.offset, rows),
        next_offset=np.delete(batch.next_offset, rows),
        ids=None if batch.ids is None else [id_ for row, id_ in enumerate(batch.ids) if row not in rows],
        label_only=None if batch.label_only is None else np.delete(batch.label_only, rows),
    )


def _used(indices: NDArray[np.int32]) -> int:
    """How many different names the rows use."""
    return int(np.count_nonzero(np.bincount(indices)))


class _Packers(dict[int, Callable[..., bytes]]):
    """By size: so many numbers -> the bytes of their array, in one call: the fastest way there is."""

    def __missing__(self, size: int) -> Callable[..., bytes]:
        pack = Struct(f"{size}d").pack
        if size <= 4096:
            self[size] = pack
        return pack


_pack_doubles = _Packers()
_NOTHING: tuple[Any, bytes] = ({}, b"")
_LIKE_BOOLEANS = bytes(6)
"""Six zero bytes in a row: true packs as 1.0 and false as 0.0, and both have them."""
