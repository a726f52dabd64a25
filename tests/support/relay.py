"""A broker whose clients come by a relay, which can cut, delay and throttle their connections.

Tests' own clients come by another listener, which nothing disturbs.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.broker import Broker, free_ports

CHUNK = 16_384


class Relay:
    """Passes on what comes, as well as it may."""

    def __init__(self, target: int) -> None:
        self.delay = 0.0
        """Seconds that each piece is held, in either direction."""
        self.rate: float | None = None
        """Bytes a second, of each connection."""
        self.refusing = False
        """Nobody comes in."""
        self._target = target
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def cut(self) -> int:
        """Close all connections, in the middle of whatever they carry; how many."""
        with self._lock:
            cut, self._open = self._open, set()
        for one in cut:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        return len(cut) // 2

    def heal(self) -> None:
        self.delay, self.rate, self.refusing = 0.0, None, False

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _start(self, target: object, *given: object) -> None:
        threading.Thread(target=target, args=given, name="relay", daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                try:
                    if self.refusing:
                        raise OSError("refused")
                    server = socket.create_connection(("127.0.0.1", self._target), 5.0)
                except OSError:  # the broker is away
                    client.close()
                    continue
                server.settimeout(None)
                with self._lock:
                    self._open |= {client, server}
                self._start(self._pass_on, client, server)
                self._start(self._pass_on, server, client)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if self.delay:
                    time.sleep(self.delay)
                if self.rate:
                    time.sleep(len(data) / self.rate)
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source, target}
        source.close()


class RelayedBroker(Broker):
    """A broker behind such a relay, at `relayed`; at `bootstrap` it is reached without."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        [self._relayed_port] = free_ports(1)
        self.relay = Relay(self._relayed_port)
        mapped = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,RELAYED:PLAINTEXT"
        super().__init__(directory, settings={"listener.security.protocol.map": mapped, **(settings or {})})

    @property
    def relayed(self) -> str:
        return f"127.0.0.1:{self.relay.port}"

    def _listeners(self) -> Mapping[str, str]:
        settings = super()._listeners()
        return {
            "listeners": f"{settings['listeners']},RELAYED://127.0.0.1:{self._relayed_port}",
            "advertised.listeners": f"{settings['advertised.listeners']},RELAYED://{self.relayed}",
        }
