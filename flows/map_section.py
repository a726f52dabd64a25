"""`[input.map]`: where in a record of another shape everything is."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from sluiceway.errors import SettingsError
from sluiceway.flows.section import Section
from sluiceway.schemas.record_map import RecordMap


class MapSection(Section):
    label: str = "y"
    """Path of the label: names of members joined by dots, as `payload.after.fraud`."""
    id: str = "id"
    """Path of the id."""
    time: str = "ts"
    """Path of the time: a number, or a text of ISO 8601 (of UTC, if it has no offset)."""
    time_unit: Literal["s", "ms", "us", "ns"] = "ms"
    """What a time that is a number counts, from 1970 on."""
    stream: str | None = None
    """Path of what names the stream, a text or an integer; without it `input.stream` says what does. The records of a
    stream must lie in one partition."""
    features: str = ""
    """Path of the object (or array) whose members are the features; by default they are the record's own. What is the
    label, the id, the time or the stream is none."""
    include: list[str] | None = None
    """Names of the features there are, `*` standing for any letters; a name of an object is for all in it. By default
    all are."""
    exclude: list[str] | None = None
    """Names of what is no feature, in the same form."""
    texts: Literal["refuse", "one-hot", "ignore"] = "refuse"
    """What a text among the features is: its record's dead letter, a feature `name=text` of 1, or nothing."""

    @field_validator("time_unit", mode="before")
    @classmethod
    def _in_ascii(cls, unit: object) -> object:
        """µs, with the sign for micro or the Greek letter."""
        return "us" if unit in ("\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s") else unit

    def record_map(self) -> RecordMap:
        given = {name: getattr(self, name) for name in MapSection.model_fields}
        try:
            return RecordMap(**{**given, "include": tuple(self.include or ()), "exclude": tuple(self.exclude or ())})
        except ValueError as problem:
            raise SettingsError(f"input.map: {problem}") from None
