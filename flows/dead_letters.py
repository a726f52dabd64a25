"""What became a dead letter in this process, counted while it runs; and when there are too many to go on."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sluiceway.errors import FlowError
from sluiceway.schemas import encode
from sluiceway.schemas.lane import OutRecord


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
    """How many of about so many records of a partition, the newest, may be dead letters."""

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
    records: int = 0
    """Records looked at, dead letters or not."""
    classes: dict[str, OfClass] = field(default_factory=dict)
    too_many: str | None = None
    """The sentence, once there are."""
    _lately: dict[int, deque[tuple[int, int]]] = field(default_factory=dict)
    """By lane, records and dead letters of its newest polls: at least a window of them, if there are so many."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def count(self) -> int:
        return sum(one.count for one in self.classes.copy().values())

    @property
    def nothing_else(self) -> bool:
        """Whether each record read became one."""
        return 0 < self.records <= self.count

    def note(self, lane: int, records: int, letters: Sequence[OutRecord]) -> None:
        """A poll of a lane, and what of it cannot be used."""
        with self._lock:
            self.records += records
            for letter in letters:
                reason = encode.reason(letter)
                known = self.classes.get(reason["class"])
                if known is None:
                    self.classes[reason["class"]] = OfClass(1, lane, letter.offset, reason["message"])
                else:
                    known.count += 1
            if self.limit is not None and self.too_many is None:
                self._judge(self.limit, lane, records, len(letters))

    def _judge(self, limit: Limit, lane: int, records: int, dead: int) -> None:
        lately = self._lately.setdefault(lane, deque())
        lately.append((records, dead))
        total = sum(records for records, _ in lately)
        while total - lately[0][0] >= limit.window:
            total -= lately.popleft()[0]
        dead = sum(dead for _, dead in lately)
        if limit.exceeded(dead, total):
            self.too_many = f"{dead:,} of the last {total:,} records of partition {lane} are dead letters"

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
