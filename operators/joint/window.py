"""What happened while one policy was in use: which features were used how often, how many decisions were right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sluiceway.operators.kernels.keys import feature_keys

FIELDS = ("rows", "used", "missing", "labelled", "right")


class Window:
    """Whole numbers only, so that windows add up whatever the order."""

    def __init__(self) -> None:
        self.rows = self.used = self.missing = self.labelled = self.right = 0
        self.by_name: Counter[str] = Counter()

    def add(self, other: Window) -> None:
        for field in FIELDS:
            setattr(self, field, getattr(self, field) + getattr(other, field))
        self.by_name.update(other.by_name)

    def names(self) -> list[str]:
        """Of the features used, in alphabetical order."""
        return sorted(name for name, count in self.by_name.items() if count)

    def shares(self) -> list[tuple[str, float]]:
        """The features used and the share of the rows that used each: the largest first, ties to the smaller key."""
        names = self.names()
        keys = dict(zip(names, feature_keys(names).tolist(), strict=True))
        ranked = sorted(names, key=lambda name: (-self.by_name[name], keys[name]))
        return [(name, self.by_name[name] / self.rows) for name in ranked]

    def state(self) -> dict[str, Any]:
        counted = {field: getattr(self, field) for field in FIELDS}
        return counted | {"by_name": {name: self.by_name[name] for name in self.names()}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Window:
        window = cls()
        for field in FIELDS:
            setattr(window, field, state[field])
        window.by_name = Counter(state["by_name"])
        return window
