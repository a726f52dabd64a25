"""Where to start and stop reading a partition, in kcat's words: `beginning | end | N | -N | s@MS`, or an ISO time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from sluiceway.errors import SettingsError

FORMS = "beginning, end, an offset N, -N for the last N records, s@MILLISECONDS or an ISO-8601 time"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a partition, still to be resolved against what the partition holds."""

    kind: Literal["beginning", "end", "offset", "last", "time"]
    value: int = 0
    """The offset, the number of last records, or milliseconds since 1970."""


def parse_position(given: str | int) -> Position:
    """Read one of the forms; anything else is a `SettingsError` that lists them."""
    text = str(given).strip()
    if text in ("beginning", "end"):
        return Position("beginning" if text == "beginning" else "end")
    if number := re.fullmatch(r"(-|s@)?(\d{1,18})", text, re.ASCII):
        kinds: dict[str | None, Literal["offset", "last", "time"]] = {None: "offset", "-": "last", "s@": "time"}
        return Position(kinds[number[1]], int(number[2]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(f"{text!r} is no position in a topic; write {FORMS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Position("time", max(round(moment.timestamp() * 1000), 0))  # no record is older than 1970
