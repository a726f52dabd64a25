"""Sentences for a flow whose map looks in the wrong place.

A record without a label, an id or a time is nothing wrong: so the flow goes on, and a path that is never there would go
unnoticed.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from sluiceway.schemas.judge import listed, members_of
from sluiceway.schemas.lane import DeadLetter, RawPoll
from sluiceway.schemas.paths import find
from sluiceway.schemas.refusal import Refused, show

logger = logging.getLogger("sluiceway.input")

_ENOUGH = 100
"""Records, until something is said."""
_SHOWN = 12
_WHAT = {
    "label": "a label", "id": "an id", "time": "a time", "stream": "a name of its stream", "features": "features",
}  # fmt: skip


class WatchedPaths:
    """Keeps the first records until there are enough of them or the input ends, looks at them once, and is done."""

    def __init__(
        self,
        flow: str,
        watched: Mapping[str, str],
        as_json: Callable[[], Callable[[bytes], bytes]] | None,
        warnings: list[str],
        label: str | None = None,
    ) -> None:
        """`watched`: paths by the settings that name them; `label`: where the labels are that may be refused. What is
        said is added to `warnings`."""
        self._flow, self._watched, self._label = flow, watched, label
        self._as_json = as_json
        self._warnings = warnings
        self._values: list[bytes] = []
        self._bad_labels = False
        self.done = False

    def look(self, poll: RawPoll, dead_letters: Sequence[DeadLetter] = ()) -> None:
        if self.done:
            return
        self._values += [value for at, value in enumerate(poll.values[:_ENOUGH]) if value and at not in poll.arrow]
        self._bad_labels |= any(letter.error_class == "bad-label" for letter in dead_letters)
        if len(self._values) >= _ENOUGH or poll.end:
            self.end()

    def end(self) -> None:
        """There will be no more."""
        if not self.done and self._values:
            self.done = True
            self._judge(self._records())

    def _records(self) -> list[dict[str, Any]]:
        as_json = bytes if self._as_json is None else self._as_json()
        records = []
        for value in self._values:
            try:
                record = orjson.loads(as_json(value))
            except (Refused, orjson.JSONDecodeError):
                continue
            if type(record) is dict:
                records.append(record)
        self._values = []
        return records

    def _judge(self, records: list[dict[str, Any]]) -> None:
        if not records:
            return
        of = f"the first {len(records)} records" if len(records) > 1 else "the first record"
        for setting, path in self._watched.items():
            if all(find(record, path) is None for record in records):
                what = _WHAT[setting.rpartition(".")[2]]
                near = difflib.get_close_matches(path, members_of(records[0]), n=1, cutoff=0.7)
                has = f"; {'they have' if len(records) > 1 else 'it has'} {listed(records[0])}"
                meant = f": did you mean {near[0]!r}?" if near else ""
                no = "none of" if len(records) > 1 else "not even"
                self._tell(f"{no} {of} has {what} at {setting} = {path!r}{has}{meant}")
        if self._bad_labels and self._label is not None:
            seen = [*dict.fromkeys(show(one) for record in records if (one := find(record, self._label)) is not None)]
            shown = ", ".join([*seen[:_SHOWN], *(["..."] if len(seen) > _SHOWN else [])])
            self._tell(f"{of} have the labels {shown} at {self._label!r}: input.classes must name all that there are")

    def _tell(self, sentence: str) -> None:
        self._warnings.append(sentence)
        logger.warning("%s: %s", self._flow, sentence)
