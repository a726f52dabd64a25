"""A graceful stop: SIGTERM or SIGINT commits what was read and ends this process; others go on."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("sluiceway")

LOOK_EVERY = 0.1
"""Seconds between looks whether a flow that was asked to stop has begun."""
BEGIN_SECONDS = 2.0
"""A flow that is asked to stop and has not begun by then, because it waits for the broker, just ends."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Set by a signal, read by every worker.

    A thread of its own listens: the engine keeps the main thread, in which Python would handle signals, whenever it
    waits.
    """

    def __init__(self, *, leaving: bool = False) -> None:
        """`leaving`: the program ends with the flow, and with an exit code that a SIGTERM which comes late, when all is
        committed, does not change."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("a flow handles signals, which only the main thread of a program can")
        self._asked = threading.Event()
        self._begun = False
        self._leaving = leaving
        self._undo: Callable[[], None] | None = None

    def listen(self) -> None:
        """Until `close`; a flow that is stopped before it has begun ends at once."""
        told, tell = os.pipe()
        os.set_blocking(tell, False)
        earlier = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, lambda number, frame: None) for number in SIGNALS}
        watching = threading.Thread(target=self._watch, args=(told,), name="stop", daemon=True)
        watching.start()

        def undo() -> None:
            signal.set_wakeup_fd(earlier)
            for number, handler in handlers.items():
                # not by a handler of Python's, which goes before much else does when the program ends
                signal.signal(number, signal.SIG_IGN if self._leaving and number == signal.SIGTERM else handler)
            os.write(tell, b"\0")
            watching.join()
            os.close(tell)
            os.close(told)

        self._undo = undo

    def close(self) -> None:
        """Signals mean again what they meant before; while a program leaves, a SIGTERM means nothing."""
        if self._undo is not None:
            self._undo()
            self._undo = None

    def __call__(self) -> bool:
        """Whether to stop; asked by every worker, again and again."""
        self._begun = True
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        """So long, or until asked to stop."""
        self._asked.wait(seconds)

    @property
    def stopped(self) -> bool:
        return self._asked.is_set()

    def _watch(self, told: int) -> None:
        since, signals = 0.0, 0
        while True:
            numbers = os.read(told, 16) if select.select([told], [], [], LOOK_EVERY)[0] else b""
            if 0 in numbers:
                return
            wanted = [number for number in numbers if number in SIGNALS]  # the program may handle others too
            signals += len(wanted)
            if signals > 1:
                os._exit(128 + wanted[-1])  # asked twice: the user will not wait for the commit
            if signals and not self._asked.is_set():
                since = time.monotonic()
                self._asked.set()
            if self._asked.is_set() and not self._begun and time.monotonic() - since > BEGIN_SECONDS:
                logger.warning("stopped before the flow had begun")
                os._exit(0)
