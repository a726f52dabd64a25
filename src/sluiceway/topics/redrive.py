"""Sending dead letters again: what is to be sent, and what has been.

What was sent is written down in a *ledger*: of each class, up to which offset of each partition of the dead letters;
and where in the other topic those records lie. By the first no letter is sent twice. By the second a record is known
that was sent again and came back as a dead letter: sending it once more would go round for ever. On Kafka a record that
was sent again says so itself, in a header that its next dead letter keeps: so one that goes round by several topics is
known too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sluiceway.schemas.encode import REDRIVEN
from sluiceway.topics.dead_letters import Letter
from sluiceway.topics.partitioner import partition_of


@dataclass(slots=True)
class Ledger:
    """What all earlier redrives of a topic of dead letters have done."""

    until: dict[str, dict[int, int]] = field(default_factory=dict)
    """Of each class, of each topic that the records are of, and each partition of the dead letters: the offset of the
    last one sent."""
    places: dict[str, dict[int, list[tuple[int, int]]]] = field(default_factory=dict)
    """Of each topic sent to and each partition, the first and the last offset of records sent, in order."""

    def sent(self, letter: Letter) -> bool:
        return letter.offset <= self.until.get(_kind(letter), {}).get(letter.partition, -1)

    def came_back(self, letter: Letter) -> bool:
        """Whether the letter's record is one that was sent again."""
        if any(name == REDRIVEN for name, _ in letter.headers):
            return True
        topic, partition, offset = letter.source
        ranges = self.places.get(topic, {}).get(partition, [])
        at = bisect_right(ranges, (offset, 2**63)) - 1
        return at >= 0 and offset <= ranges[at][1]

    def note(self, letter: Letter) -> None:
        known = self.until.setdefault(_kind(letter), {})
        known[letter.partition] = max(letter.offset, known.get(letter.partition, -1))

    def note_place(self, topic: str, partition: int, offset: int) -> None:
        """Offsets of a partition come in rising order."""
        ranges = self.places.setdefault(topic, {}).setdefault(partition, [])
        if ranges and offset == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))

    def add(self, other: Ledger) -> None:
        for name, offsets in other.until.items():
            known = self.until.setdefault(name, {})
            for partition, offset in offsets.items():
                known[partition] = max(offset, known.get(partition, -1))
        for topic, partitions in other.places.items():
            for partition, ranges in partitions.items():
                own = self.places.setdefault(topic, {})
                own[partition] = sorted([*own.get(partition, []), *ranges])

    def dump(self) -> dict[str, Any]:
        return {
            "until": {name: sorted(offsets.items()) for name, offsets in self.until.items()},
            "places": {topic: sorted(partitions.items()) for topic, partitions in self.places.items()},
        }

    @classmethod
    def load(cls, content: Any) -> Ledger:
        """`ValueError`, `TypeError` or `KeyError` if it is none."""
        until = {name: {int(p): int(offset) for p, offset in offsets} for name, offsets in content["until"].items()}
        places = {
            topic: {int(p): [(int(first), int(last)) for first, last in ranges] for p, ranges in partitions}
            for topic, partitions in content["places"].items()
        }
        return cls(until, places)


@dataclass(slots=True)
class Tally:
    """Of one class."""

    found: int = 0
    sent_before: int = 0
    came_back: int = 0
    """Sent again before, and refused again: held back."""
    sent: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """Which letters to send."""

    classes: frozenset[str]
    """Empty: all."""
    again: bool = False
    """Also those that came back."""
    topics: frozenset[str] = frozenset()
    """That their records are of. Empty: all."""


@dataclass(slots=True)
class Report:
    """What a redrive has done, or would do."""

    classes: dict[str, Tally] = field(default_factory=dict)

    @property
    def sent(self) -> int:
        return sum(tally.sent for tally in self.classes.values())

    @property
    def came_back(self) -> int:
        return sum(tally.came_back for tally in self.classes.values())


def chosen(letters: Iterable[Letter], choice: Choice, ledger: Ledger, report: Report) -> Iterator[Letter]:
    """Those to be sent; all are counted."""
    for letter in letters:
        if choice.classes and letter.error_class not in choice.classes:
            continue
        if choice.topics and letter.source[0] not in choice.topics:
            continue
        tally = report.classes.setdefault(letter.error_class, Tally())
        tally.found += 1
        if ledger.sent(letter):
            tally.sent_before += 1
        elif ledger.came_back(letter) and not choice.again:
            tally.came_back += 1
        else:
            tally.sent += 1
            yield letter


def _kind(letter: Letter) -> str:
    """What a redrive may be of alone, and what is noted apart therefore."""
    return f"{letter.error_class} {letter.source[0]}"


def partition_for(letter: Letter, key: bytes | None, to: str, partitions: int) -> int:
    """Back to the partition that it came from; in another topic, where its key belongs."""
    topic, partition, _ = letter.source
    if key and topic != to:
        return partition_of(key, partitions)
    return partition % partitions
