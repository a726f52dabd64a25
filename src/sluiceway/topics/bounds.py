"""From where to where a run reads each partition, decided once at its start."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from sluiceway.errors import SettingsError
from sluiceway.topics.positions import parse_position

RECORDS_A_POLL = 1000


@dataclass(frozen=True, slots=True)
class Bounds:
    """One start and, for bounded input, one stop (exclusive) a partition."""

    starts: tuple[int, ...]
    stops: tuple[int | None, ...]
    stop_setting: str | None = None
    """The `input.stop` that `stops` come from."""
    others: Mapping[str, Bounds] = field(default_factory=dict)
    """Of the topics that are read beside the first one, by what they hold."""

    def __len__(self) -> int:
        return len(self.starts)

    def to_json(self) -> dict[str, Any]:
        content = asdict(self)
        return content if self.others else {name: value for name, value in content.items() if name != "others"}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        others = {name: cls.from_json(bounds) for name, bounds in content.get("others", {}).items()}
        return cls(tuple(content["starts"]), tuple(content["stops"]), content["stop_setting"], others)


def refuse_future_stop(stop: str | None) -> None:
    """A stop is decided at the start: nobody knows yet which record will be the first after a time to come."""
    if stop is not None and parse_position(stop).kind == "time" and parse_position(stop).value > time.time() * 1000:
        raise SettingsError(f"input.stop = {stop!r} lies in the future; leave it out to run until stopped")
