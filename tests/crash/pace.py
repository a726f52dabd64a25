"""Few records a poll, and lanes that sleep: the input lasts for a whole series, and some lanes stay untouched."""

from __future__ import annotations

import random
import time
from typing import Any

from sluiceway.topics import directory_reader, kafka_reader
from tests.crash.seams import wrap

POLL_GAP = 0.04
BURST = 0.3


class Pace:
    def __init__(self, records: int, rhythm: int | None, awake: set[int] | None) -> None:
        self._records = records
        self._rhythm = rhythm
        self._awake = awake
        self._began = time.monotonic()
        self._last: dict[Any, float] = {}
        """By reader: a lane may have two."""

    def patch(self) -> None:
        for module in (kafka_reader, directory_reader):
            wrap(module, "RECORDS_A_POLL", lambda original: self._records)
        for reader in (kafka_reader.KafkaReader, directory_reader.DirectoryReader):
            wrap(reader, "poll", self._around_poll)

    def _around_poll(self, original: Any) -> Any:
        def poll(reader: Any) -> Any:
            lane, now = reader._partition, time.monotonic()
            if self._sleeps(lane, now) or now - self._last.get(reader, 0.0) < POLL_GAP:
                return None
            self._last[reader] = now
            return original(reader)

        return poll

    def _sleeps(self, lane: int, now: float) -> bool:
        if self._awake is not None:
            return lane not in self._awake
        if self._rhythm is None:
            return False
        burst = int((now - self._began) / BURST)
        return random.Random(f"{self._rhythm}/{lane}/{burst}").random() < 0.5
