"""`[flow] memory`: what a process may use for its streams, shared out among the lanes that it has."""

from __future__ import annotations

import re
import threading

from sluiceway.errors import SettingsError

UNITS = {"": 1, "B": 1} | {
    f"{letter}{i}B": (1024 if i else 1000) ** power for power, letter in enumerate("KMGT", 1) for i in ("", "i")
}
LEAST = 1_000_000
LEAST_A_LANE = 250_000
CACHED = 8
"""The part of it that caches of sleeping streams get: one in so many."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def bytes_of(given: object) -> int:
    """From "64MB", "1.5GiB" or a number of bytes."""
    units = {unit.upper(): size for unit, size in UNITS.items()}
    match = _SIZE.fullmatch(given.strip()) if isinstance(given, str) else None
    if isinstance(given, int) and not isinstance(given, bool):
        size = given
    elif match is not None and match[2].upper() in units:
        size = int(float(match[1]) * units[match[2].upper()])
    else:
        raise SettingsError(f'flow.memory = {given!r}: it must be a size such as "64MB" or "1GB", or a number of bytes')
    if size < LEAST:
        raise SettingsError(f"flow.memory = {given!r}: it must be at least 1MB")
    return size


class Memory:
    """Lanes have equal parts: keys are spread evenly. A lane that comes makes the parts of the others smaller."""

    def __init__(self, size: int, lanes: int) -> None:
        """`lanes`: of the flow; a process may have to take all of them."""
        if size < LEAST_A_LANE * lanes:
            raise SettingsError(
                f"flow.memory is too little for {lanes} lanes, which one process may have all by itself: give it at"
                f" least {-(-LEAST_A_LANE * lanes // 1_000_000)}MB"
            )
        self.cache = size // CACHED // lanes
        """Of one lane's sleeping streams, in bytes."""
        self._size = size - size // CACHED
        self._parts: set[Part] = set()
        self._lock = threading.Lock()

    def part(self) -> Part:
        """One more lane's."""
        part = Part(self)
        with self._lock:
            self._parts.add(part)
        return part

    def give_back(self, part: Part) -> None:
        with self._lock:
            self._parts.discard(part)

    @property
    def size_of_part(self) -> int:
        return self._size // max(1, len(self._parts))


def memory_of(size: int | None, lanes: int) -> Memory | None:
    """As `[flow] memory` says; None: as much as it takes."""
    return None if size is None else Memory(size, lanes)


class Part:
    """What one lane may use."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @property
    def size(self) -> int:
        return self._memory.size_of_part

    def close(self) -> None:
        self._memory.give_back(self)
