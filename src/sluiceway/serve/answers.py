"""What answers have in common: JSON, entity tags, and what is said while the topic is still being read."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from sluiceway.serve.store import Newest

JSON = "application/json"
READING = "the topic is still being read; try again"


def json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = content if isinstance(content, bytes) else orjson.dumps(content)
    return Response(body, status, headers, JSON)


def reading(content: dict[str, Any]) -> Response:
    """Half a topic would be half a truth."""
    return json(content, 503, {"Retry-After": "1"})


def tagged(request: Request, tag: str, content: bytes, media_type: str = JSON) -> Response:
    """The content, or 304 for one who has it."""
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
    if _has(request.headers.get("if-none-match", ""), tag):
        return Response(None, 304, headers)
    return Response(content, 200, headers, media_type)


def tag_of(streams: Iterable[Newest]) -> str:
    """Of several: another when any of them has."""
    digest = blake2b(digest_size=12)
    for each in streams:
        digest.update(orjson.dumps([each.name.flow, each.name.stream, each.tag]))
    return digest.hexdigest()


def _has(asked: str, tag: str) -> bool:
    named = (part.strip().removeprefix("W/") for part in asked.split(","))
    return any(each in ("*", f'"{tag}"') for each in named)
