"""Streams of a lane that are not in memory as models: where their stored states lie, and how they are found."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Protocol

from sluiceway.schemas.state import StoredStream


class Asleep(Protocol):
    """A stream that has woken up may still be found here, as it was: whoever has woken it knows better."""

    @property
    def next_birth(self) -> int:
        """All streams that have ever been here have smaller numbers."""

    @property
    def landed(self) -> int | None:
        """How many of the lane's commits are in here, which then has nothing to be `put`; None: it must be put."""

    def find(self, names: Sequence[str]) -> dict[str, StoredStream]:
        """Those of these streams that are here."""

    def born(self, first: int, stop: int) -> dict[str, StoredStream]:
        """Streams with births from `first` up to `stop`, in the order of their births."""

    def woke(self, names: Iterable[str]) -> None:
        """These need not be kept any longer."""

    def put(self, streams: Mapping[str, StoredStream]) -> None:
        """These go to sleep, as they are now."""

    def close(self) -> None: ...


class AsleepInMemory:
    """All of them as bytes in memory."""

    def __init__(self, streams: Mapping[str, StoredStream]) -> None:
        self._streams = dict(streams)
        self._births: list[tuple[int, str]] | None = None
        self.next_birth = max((stored.birth for stored in streams.values()), default=-1) + 1
        self.landed: int | None = None

    def find(self, names: Sequence[str]) -> dict[str, StoredStream]:
        return {name: self._streams[name] for name in names if name in self._streams}

    def born(self, first: int, stop: int) -> dict[str, StoredStream]:
        if self._births is None:
            self._births = sorted((stored.birth, name) for name, stored in self._streams.items())
        low, high = (bisect_left(self._births, birth, key=itemgetter(0)) for birth in (first, stop))
        return self.find([name for _, name in self._births[low:high]])

    def woke(self, names: Iterable[str]) -> None:
        for name in names:
            del self._streams[name]

    def put(self, streams: Mapping[str, StoredStream]) -> None:
        self._streams.update(streams)
        self.next_birth = max([self.next_birth, *(stored.birth + 1 for stored in streams.values())])
        self._births = None

    def close(self) -> None: ...
