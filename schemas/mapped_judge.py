"""The rules for records of other shapes, in Python: what one says by a flow's `[input.map]`, or why it is refused.

Compiled code reads those that are as such records usually are (`sluiceway.schemas.read_mapped`); here is what holds for
all of them. What is read from a registry's formats comes here too, already parsed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from sluiceway.schemas.array_names import ArrayNames
from sluiceway.schemas.batch import UNLABELLED, Label
from sluiceway.schemas.judge import Judge, Judged, listed, members_of
from sluiceway.schemas.record_map import RecordMap, pattern_of
from sluiceway.schemas.refusal import Refused, StreamNaming, kind, lenient, refuse_unreadable, show
from sluiceway.schemas.times import milliseconds

_INFINITY, _NAN = float("inf"), float("nan")


class _Of(NamedTuple):
    """An object or array on the way down: what is left of it, its path, and what its members are."""

    members: Iterator[tuple[str, Any]]
    path: str
    inside: bool
    included: bool


class MappedJudge(Judge):
    """Knows a flow's map."""

    def __init__(
        self,
        naming: StreamNaming,
        classes: Sequence[Label] | None,
        array: ArrayNames,
        record_map: RecordMap,
        *,
        keep_nulls: bool = False,
    ) -> None:
        super().__init__(naming, classes, array, keep_nulls=keep_nulls)
        self.map = record_map
        self._roles = {path: role for role, path in record_map.roles.items()}
        self._include = [pattern_of(pattern) for pattern in record_map.include]
        self._exclude = [pattern_of(pattern) for pattern in record_map.exclude]
        self._skip = len(record_map.features) + 1 if record_map.features else 0
        paths = (*self._roles, record_map.features)
        self._leading = {path[:at] for path in paths for at, letter in enumerate(path) if letter == "."}

    def judge(self, key: bytes | None, value: bytes | None, lane: int) -> Judged:
        """What the record says, or `Refused`."""
        return self.judge_parsed(key, self._parse(value), lane)

    def judge_parsed(self, key: bytes | None, record: Any, lane: int) -> Judged:
        """The same of a record that somebody else has read."""
        if type(record) is not dict:
            raise Refused("not-an-object", f"the record is {kind(record)}, not an object")
        said: dict[str, Any] = {}
        features: dict[str, float] = {}
        values = array("d")
        there = self._gather(record, said, features, values)
        y, id_ = said.get("label"), said.get("id")
        target = UNLABELLED if y is None else self.target(y)
        text = None if id_ is None else self._id(id_)
        time = said.get("time")
        ts = 0 if time is None else milliseconds(time, self.map.time_unit, self.map.time)
        stream = self._naming.stream(key, self._stream(said.get("stream")), lane)
        self._array.check_size(len(values))
        if not there and (text is None or y is None):
            raise Refused("missing-x", self._missing(record))
        return Judged(stream, features if there else None, values.tobytes(), target, ts, text)

    def target(self, y: object) -> int:
        target = self.plain.target(y)
        if target is None:
            raise Refused("bad-label", f"the label {self.map.label} is {kind(y)}; accepted are {self._accepted}")
        return target

    def _id(self, id_: object) -> str:
        if type(id_) is int:
            return str(id_)
        if type(id_) is str and id_:
            return id_
        raise Refused(
            "bad-id", f"the id {self.map.id} is {kind(id_)}, neither an integer nor a string that is not empty"
        )

    def _stream(self, stream: object) -> object:
        if self.map.stream is None or stream is None:
            return None
        if type(stream) is int:
            return str(stream)
        if type(stream) is str and stream:
            return stream
        raise Refused(
            "bad-stream",
            f"the stream {self.map.stream} is {kind(stream)}, neither an integer nor a string that is not empty",
        )

    # -- members -------------------------------------------------------------------------------------------------

    def _gather(
        self, record: dict[str, Any], said: dict[str, Any], features: dict[str, float], values: array[float]
    ) -> bool:
        """Take in what all members say; whether there is something in place of an `x`."""
        root = self.map.features
        of = _Of(iter(record.items()), "", not root, not root and not self._include)
        above: list[_Of] = []
        there = False
        while True:
            for name, value in of.members:
                path = f"{of.path}.{name}" if above else name
                role = self._roles.get(path)
                if role is not None:
                    said[role] = value
                    continue
                is_root = path == root
                inside, included = is_root or of.inside, not self._include if is_root else of.included
                if inside and not is_root:
                    inside, included = self._selected(path[self._skip :], included)
                nested = type(value) is dict or type(value) is list
                if nested and is_root and type(value) is list:
                    self._add_array(value, features, values)
                    there = True
                elif nested and (inside or path in self._leading):
                    there |= is_root
                    above.append(of)
                    of = _Of(_members(value), path, inside, included)
                    break
                elif is_root and value is not None:
                    raise Refused("bad-x", f"{path} is {kind(value)}, not an object or an array")
                elif inside and included:
                    there |= self._add(path[self._skip :], value, features, values) and not root
            else:
                if not above:
                    return there
                of = above.pop()

    def _selected(self, name: str, included: bool) -> tuple[bool, bool]:
        """Whether a feature of that name, or what is in it, may be one; and whether it is included."""
        if any(pattern.fullmatch(name) for pattern in self._exclude):
            return False, False
        return True, included or any(pattern.fullmatch(name) for pattern in self._include)

    def _add(self, name: str, value: object, features: dict[str, float], values: array[float]) -> bool:
        """Whether that gives a feature."""
        number: float
        if value is None:
            if not self._keep_nulls:
                return False
            number = _NAN
        elif type(value) is str:
            if self.map.texts == "ignore":
                return False
            if self.map.texts == "refuse":
                raise Refused(
                    "bad-feature",
                    f"feature {show(name)} is {kind(value)}, not a finite number: input.map.texts says what texts are,"
                    " or input.map.exclude leaves it out",
                )
            name, number = f"{name}={value}", 1.0
        elif type(value) is int or type(value) is float or type(value) is bool:
            try:
                number = float(value)
            except OverflowError:
                number = _INFINITY
            if number - number != 0.0:
                raise Refused("bad-feature", f"feature {show(name)} is too large for a float64")
        else:
            raise Refused("bad-feature", f"feature {show(name)} is {kind(value)}, not a finite number")
        if not name:
            raise Refused("bad-feature", "a feature's name is empty")
        if name in features:
            raise Refused("bad-feature", f"feature {show(name)} is there twice, once as a member of an object")
        features[name] = number
        values.append(number)
        return True

    def _add_array(self, given: list[Any], features: dict[str, float], values: array[float]) -> None:
        """In place of an `x`: its places have names."""
        self._array.check(len(given))
        self._array.know(len(given))
        for name, value in self._array.named(given):
            inside, included = self._selected(name, not self._include)
            if inside and included:
                self._add(name, value, features, values)

    # -- refusing ------------------------------------------------------------------------------------------------

    def _parse(self, value: bytes | None) -> Any:
        try:
            return orjson.loads(value)  # type: ignore[arg-type]  # None is refused like any other non-JSON
        except orjson.JSONDecodeError as error:
            record = lenient(value)
            if type(record) is dict:
                self._gather(record, {}, {}, array("d"))  # may say that a feature is too large
            refuse_unreadable(value, error)

    def unseen(self, record: Any) -> str:
        if type(record) is not dict or all(path in self._roles or path in self._leading for path in members_of(record)):
            return ""
        return f", and {self._nowhere()}; the record has {listed(record)}"

    def _missing(self, record: dict[str, Any]) -> str:
        label = f"and no later label either: {self.map.id} or {self.map.label} is missing too"
        return f"{self._nowhere()}, {label}; the record has {listed(record)}"

    def _nowhere(self) -> str:
        root = self.map.features
        return f"there is no {root}, where the features are" if root else "none of its members is a feature"


def _members(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    return iter(value.items()) if type(value) is dict else ((str(place), one) for place, one in enumerate(value))
