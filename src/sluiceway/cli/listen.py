"""`--listen`: /metrics, /healthz and /readyz of a flow that runs, on one port."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sluiceway.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluiceway.flows.progress import Progress
    from sluiceway.flows.settings import Settings

logger = logging.getLogger("sluiceway.listen")
Answer = tuple[int, str, bytes]
"""Status, content type, body."""
PLAIN = "text/plain; charset=utf-8"


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None or parts.path or parts.username is not None:
        raise SettingsError(f"--listen takes HOST:PORT, for example 127.0.0.1:9464, not {text!r}")
    return host, port


@contextmanager
def listening(address: str, settings: Settings, progress: Progress, limit: float) -> Iterator[None]:
    """Answers until the end of the block."""
    host, port = parse_address(address)
    pages = _pages(settings, progress, limit)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            status, kind, body = page(self.headers.get("Accept", "")) if page else _nowhere(pages)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the parent's name
            logger.debug(format, *arguments)

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = AF_INET6 if ":" in host else ThreadingHTTPServer.address_family

    try:
        server = Server((host, port), Handler)
    except OSError as problem:
        raise SettingsError(f"--listen {address}: nothing can listen there: {problem.strerror}") from None
    shown = f"[{host}]" if ":" in host else host
    logger.info("metrics and health are at http://%s:%d", shown, server.server_address[1])
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.5}, name="listen", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _pages(settings: Settings, progress: Progress, limit: float) -> dict[str, Callable[[str], Answer]]:
    try:
        from prometheus_client.exposition import choose_encoder
    except ImportError:
        raise SettingsError("--listen needs prometheus_client: pip install 'sluiceway[serve]'") from None
    from sluiceway import __version__
    from sluiceway.flows.health import troubles, unready
    from sluiceway.flows.metrics import FlowCollector, registry

    shown = registry(FlowCollector(settings.flow.name, settings.operator.name, __version__, progress, limit))

    def metrics(accept: str) -> Answer:
        encode, kind = choose_encoder(accept)
        return 200, kind, encode(shown)

    def health(_: str) -> Answer:
        return _verdict(troubles(progress, limit))

    def readiness(_: str) -> Answer:
        reason = unready(progress)
        return _verdict([] if reason is None else [reason])

    return {"/metrics": metrics, "/healthz": health, "/readyz": readiness}


def _verdict(reasons: list[str]) -> Answer:
    text = "\n".join(reasons) if reasons else "ok"
    return (503 if reasons else 200), PLAIN, f"{text}\n".encode()


def _nowhere(pages: dict[str, Callable[[str], Answer]]) -> Answer:
    return 404, PLAIN, f"there are {', '.join(pages)}\n".encode()
