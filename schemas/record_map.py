"""Where in a record of another shape the label, the id, the time, the stream and the features are.

A path is the names of members joined by dots, from the record down: `payload.after.amount`. It holds for objects in
objects and for a single member whose name has the dots in it, and an array's places are called 0, 1, 2, ...

Features are all that lies in the object `features` (by default the record itself), nested objects as dotted names
(`geo.lat`), but for what is the label, the id, the time or the stream. Their names begin below `features`. A pattern is
a name in which `*` stands for any letters; one that fits an object holds for all in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

TimeUnit = Literal["s", "ms", "us", "ns"]
Texts = Literal["refuse", "one-hot", "ignore"]

LABEL, ID, TIME, STREAM = ROLES = ("label", "id", "time", "stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMap:
    """`ValueError` says what does not go together."""

    label: str = "y"
    id: str = "id"
    time: str = "ts"
    stream: str | None = None
    """None: something else than the record names the stream."""
    features: str = ""
    """Empty: the record itself."""
    include: Sequence[str] = ()
    """Nothing given: all are included."""
    exclude: Sequence[str] = ()
    time_unit: TimeUnit = "ms"
    """Of times that are numbers; a text is ISO 8601."""
    texts: Texts = "refuse"
    """What a text among the features is: the dead letter of its record, a feature `name=text` of 1, or nothing."""

    def __post_init__(self) -> None:
        for role, path in self.roles.items():
            if not path or any(not name for name in path.split(".")):
                raise ValueError(f"{role} = {path!r} is no path: it is the names of members joined by dots")
        for role, path in self.roles.items():
            for other, above in [*self.roles.items(), ("features", self.features)]:
                if role != other and path == above:
                    raise ValueError(f"{role} and {other} are both {path!r}")
                if other != "features" and path.startswith(f"{above}."):
                    raise ValueError(f"{role} = {path!r} lies in {other} = {above!r}, which has nothing in it")
        for role, path in self.roles.items():
            if self.features.startswith(f"{path}."):
                raise ValueError(f"features = {self.features!r} lies in {role} = {path!r}, which has nothing in it")
        if self.features and any(not name for name in self.features.split(".")):
            raise ValueError(f"features = {self.features!r} is no path: it is the names of members joined by dots")
        if not all(self.include) or not all(self.exclude):
            raise ValueError("a pattern of include or exclude is empty")

    @property
    def roles(self) -> dict[str, str]:
        """The paths of what is no feature."""
        given = {LABEL: self.label, ID: self.id, TIME: self.time, STREAM: self.stream}
        return {role: path for role, path in given.items() if path is not None}

    def settings(self) -> dict[str, object]:
        """As plain values."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


def pattern_of(pattern: str) -> re.Pattern[str]:
    """What fits a pattern."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
