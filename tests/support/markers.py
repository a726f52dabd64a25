"""A broker whose transactions end late: their commit is decided, but their markers are held back.

A transaction's coordinator answers a commit as soon as it is decided. Only then does it send the markers that make
records and group offsets visible, to every broker concerned, itself included, by the listener that brokers use among
themselves. Here that listener is advertised at the address of a relay, which can hold the markers back.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.support.broker import Broker, free_ports

WRITE_TXN_MARKERS = 27
"""The request's key in Kafka's protocol."""


class Relay:
    """Passes requests on as they come, but markers only when they are not held."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._passing = threading.Event()
        self._passing.set()
        self.held = threading.Event()
        """Markers have come and wait."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def _start(self, target: object, *given: object) -> None:
        threading.Thread(target=target, args=given, name="relay", daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._start(self._pass_requests, client, server)
                self._start(self._pass_answers, server, client)

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, contextlib.suppress(OSError, EOFError):
            while True:
                size = _exactly(client, 4)
                request = _exactly(client, struct.unpack(">i", size)[0])
                if struct.unpack(">h", request[:2])[0] == WRITE_TXN_MARKERS and not self._passing.is_set():
                    self.held.set()
                    self._passing.wait()
                server.sendall(size + request)

    def _pass_answers(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while answer := server.recv(65536):
                client.sendall(answer)

    def hold(self) -> None:
        self.held.clear()
        self._passing.clear()

    def release(self) -> None:
        self._passing.set()

    def close(self) -> None:
        self.release()
        self._listener.close()


def _exactly(client: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = client.recv(count - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


class LateMarkers(Broker):
    """A broker behind such a relay."""

    def __init__(self, directory: Path) -> None:
        [self._among_brokers] = free_ports(1)
        self.markers = Relay(self._among_brokers)
        super().__init__(directory)

    def _listeners(self) -> Mapping[str, str]:
        settings = super()._listeners()
        return {
            "listeners": f"{settings['listeners']},AMONG://127.0.0.1:{self._among_brokers}",
            "advertised.listeners": f"{settings['advertised.listeners']},AMONG://127.0.0.1:{self.markers.port}",
            "inter.broker.listener.name": "AMONG",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,AMONG:PLAINTEXT",
        }

    def kill(self) -> None:
        super().kill()
        self.markers.close()
