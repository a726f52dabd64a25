"""How large a lane's state is, kept up to date commit by commit without asking the store."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from sluiceway.schemas.asleep import Asleep
from sluiceway.schemas.state import StoredChange

AT_ONCE = 10_000
"""Streams."""


class StateSize:
    """Bytes as they are stored, before compression; sixteen bytes of memory a stream.

    Only the whole is known of what was restored: until it is touched, a stream is taken to be as large as the others
    are on average, and a piece that is dropped as large as the others of its stream.
    """

    def __init__(self, streams: int = 0, size: int = 0, next_birth: int = 0) -> None:
        self.streams = streams
        self.bytes = size
        self._untouched = streams
        """Restored streams, and their bytes:"""
        self._untouched_bytes = size
        self._first_new = next_birth
        # by birth, which is a stream's number in its lane
        self._heads = array("I")
        self._pieces = array("I")
        self._piece_bytes = array("Q")

    @classmethod
    def of(cls, asleep: Asleep) -> StateSize:
        """Of all that was restored, looked at some at a time: it may be more than fits into memory."""
        count = size = 0
        for first in range(0, asleep.next_birth, AT_ONCE):
            stored = asleep.born(first, min(first + AT_ONCE, asleep.next_birth)).values()
            count += len(stored)
            size += sum(one.size for one in stored)
        return cls(count, size, asleep.next_birth)

    def changed(self, changes: Sequence[StoredChange]) -> None:
        """What a commit has written."""
        for change in changes:
            self._change(change.birth, len(change.head), list(change.added.values()), len(change.dropped))

    def _change(self, birth: int, head: int, added: list[bytes], dropped: int) -> None:
        heads = self._heads
        if birth >= len(heads):
            room = [0] * (birth + 1 - len(heads))
            for each in (heads, self._pieces, self._piece_bytes):
                each.extend(room)
        if heads[birth] == 0:
            self._meet(birth)
        self.bytes += head - heads[birth]
        heads[birth] = head
        if not (added or dropped):
            return
        count, size = self._pieces[birth] + len(added), self._piece_bytes[birth] + sum(map(len, added))
        left = max(count - dropped, 0)
        kept = size * left // count if count else 0
        self.bytes += kept - self._piece_bytes[birth]
        self._pieces[birth], self._piece_bytes[birth] = left, kept

    def _meet(self, birth: int) -> None:
        """A stream is touched for the first time: a new one, or one of those restored."""
        if birth >= self._first_new or self._untouched == 0:
            self.streams += 1
            return
        average = self._untouched_bytes // self._untouched
        self._untouched -= 1
        self._untouched_bytes -= average
        self.bytes -= average
