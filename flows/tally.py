"""What a lane has given, counted a poll at a time; what is counted here becomes visible with a commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from sluiceway.schemas.encode import ERROR_HEADER
from sluiceway.schemas.lane import LaneOutput, OutRecord

_CLASS = f"{ERROR_HEADER}class"


class _Changes(msgspec.Struct):
    """Of a snapshot; all else in it is skipped."""

    entered: list[msgspec.Raw] = []
    left: list[msgspec.Raw] = []


_changes = msgspec.json.Decoder(_Changes)


@dataclass(slots=True)
class Tally:
    """Counts that only rise."""

    records: int = 0
    """Messages read."""
    instances: int = 0
    """Instances, or columns, that could be used."""
    learnt: int = 0
    """Labelled instances that were predicted, then learnt from; and how many of the predictions were wrong:"""
    mistakes: int = 0
    entered: int = 0
    """Features that entered a selection, and that left one, as the snapshots say."""
    left: int = 0
    outputs: Counter[str] = field(default_factory=Counter)
    """Records by what they are; final snapshots are snapshots, dead letters stand below."""
    dead_letters: Counter[str] = field(default_factory=Counter)
    """By class."""

    def take(self, output: LaneOutput) -> None:
        """One poll's."""
        self.records += output.records
        self.instances += output.instances
        self.learnt += output.learnt
        self.mistakes += output.mistakes
        for snapshots in (output.selections, output.finals):
            for record in snapshots:
                self._snapshot(record)
        for letter in output.dead_letters:
            self.dead_letters[_class(letter)] += 1
        for name in ("predictions", "verdicts", "requests", "applied", "labelled"):
            records: list[OutRecord] = getattr(output, name, [])
            if records:
                self.outputs[name] += len(records)

    def _snapshot(self, record: OutRecord) -> None:
        changes = _changes.decode(record.value or b"{}")
        self.outputs["selections"] += 1
        self.entered += len(changes.entered)
        self.left += len(changes.left)

    def add(self, other: Tally) -> None:
        self.records += other.records
        self.instances += other.instances
        self.learnt += other.learnt
        self.mistakes += other.mistakes
        self.entered += other.entered
        self.left += other.left
        self.outputs.update(other.outputs)
        self.dead_letters.update(other.dead_letters)


def _class(letter: OutRecord) -> str:
    return next((value.decode() for name, value in letter.headers if name == _CLASS), "unknown")
