"""What became a dead letter in this process, counted while it runs; and when there are too many to go on."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sluiceway.errors import FlowError
from sluiceway.schemas import encode
from sluiceway.schemas.lane import OutRecord, RawPoll


@dataclass(slots=True)
class OfClass:
    """Dead letters of one class, and the first of them."""

    count: int
    partition: int
    offset: int
    message: str

    def __str__(self) -> str:
        return f"at offset {self.offset} of partition {self.partition}: {self.message}"


@dataclass(frozen=True, slots=True)
class Limit:
    """How many of so many records of a partition, the newest, may be dead letters."""

    most: int | float
    """A whole number is a count, a fraction a share."""
    window: int

    def exceeded(self, dead: int, records: int) -> bool:
        if isinstance(self.most, int):
            return dead > self.most
        return records >= self.window and dead > self.most * records

    def __str__(self) -> str:
        return f"input.max_dead_letters = {self.most}"


@dataclass(slots=True)
class DeadLetters:
    """Written by the workers, read by whoever shows it."""

    limit: Limit | None = None
    records: dict[int, int] = field(default_factory=dict)
    """Records looked at, dead letters or not, by the input that they are of."""
    letters: dict[str, int] = field(default_factory=dict)
    """Dead letters by the topic that their records are of."""
    classes: dict[str, OfClass] = field(default_factory=dict)
    too_many: str | None = None
    """The sentence, once there are."""
    _read: dict[int, int] = field(default_factory=dict)
    """Records by lane."""
    _lately: dict[int, deque[int]] = field(default_factory=dict)
    """By lane, which of its newest records, a window of them, are dead letters: numbered as they were read."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def count(self) -> int:
        return sum(one.count for one in self.classes.copy().values())

    def nothing_else(self, topics: Sequence[str]) -> str | None:
        """Of which of the topics that are read each record became one; None if there is none."""
        for number, topic in enumerate(topics):
            if 0 < self.records.get(number, 0) <= self.letters.get(topic, 0):
                return topic
        return None

    def note(self, poll: RawPoll, letters: Sequence[OutRecord], side: int = 0) -> None:
        """A poll of a lane, of which input it is, and what cannot be used."""
        lane = poll.lane
        with self._lock:
            self.records[side] = self.records.get(side, 0) + len(poll.values)
            for letter in letters:
                reason = encode.reason(letter)
                self.letters[reason["topic"]] = self.letters.get(reason["topic"], 0) + 1
                known = self.classes.get(reason["class"])
                if known is None:
                    self.classes[reason["class"]] = OfClass(1, lane, letter.offset, reason["message"])
                else:
                    known.count += 1
            if self.limit is not None and self.too_many is None:
                self._judge(self.limit, poll, letters)

    def _judge(self, limit: Limit, poll: RawPoll, letters: Sequence[OutRecord]) -> None:
        """Record by record, wherever polls begin and end: after each dead letter, and once there is a whole window."""
        lane, before = poll.lane, self._read.get(poll.lane, 0)
        read = self._read[lane] = before + len(poll.values)
        lately = self._lately.setdefault(lane, deque())
        looks = [(before + bisect_right(poll.offsets, letter.offset), "dead letter") for letter in letters]
        if before < limit.window <= read:
            looks.append((limit.window, "whole window"))
        for number, what in sorted(looks):
            if what == "dead letter":
                lately.append(number)
            while lately and lately[0] <= number - limit.window:
                lately.popleft()
            total = min(number, limit.window)
            if limit.exceeded(len(lately), total):
                self.too_many = f"{len(lately):,} of the last {total:,} records of partition {lane} are dead letters"
                return

    def refuse_too_many(self, flow: str, verb: str) -> None:
        """Once everything is committed."""
        if self.too_many is not None:
            raise FlowError(
                f"{flow}: stopped, because {self.too_many}, more than {self.limit} allows: {self.sentence()}. All that"
                f" was read is committed: `sluiceway {verb}` goes on after it"
            )

    def sentence(self) -> str:
        """How many of each class, most first, and an example; nothing if there are none."""
        ranked = sorted(self.classes.copy().items(), key=lambda one: (-one[1].count, one[0]))
        if not ranked:
            return ""
        total = sum(one.count for _, one in ranked)
        parts = ", ".join(f"{one.count:,} {name}" for name, one in ranked)
        what = f"{total:,} dead letter{'' if total == 1 else 's'}"
        counts = f"{what} ({ranked[0][0]})" if len(ranked) == 1 else f"{what} ({parts})"
        return f"{counts}, the first of class {ranked[0][0]} {ranked[0][1]}"
