"""Which address is answered by whom."""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import blake2b
from importlib.resources import files

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sluiceway.page import part
from sluiceway.serve import flags
from sluiceway.serve.answers import json, tagged
from sluiceway.serve.events import Events
from sluiceway.serve.flags import Flags
from sluiceway.serve.guard import LOGIN, Guard, Token
from sluiceway.serve.selections import Selections
from sluiceway.serve.store import Store

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def application(
    store: Store,
    events: Events,
    caught_up: Callable[[], bool],
    names: Collection[str] | None,
    token: Token | None,
    port: int,
) -> Guard:
    """Everything that is answered, behind its guard."""
    selections, evaluated, page = Selections(store, caught_up), Flags(store, caught_up), Page()

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readiness(_: Request) -> Response:
        return PlainTextResponse("ok\n") if caught_up() else PlainTextResponse("the topic is still being read\n", 503)

    async def nowhere(request: Request, problem: Exception) -> Response:
        return json({"error": getattr(problem, "detail", "")}, getattr(problem, "status_code", 404))

    routes = [
        Route("/", page.index),
        Route("/page/{name}", page.part),
        Route("/events", events.answer),
        Route("/v1/selections", selections.all),
        Route("/v1/selections/{flow}/{stream:path}", selections.one),
        Route(flags.PATH, evaluated.all, methods=["POST"]),
        Route(f"{flags.PATH}/{{key:path}}", evaluated.one, methods=["POST"]),
        Route("/healthz", health),
        Route("/readyz", readiness),
    ]
    inner = Starlette(routes=routes, exception_handlers={404: nowhere, 405: nowhere})
    inner.router.redirect_slashes = False
    return Guard(inner, names, token, port)


class Page:
    """The files of the page, all of them from the package."""

    def __init__(self) -> None:
        own = (files(__package__) / "page").iterdir()
        self._parts = {file.name: file.read_bytes() for file in own if file.name != LOGIN}
        self._parts |= {name: part(name).encode() for name in ("timeline.css", "timeline.js")}
        self._tags = {name: blake2b(content, digest_size=12).hexdigest() for name, content in self._parts.items()}

    async def index(self, request: Request) -> Response:
        return self._answer(request, "index.html")

    async def part(self, request: Request) -> Response:
        name = request.path_params["name"]
        return self._answer(request, name) if name in self._parts else json({"error": "Not Found"}, 404)

    def _answer(self, request: Request, name: str) -> Response:
        return tagged(request, self._tags[name], self._parts[name], MEDIA_TYPES[_suffix(name)])


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
