"""A graceful stop: SIGTERM or SIGINT to any process ends every process of the flow at the end of its epoch."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from pathlib import Path

LOOK_EVERY = 0.1
"""Seconds between looks for a peer's stop file."""
BEGIN_SECONDS = 2.0
"""A flow that is asked to stop and has not begun by then, because it waits for its peers or the broker, just ends."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Set by a signal, read by every source; passed on to peer processes through a file in the store.

    A thread of its own listens: the engine keeps the main thread, in which Python would handle signals, for as long
    as it waits for peers, and a process may have no source left that could look.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._file = None if directory is None else directory / "stop"
        self._asked = threading.Event()
        self._begun = False
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        self._tell: int | None = None

    def listen(self) -> None:
        told, self._tell = os.pipe()
        os.set_blocking(self._tell, False)
        signal.set_wakeup_fd(self._tell, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda number, frame: None)
        threading.Thread(target=self._watch, args=(told,), name="stop", daemon=True).start()

    def close(self) -> None:
        """Signals mean again what they meant before."""
        if self._tell is not None:
            signal.set_wakeup_fd(-1)
            for number, handler in self._before.items():
                signal.signal(number, handler)
            os.write(self._tell, b"\0")  # the thread closes its end
            os.close(self._tell)
            self._tell = None

    def __call__(self) -> bool:
        """Whether to stop; called by sources, hence only once all processes of the flow are connected."""
        self._begun = True
        return self._asked.is_set()

    @property
    def stopped(self) -> bool:
        return self._asked.is_set()

    def _watch(self, told: int) -> None:
        since, signals = 0.0, 0
        while True:
            numbers = os.read(told, 16) if select.select([told], [], [], LOOK_EVERY)[0] else b""
            if 0 in numbers:
                os.close(told)
                return
            signals += len(numbers)
            if signals > 1:
                os._exit(128 + numbers[-1] if numbers else 1)  # asked twice: the user will not wait for the checkpoint
            if self._asked.is_set():
                if not self._begun and time.monotonic() - since > BEGIN_SECONDS:
                    print("stopped before the flow had begun", file=sys.stderr, flush=True)
                    os._exit(0)
            elif signals or (self._file is not None and self._file.exists()):
                since = time.monotonic()
                self._asked.set()
                if self._file is not None:
                    self._file.touch()
