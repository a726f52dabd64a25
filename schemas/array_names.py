"""What the places of an `x` in array form are called: "0", "1", ..., or as `feature_names` says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from sluiceway.schemas.name_hash import NameTable
from sluiceway.schemas.refusal import Refused

_FEWEST = 16


class ArrayNames:
    """The names, as many as are needed so far; and how many features `x` may have at all."""

    def __init__(self, feature_names: Sequence[str] | None, limit: int) -> None:
        self.given = feature_names is not None
        self.limit = limit
        self._names = list(feature_names or ())
        if any(type(name) is not str or not name for name in self._names):
            raise ValueError("feature_names must be strings that are not empty")
        if len(set(self._names)) != len(self._names):
            raise ValueError("feature_names must not repeat")
        self.table = NameTable.of(())

    def check(self, size: int) -> None:
        """Refuse an array that is too long."""
        self.check_size(size)
        if self.given and len(self._names) < size:
            raise Refused("bad-x", f"x has {size} values for {len(self._names)} feature_names")

    def check_size(self, size: int) -> None:
        if size > self.limit:
            raise Refused("too-many-features", f"x has {size} features, more than the {self.limit} allowed")

    def know(self, size: int) -> None:
        """See that the table has the names of an array of this size, which has been checked."""
        known = len(self.table.lines)
        if size <= known:
            return
        if not self.given:
            wanted = min(max(size, 2 * known, _FEWEST), self.limit)
            self._names.extend(map(str, range(len(self._names), wanted)))
        self.table = NameTable.of([name.encode(errors="replace") for name in self._names])

    def named(self, x: object) -> Iterable[tuple[str, object]]:
        """Names and values of either form of `x`; nothing of anything else."""
        if type(x) is dict:
            return x.items()
        return zip(map(self._name, count()), x, strict=False) if type(x) is list else ()

    def _name(self, place: int) -> str:
        return self._names[place] if place < len(self._names) else str(place)
