"""What a stream appends, piece by piece: each is written once and dropped once, however many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sluiceway.schemas.state import StreamState


class Pieces:
    """Numbers the pieces of one stream and knows which have come and gone since it was last asked."""

    def __init__(self, following: int = 0) -> None:
        self.following = following
        """The number of the next piece: part of the stream's head, because no number may come twice."""
        self._added: dict[int, Callable[[], Any]] = {}
        self._dropped: list[int] = []

    def add(self, content: Callable[[], Any]) -> int:
        """A new piece's number. Its content is asked for only when it is told of, for it may not be known yet."""
        number = self.following
        self.following += 1
        self._added[number] = content
        return number

    def drop(self, number: int) -> None:
        if self._added.pop(number, None) is None:  # else it has never been told of, and never will be
            self._dropped.append(number)

    def changes(self) -> tuple[dict[int, Any], list[int]]:
        """Content of the pieces that have come, and numbers of those that have gone."""
        added, dropped = self._added, self._dropped
        self._added, self._dropped = {}, []
        return {number: content() for number, content in added.items()}, dropped


def readable(state: StreamState, kind: str, version: int) -> dict[str, Any]:
    """The head of a stored state, or `ValueError` if it is not that of a whole stream of this kind."""
    head = state.head
    if not isinstance(head, dict) or "stream" not in head:
        raise ValueError("it is not the state of a stream")
    if head["stream"] != kind:
        raise ValueError(f"it is the state of a stream of {head['stream']}, not of {kind}")
    if head["state_version"] != version:
        raise ValueError(f"stream state of version {head['state_version']}, this program knows {version}")
    if head["pieces"] != len(state.pieces):
        raise ValueError(f"it has {head['pieces']} pieces, but {len(state.pieces)} are there")
    return head
