"""A graceful stop: SIGTERM or SIGINT to any process ends every process of the flow at the end of its epoch."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
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
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("a flow handles signals, which only the main thread of a program can")
        self._file = None if directory is None else directory / "stop"
        self._asked = threading.Event()
        self._begun = False
        self._undo: Callable[[], None] | None = None

    def listen(self, on_never_begun: Callable[[], None]) -> None:
        """Until `close`; a flow that is stopped before it has begun ends at once, after `on_never_begun`."""
        told, tell = os.pipe()
        os.set_blocking(tell, False)
        earlier = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, lambda number, frame: None) for number in SIGNALS}
        watching = threading.Thread(target=self._watch, args=(told, on_never_begun), name="stop", daemon=True)
        watching.start()

        def undo() -> None:
            signal.set_wakeup_fd(earlier)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.write(tell, b"\0")
            watching.join()
            os.close(tell)
            os.close(told)

        self._undo = undo

    def close(self) -> None:
        """Signals mean again what they meant before."""
        if self._undo is not None:
            self._undo()
            self._undo = None

    def __call__(self) -> bool:
        """Whether to stop; asked by every worker once all processes of the flow are connected, and then by sources."""
        self._begun = True
        return self._asked.is_set()

    @property
    def stopped(self) -> bool:
        return self._asked.is_set()

    def _watch(self, told: int, on_never_begun: Callable[[], None]) -> None:
        since, signals, passed_on = 0.0, 0, self._file is None
        while True:
            numbers = os.read(told, 16) if select.select([told], [], [], LOOK_EVERY)[0] else b""
            if 0 in numbers:
                return
            wanted = [number for number in numbers if number in SIGNALS]  # the program may handle others too
            signals += len(wanted)
            if signals > 1:
                os._exit(128 + wanted[-1])  # asked twice: the user will not wait for the checkpoint
            if not self._asked.is_set() and (signals or self._peer_asks()):
                since = time.monotonic()
                self._asked.set()
            if self._asked.is_set():
                passed_on = passed_on or self._pass_on()
                if not self._begun and time.monotonic() - since > BEGIN_SECONDS:
                    on_never_begun()
                    print("stopped before the flow had begun", file=sys.stderr, flush=True)
                    os._exit(0)

    def _peer_asks(self) -> bool:
        try:
            return self._file is not None and self._file.exists()
        except OSError:  # a file server that does not answer just now
            return False

    def _pass_on(self) -> bool:
        assert self._file is not None
        try:
            self._file.touch()
        except OSError:
            return False
        return True
