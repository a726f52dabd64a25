"""A server that gives tokens to who knows a secret: as much of OpenID Connect as Kafka clients use."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
import uuid
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, CLIENT_SECRET = "flow", "only-the-flow-knows"


@cache
def _key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})


def public_keys() -> str:
    """What a broker needs to believe these tokens."""
    return json.dumps(KeySet([_key()]).as_dict(private=False))


class TokenServer:
    """Answers `POST /token`; tokens are for `audience`, name the client as their subject and last for `seconds`."""

    def __init__(self, audience: str, seconds: float = 60.0) -> None:
        self.given: list[str] = []
        """The tokens, in order."""
        self.refused = 0
        self.away = False
        """Out of order, as its users see it: it answers, but gives no tokens."""
        self.turned_away = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, answer = server._answer(self.headers.get("Authorization", ""), audience, seconds)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the parent's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def _answer(self, authorization: str, audience: str, seconds: float) -> tuple[int, dict[str, object]]:
        if self.away:
            self.turned_away += 1
            return 503, {"error": "temporarily_unavailable"}
        scheme, _, encoded = authorization.partition(" ")
        given = urllib.parse.unquote(base64.b64decode(encoded).decode()) if scheme == "Basic" else ""
        if given != f"{CLIENT}:{CLIENT_SECRET}":
            self.refused += 1
            return 401, {"error": "invalid_client"}
        now = time.time()
        claims = {"sub": CLIENT, "aud": audience, "iat": int(now), "exp": int(now + seconds), "jti": uuid.uuid4().hex}
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, _key())
        self.given.append(token)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": int(seconds)}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
