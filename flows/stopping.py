"""A graceful stop: SIGTERM or SIGINT to any process ends every process of the flow at the end of its epoch."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import FrameType

LOOK_EVERY = 0.1
"""Seconds between looks for a peer's stop file."""


class Stop:
    """Set by a signal, read by every source; passed on to peer processes through a file in the store."""

    def __init__(self, directory: Path | None = None) -> None:
        self._file = None if directory is None else directory / "stop"
        self._started = time.time()
        self._signals = 0
        self._seen = False
        self._told = False
        self._next_look = 0.0

    def listen(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + number)  # asked twice: the user will not wait for the checkpoint
        self._seen = True

    def __call__(self) -> bool:
        """Whether to stop; called by sources, hence only once all processes of the flow are connected."""
        if self._file is None:
            return self._seen
        if self._seen:
            if not self._told:
                self._told = True
                self._file.touch()
        elif (now := time.monotonic()) >= self._next_look:
            self._next_look = now + LOOK_EVERY
            self._seen = self._told = self._asked()
        return self._seen

    def _asked(self) -> bool:
        """Whether a peer of this run has touched the file: one older than this process is a past run's."""
        assert self._file is not None
        try:
            return self._file.stat().st_mtime >= self._started
        except FileNotFoundError:
            return False

    @property
    def stopped(self) -> bool:
        return self._seen
