"""What the lanes of a flow do; everything around it (store, bounds, members, stopping) is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sluiceway.flows.parts import OpenReader, Processor
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.progress import Progress
from sluiceway.flows.settings import Settings
from sluiceway.topics.store import Restored


class Work(Protocol):
    """`sluiceway run` selects, `sluiceway apply` applies, `sluiceway join` joins."""

    step: str
    """What its step is called in the dataflow."""

    def belongs_to(self, settings: Settings, around: Surroundings) -> dict[str, Any]:
        """What the models depend on: a change of any of it makes them another flow's."""

    def prepare(self, settings: Settings, on_compile: Callable[[], None] | None) -> None:
        """Made ready before the start; `on_compile` tells that it will take a while."""

    def reader(self, settings: Settings, around: Surroundings, progress: Progress) -> OpenReader: ...

    def decode(self, settings: Settings, around: Surroundings, progress: Progress) -> Callable[[Any], Any]:
        """Of a poll, for any thread."""

    def processor(self, settings: Settings, around: Surroundings) -> Callable[[int, Restored], Processor]: ...
