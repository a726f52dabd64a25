"""The rows of one stream in one poll, from parsed records to a columnar batch, and the names they are told by."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from struct import Struct
from struct import error as StructError
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.refusal import Refused, kind, show

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


class Names:
    """A stream's names in order of first appearance, and the shape of its newest record.

    Most streams send the same names in the same order in every record: then finding the positions of a
    record's features is one comparison of lists.
    """

    __slots__ = ("array_positions", "as_tuple", "index", "keys", "positions", "weight")

    def __init__(self) -> None:
        self.index: defaultdict[str, int] = defaultdict(count().__next__)
        self.as_tuple: tuple[str, ...] = ()
        self.weight = 0
        self.keys: list[str] = []
        self.positions = b""
        self.array_positions = b""

    def freeze(self) -> tuple[str, ...]:
        """The same tuple as last time unless names have come."""
        if len(self.as_tuple) != len(self.index) or not self.weight:
            self.as_tuple = tuple(self.index)
            self.weight = 2048 + sum(map(len, self.as_tuple)) + 160 * len(self.as_tuple)
        return self.as_tuple


class Rows:
    """The rows of one stream in one poll, growing record by record; a refused record leaves nothing behind."""

    __slots__ = (
        "array_names",
        "at",
        "has_ids",
        "ids",
        "indices",
        "label_only",
        "names",
        "sizes",
        "ts",
        "values",
        "worth_keeping",
        "y",
    )

    def __init__(self, names: Names, array_names: ArrayNames) -> None:
        self.names = names
        self.array_names = array_names
        self.worth_keeping = names.weight > 0
        self.indices: list[bytes] = []
        self.values: list[bytes] = []
        self.sizes = array("q")
        self.at = array("q")
        self.ts = array("q")
        self.y = array("b")
        self.ids: list[str | None] = []
        self.has_ids = False
        self.label_only: list[int] = []

    def add(self, at: int, x: Any, id_: str | None, ts: int, target: int) -> None:
        """The record at place `at` of the poll; without `x`, a later label. Checks first, then changes."""
        if x is None:
            size = 0
            self.label_only.append(len(self.at))
        else:
            if type(x) is dict:
                values: Iterable[Any] = x.values()
            elif type(x) is list:
                values = x
            else:
                raise Refused("bad-x", f"x is {kind(x)}, not an object or an array")
            size = len(x)
            try:
                packed = _pack_doubles[size](*values)
            except StructError:
                self.array_names.refuse_value(x)
            if _LIKE_BOOLEANS in packed and bool in map(type, values):
                self.array_names.refuse_value(x)
            names = self.names
            if values is x:
                if size * _INT32 != len(names.array_positions):
                    called = self.array_names.of(size)
                    names.array_positions = _pack_ints[size](*map(names.index.__getitem__, called))
                self.indices.append(names.array_positions)
            else:
                keys = [*x]
                if keys != names.keys:
                    self.array_names.check_size(size)
                    if "" in x:
                        raise Refused("bad-feature", "a feature's name is empty")
                    names.positions = _pack_ints[size](*map(names.index.__getitem__, keys))
                names.keys = keys  # the parser hands out the very same strings again: the quickest to compare
                self.indices.append(names.positions)
            self.values.append(packed)
        self.sizes.append(size)
        self.at.append(at)
        self.ts.append(ts)
        self.y.append(target)
        self.ids.append(id_)
        if id_ is not None:
            self.has_ids = True

    def batch(self, offsets: NDArray[np.int64], next_offsets: NDArray[np.int64]) -> InstanceBatch:
        known = len(self.names.as_tuple)
        names = self.names.freeze()
        indptr = np.zeros(len(self.sizes) + 1, dtype=np.int64)
        np.cumsum(np.frombuffer(self.sizes, dtype=np.int64), out=indptr[1:])
        indices = np.frombuffer(b"".join(self.indices), dtype=np.int32)
        values = np.frombuffer(b"".join(self.values), dtype=np.float64)
        new_or_steady = known in (0, len(names))
        self.worth_keeping = new_or_steady or len(names) <= max(_KEPT_NAMES, 2 * _used(indices))

        present = values != 0
        if not present.all():
            indptr = np.concatenate(([0], np.cumsum(present)))[indptr]
            indices, values = indices[present], values[present]
        label_only = None
        if self.label_only:
            label_only = np.zeros(len(self.sizes), dtype=np.bool_)
            label_only[self.label_only] = True
        at = np.frombuffer(self.at, dtype=np.int64)
        return InstanceBatch(
            names,
            indptr,
            indices,
            values,
            np.frombuffer(self.y, dtype=np.int8),
            np.frombuffer(self.ts, dtype=np.int64),
            offsets[at],
            next_offsets[at],
            self.ids if self.has_ids else None,
            label_only,
        )


def _used(indices: NDArray[np.int32]) -> int:
    """How many different names the rows use."""
    return int(np.count_nonzero(np.bincount(indices)))


class _Packers(dict[int, Callable[..., bytes]]):
    """By size: so many numbers -> the bytes of their array, in one call: the fastest way there is."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __missing__(self, size: int) -> Callable[..., bytes]:
        pack = Struct(f"{size}{self.code}").pack
        if size <= 4096:
            self[size] = pack
        return pack


_pack_doubles = _Packers("d")
_pack_ints = _Packers("i")
_INT32 = 4
_LIKE_BOOLEANS = bytes(6)
"""Six zero bytes in a row: true packs as 1.0 and false as 0.0, and both have them."""
