"""`/events`: what the page is told as it comes, as server-sent events.

Each viewer has a cursor, the revision up to which it has been told, and nothing else: it is told what came since, at
most ten times a second. `since` takes a viewer up where its last connection ended.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import StreamingResponse

from sluiceway.client import StreamName
from sluiceway.serve.store import Changes, Store

TOGETHER_SECONDS = 0.1
"""What comes within this time is told together."""
AT_LEAST_SECONDS = 1.0
"""So often viewers are told how things stand, also where nothing comes."""
NOT_BUFFERED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Pulse:
    """Wakes all viewers at once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._next = asyncio.Event()
        self._rung = False
        self.over = False

    def ring(self) -> None:
        """Something came; from any thread."""
        if not self._rung:
            self._rung = True
            self._loop.call_soon_threadsafe(self._loop.call_later, TOGETHER_SECONDS, self.beat)

    def beat(self) -> None:
        self._rung = False
        woken, self._next = self._next, asyncio.Event()
        woken.set()

    def end(self) -> None:
        """Viewers say good-bye."""
        self.over = True
        self.beat()

    async def keep_beating(self) -> None:
        while not self.over:
            await asyncio.sleep(AT_LEAST_SECONDS)
            self.beat()

    @property
    def next(self) -> asyncio.Event:
        """To be taken before looking, and waited for afterwards."""
        return self._next


class Events:
    """What viewers are told of a store."""

    def __init__(self, store: Store, pulse: Pulse, status: Callable[[], dict[str, Any]]) -> None:
        self._store = store
        self._pulse = pulse
        self._status = status
        self._life = secrets.token_hex(4)
        """Revisions mean nothing to another process."""
        self._told: tuple[int | None, int, bytes] = (None, -1, b"")
        """Many viewers are told the same."""

    async def answer(self, request: Request) -> StreamingResponse:
        asked = request.query_params
        watched = StreamName(asked["flow"], asked["stream"]) if "flow" in asked and "stream" in asked else None
        said = self._since(asked.get("since", ""))
        return StreamingResponse(self._tell(said, watched), headers=NOT_BUFFERED, media_type="text/event-stream")

    async def _tell(self, revision: int | None, watched: StreamName | None) -> AsyncIterator[bytes]:
        point = -1
        while not self._pulse.over:
            wake = self._pulse.next
            parts = []
            changes = self._store.since(revision)
            if changes.anew or changes.revision != revision:
                parts.append(self._list(revision, changes))
            if watched is not None and (point < 0 or changes.revision != point):
                parts.append(self._stream(watched, point, changes.revision))
                point = changes.revision
            revision = changes.revision
            parts.append(_event("status", {**self._status(), "now": time.time_ns() // 1_000_000}))
            yield b"".join(parts)
            await wake.wait()

    def _list(self, since: int | None, changes: Changes) -> bytes:
        if self._told[:2] != (since, changes.revision):
            content = {
                "revision": f"{self._life}-{changes.revision}",
                "anew": changes.anew,
                "streams": [each.summary for each in changes.changed],
                "ended": [[*name] for name in changes.ended],
            }
            self._told = (since, changes.revision, _event("streams", content))
        return self._told[2]

    def _stream(self, name: StreamName, after: int, until: int) -> bytes:
        """Of the stream that is watched: what it has, then what comes."""
        newest = self._store.get(*name)
        if newest is None or newest.revision <= after:
            return b""
        points = b",".join(self._store.history(name, after, until))
        begun = b"true" if after < 0 else b"false"
        return b'event: stream\ndata: {"anew":%b,"points":[%b],"snapshot":%b}\n\n' % (begun, points, newest.text)

    def _since(self, text: str) -> int | None:
        life, _, revision = text.partition("-")
        return int(revision) if life == self._life and revision.isdecimal() else None


def _event(name: str, content: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(content))
