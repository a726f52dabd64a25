"""`[join]`: labels on a topic of their own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluiceway.errors import SettingsError
from sluiceway.flows.section import Section
from sluiceway.operators.stages.pairs import Limit
from sluiceway.schemas.record_map import RecordMap


class JoinSection(Section):
    id: str = "id"
    """Path of the id in a record of `topics.labels`: the one of the instance that the label is for."""
    label: str = "y"
    """Path of the label in it."""
    time: str = "ts"
    """Path of its time, if it has one; `input.map.time_unit` holds for it too."""
    max_waiting: Annotated[int, Field(ge=0)] | None = None
    """At most so many instances of a partition wait for their labels, and so many labels for their instances; then the
    oldest are given up, once the other topic has been read to its end. With 0 nothing is left waiting
    then. By default all wait."""
    max_wait_seconds: Annotated[float, Field(gt=0)] | None = None
    """A record is given up when one comes whose time is so much later, once the other topic has been read to its end.
    By default it waits for ever."""
    unlabelled: Literal["keep", "dead-letters"] = "keep"
    """What becomes of an instance that is given up: it goes on without a label, or to dead letters."""

    @property
    def limit(self) -> Limit:
        longest = self.max_wait_seconds
        return Limit(self.max_waiting, None if longest is None else round(1000 * longest))

    def paths(self) -> RecordMap:
        """Where in a record of the labels everything is."""
        try:
            return RecordMap(label=self.label, id=self.id, time=self.time)
        except ValueError as problem:
            raise SettingsError(f"join: {problem}") from None
