"""From the first question to the broker to the last viewer's good-bye."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from sluiceway.client import Subscription, subscribe
from sluiceway.errors import SettingsError
from sluiceway.serve.app import application
from sluiceway.serve.events import Events, Pulse
from sluiceway.serve.follower import Follower
from sluiceway.serve.guard import LOCAL_NAMES, Token, is_local
from sluiceway.serve.store import Store
from sluiceway.topics.kafka import Config

GOODBYE_SECONDS = 3
"""What is being answered when the end comes may take so long."""
CLOSE_SECONDS = 5.0


def serve(
    url: str,
    host: str,
    port: int,
    *,
    flow: str | None = None,
    names: Collection[str] = (),
    token: Token | None = None,
    kafka: Config | None = None,
    on_start: Callable[[str], object] = lambda address: None,
) -> None:
    """Answer until SIGTERM or Ctrl-C, or until the topic cannot be read any more; `on_start` is told where.

    An address that is taken is a `SettingsError` at once, as is a missing topic, and a broker that does not answer an
    `UnreachableError`; later outages are waited out.
    """
    with _listening(host, port) as listener:
        store, cancel = Store(), threading.Event()
        with subscribe(url, flow, start="beginning", cancel=cancel, retired=store.end, kafka=kafka) as subscription:
            port = listener.getsockname()[1]
            known_by = {*LOCAL_NAMES, host, *names} if names or is_local(host) else None

            def begin() -> None:
                on_start(f"http://{f'[{host}]' if ':' in host else host}:{port}")

            asyncio.run(_serve(listener, store, subscription, cancel, known_by, token, begin, url))


async def _serve(
    listener: socket.socket,
    store: Store,
    subscription: Subscription,
    cancel: threading.Event,
    known_by: Collection[str] | None,
    token: Token | None,
    on_start: Callable[[], object],
    url: str,
) -> None:
    loop, pulse = asyncio.get_running_loop(), Pulse()
    store.on_change = pulse.ring

    def stop() -> None:
        pulse.end()
        server.should_exit = True

    follower = Follower(subscription, store, cancel, on_end=lambda: loop.call_soon_threadsafe(stop))

    def status() -> dict[str, Any]:
        state = "lost" if not follower.reachable() else "live" if follower.caught_up() else "reading"
        return {"state": state, "url": url, "streams": len(store)}

    events = Events(store, pulse, status)
    answering = application(store, events, follower.caught_up, known_by, token, listener.getsockname()[1])
    server = _Server(
        uvicorn.Config(
            answering,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GOODBYE_SECONDS,
        )
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    beating = asyncio.create_task(pulse.keep_beating())
    follower.start()
    on_start()
    try:
        await server.serve(sockets=[listener])
    finally:
        beating.cancel()
        await asyncio.to_thread(follower.stop, CLOSE_SECONDS)
    if follower.failure is not None:
        raise follower.failure


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours: an orderly end is no death by SIGTERM."""
        yield


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as problem:
        number = getattr(problem, "errno", None) or -1
        reason = os.strerror(number) if number > 0 else problem  # of a name that is not known it is no errno
        raise SettingsError(f"--listen {host}:{port}: nothing can listen there: {reason}") from None
    with listener:
        yield listener
