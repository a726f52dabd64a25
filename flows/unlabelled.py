"""A sentence for a flow whose map seems to look for the label in the wrong place.

Instances without a label are nothing wrong: so the flow goes on, and a path that is never there would go unnoticed.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable

import orjson

from sluiceway.schemas.lane import LaneBatch, RawPoll
from sluiceway.schemas.mapped_judge import members_of
from sluiceway.schemas.refusal import Refused

_ENOUGH = 100
"""Instances without a label, until something is said."""


class Unlabelled:
    """Looks at what is decoded until there is a label, or enough without one, or the input ends."""

    def __init__(self, flow: str, label: str, as_json: Callable[[], Callable[[bytes], bytes]] | None) -> None:
        self._flow = flow
        self._label = label
        self._as_json = as_json
        self._rows = 0
        self.done = False

    def look(self, poll: RawPoll, batch: LaneBatch) -> None:
        if self.done or batch.columns is None:
            return
        self._rows += len(batch.columns)
        self.done = bool(batch.columns.y.any())
        if self._rows and not self.done and (self._rows >= _ENOUGH or poll.end):
            self.done = True
            print(f"{self._flow}: {self._sentence(poll)}", file=sys.stderr, flush=True)

    def _sentence(self, poll: RawPoll) -> str:
        members = self._members(poll)
        near = difflib.get_close_matches(self._label, members, n=1, cutoff=0.7)
        advice = f"; did you mean {near[0]!r}?" if near else f"; they have {', '.join(members)}" if members else ""
        return f"none of the first {self._rows} instances has a label at input.map.label = {self._label!r}{advice}"

    def _members(self, poll: RawPoll) -> list[str]:
        """Of the first record that is one."""
        as_json = None if self._as_json is None else self._as_json()
        for value in poll.values:
            try:
                record = orjson.loads(value or b"" if as_json is None or not value else as_json(value))
            except (Refused, orjson.JSONDecodeError):
                continue
            if type(record) is dict:
                return members_of(record)
        return []
