"""What listens where no Kafka broker answers: asked at the port itself, since the client knows only that it was hung up
on."""

from __future__ import annotations

import socket
import ssl
from typing import Literal

_SECONDS = 2.0


def spoken(bootstrap: str) -> Literal["TLS", "HTTP"] | None:
    """What the first of the addresses speaks; None if it is neither, or cannot be told."""
    host, _, port = bootstrap.partition(",")[0].strip().rpartition(":")
    if not port.isdecimal():
        return None
    address = host.strip("[]"), int(port)
    if _speaks_tls(*address):
        return "TLS"
    return "HTTP" if _speaks_http(*address) else None


def _speaks_tls(host: str, port: int) -> bool:
    """Whether it shakes hands; who it is does not matter."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), _SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except ssl.SSLError as problem:  # a peer that wants a certificate of ours says so in TLS
        return "ALERT" in (problem.reason or "")
    except OSError:
        return False


def _speaks_http(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), _SECONDS) as connection:
            connection.settimeout(_SECONDS)
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(5) == b"HTTP/"
    except OSError:
        return False
