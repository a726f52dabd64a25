"""Who may ask: the name that the server is called by, the token, and what browsers are told not to do.

- A page of somebody else can make a browser call `localhost`, under a name of its own that leads there. So where the
  server answers on this machine alone, it answers to this machine's names only, and to those it was given.
- Programs send the token as `Authorization: Bearer`. People type it into a page once; the browser then has a cookie
  that is made from the token, is not the token, and goes with nothing that another site's page asks for.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from hashlib import sha256
from importlib.resources import files
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluiceway.errors import SettingsError
from sluiceway.serve.answers import json

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN = frozenset({"/healthz", "/readyz", "/login"})
"""What needs no token; nor does what the page is made of, `/page/...`, which says nothing of any selection."""
LARGEST_LOGIN = 4096
LOGIN = "login.html"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Token:
    """What those who ask must know. It is never shown, not even here."""

    def __init__(self, text: str, where: str) -> None:
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise SettingsError(f"the token in {where} must be letters, digits and signs of ASCII, without spaces")
        self._text = text
        self._cookie = hmac.new(text.encode(), b"the page of sluiceway serve", sha256).hexdigest()

    def __repr__(self) -> str:
        return "Token(...)"

    def is_typed(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._text.encode())

    def is_sent(self, headers: Headers, cookie_name: str) -> bool:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.is_typed(credentials.strip())
        found = cookie_parser(headers.get("cookie", "")).get(cookie_name, "")
        return hmac.compare_digest(found.encode(), self._cookie.encode())

    def set_cookie(self, response: Response, cookie_name: str, *, secure: bool) -> None:
        response.set_cookie(cookie_name, self._cookie, httponly=True, samesite="lax", secure=secure)


class Guard:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, names: Collection[str] | None, token: Token | None, port: int) -> None:
        """`names`: those it answers to; None = any."""
        self._app = app
        self._names = names
        self._token = token
        self._cookie_name = f"sluiceway-{port}"  # a browser gives cookies to all ports of a host
        self._login = (files(__package__) / "page" / LOGIN).read_text("utf-8")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = await self._refusal(Request(scope, receive)) or self._app
        await answer(scope, receive, send_with_headers)

    async def _refusal(self, request: Request) -> Response | None:
        host = hostname(request.headers.get("host", ""))
        if self._names is not None and host not in self._names:
            return PlainTextResponse("this server does not answer to that name; --host NAME gives it one\n", 421)
        path = request.url.path
        if path == "/login" and request.method == "POST":
            return await self._log_in(request)
        if self._token is None or path in OPEN or path.startswith("/page/"):
            return None
        if self._token.is_sent(request.headers, self._cookie_name):
            return None
        if path == "/":
            return HTMLResponse(self._login.replace("{{told}}", ""), 401, {"Cache-Control": "no-store"})
        return json({"error": "this needs the server's token"}, 401, {"WWW-Authenticate": "Bearer"})

    async def _log_in(self, request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_LOGIN:
                return PlainTextResponse("too long\n", 413)
        [typed] = parse_qs(body.decode(errors="replace")).get("token", [""])[:1]
        if self._token is not None and not self._token.is_typed(typed.strip()):
            told = "That is not the token."
            return HTMLResponse(self._login.replace("{{told}}", told), 401, {"Cache-Control": "no-store"})
        answer = RedirectResponse("/", 303)
        if self._token is not None:
            self._token.set_cookie(answer, self._cookie_name, secure=request.url.scheme == "https")
        return answer


def hostname(host: str) -> str | None:
    """
    >>> hostname("LOCALHOST:9465"), hostname("[::1]:9465"), hostname("nonsense:x")
    ('localhost', '::1', None)
    """
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname if parts.port is None or parts.port >= 0 else None
    except ValueError:
        return None


def is_local(host: str) -> bool:
    """Whether only this machine can reach it.

    >>> is_local("localhost"), is_local("127.0.0.1"), is_local("0.0.0.0"), is_local("example.org")
    (True, True, False, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
