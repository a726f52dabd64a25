"""The one who reads the topic, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sluiceway.client import Subscription
from sluiceway.serve.store import Store


class Follower:
    """Takes what comes into the store until it is told to end; at the end it calls `on_end`, in its thread."""

    def __init__(
        self, subscription: Subscription, store: Store, cancel: threading.Event, on_end: Callable[[], object]
    ) -> None:
        self._subscription = subscription
        self._store = store
        self._cancel = cancel
        self._on_end = on_end
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self.failure: Exception | None = None

    def caught_up(self) -> bool:
        """What stood in the topic when it was opened is in the store."""
        return self._subscription.caught_up

    def reachable(self) -> bool:
        return self._subscription.reachable

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        self._cancel.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            for snapshot in self._subscription:
                assert self._subscription.partition is not None
                self._store.take(snapshot, self._subscription.partition, live=self._subscription.caught_up)
        except Exception as problem:  # whatever it is: told by who waits for the end
            self.failure = problem
        finally:
            self._on_end()
