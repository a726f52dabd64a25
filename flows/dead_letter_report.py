"""What a topic of dead letters holds, by class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sluiceway.topics.dead_letters import Letter, letter_of
from sluiceway.topics.feeds import Entry


@dataclass(frozen=True, slots=True)
class Example:
    """A dead letter, for people."""

    topic: str
    partition: int
    offset: int
    """Where the record was read."""
    message: str
    key: str | None
    value: str | None


@dataclass(slots=True)
class ClassReport:
    count: int
    newest: Example


@dataclass(slots=True)
class DeadLetterReport:
    classes: dict[str, ClassReport] = field(default_factory=dict)
    """Most first."""
    others: int = 0
    """Records that are none: `sluiceway redrive` keeps its ledger here."""


def summary(entries: Iterable[Entry], tick: Callable[[], None]) -> DeadLetterReport:
    counts: dict[str, int] = {}
    newest: dict[str, Letter] = {}
    others = 0
    for entry in entries:
        tick()
        letter = letter_of(entry)
        if letter is None:
            others += 1
            continue
        name = letter.error_class
        counts[name] = counts.get(name, 0) + 1
        if name not in newest or (letter.ts, letter.offset) >= (newest[name].ts, newest[name].offset):
            newest[name] = letter
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    return DeadLetterReport({name: ClassReport(counts[name], _example(newest[name])) for name in ranked}, others)


def _example(letter: Letter) -> Example:
    topic, partition, offset = letter.source
    return Example(topic, partition, offset, letter.reason["message"], _text(letter.key), _text(letter.value))


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
