"""`/v1/selections`: the newest snapshots as JSON."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

import orjson
from starlette.requests import Request
from starlette.responses import Response

from sluiceway.serve.answers import READING, json, reading, tag_of, tagged
from sluiceway.serve.store import Store


class Selections:
    """What is selected now."""

    def __init__(self, store: Store, caught_up: Callable[[], bool]) -> None:
        self._store = store
        self._caught_up = caught_up

    async def all(self, request: Request) -> Response:
        """A list of the streams, without what they select."""
        if not self._caught_up():
            return reading({"error": READING})
        streams = self._store.all(request.query_params.get("flow"))
        return tagged(request, tag_of(streams), orjson.dumps({"streams": [each.summary for each in streams]}))

    async def one(self, request: Request) -> Response:
        """The snapshot as it stands on the topic; its entity tag is the version, and a generation's."""
        if not self._caught_up():
            return reading({"error": READING})
        flow, stream = request.path_params["flow"], request.path_params["stream"]
        newest = self._store.get(flow, stream)
        if newest is None:
            return json({"error": absent(self._store, flow, stream)}, 404)
        return tagged(request, newest.tag, newest.text)


def absent(store: Store, flow: str, stream: str) -> str:
    """There is no such stream; perhaps there is one of nearly this name."""
    names = [str(each.name) for each in store.all()]
    near = get_close_matches(f"{flow}/{stream}", names[:10_000], n=1, cutoff=0.6)
    return f"there is no selection of {flow}/{stream}" + (f"; did you mean {near[0]}?" if near else "")
