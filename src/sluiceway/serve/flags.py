"""`/ofrep/v1`: selections as feature flags, by OpenFeature's Remote Evaluation Protocol (OFREP).

| flag | type | value |
| --- | --- | --- |
| `FLOW/STREAM/FEATURE` | boolean | whether the feature is selected |
| `FLOW/STREAM` | object | the newest snapshot |

In a key each name is percent-encoded as in a URL (`gene%2FTP53`), so that a slash in a name is none of the key's.
Of a stream there is, every feature has a flag: nobody can know which features there are. Where a snapshot lists only
the first of those selected, what it does not list is an error: that it is not selected would be a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, unquote

import orjson
from starlette.requests import Request
from starlette.responses import Response

from sluiceway.serve.answers import READING, json, reading, tag_of, tagged
from sluiceway.serve.selections import absent
from sluiceway.serve.store import Newest, Store

PATH = "/ofrep/v1/evaluate/flags"
LARGEST_REQUEST = 65_536
MOST_FLAGS = 20_000
"""In one answer."""
KEYS = "a flag's key is FLOW/STREAM or FLOW/STREAM/FEATURE, each name percent-encoded"


class RefusedError(Exception):
    """A request that cannot be answered, in OpenFeature's words."""

    def __init__(self, code: str, details: str, status: int = 400) -> None:
        self.status = status
        self.content = {"errorCode": code, "errorDetails": details}


class Flags:
    """Selections as flags."""

    def __init__(self, store: Store, caught_up: Callable[[], bool]) -> None:
        self._store = store
        self._caught_up = caught_up

    async def one(self, request: Request) -> Response:
        names = key_names(request.scope["raw_path"].decode().removeprefix(f"{PATH}/"))
        key = {"key": key_of(*names)}
        if not self._caught_up():
            return reading({**key, "errorCode": "PROVIDER_NOT_READY", "errorDetails": READING})
        try:
            await _context(request)
            return json({**key, **self._evaluate(names)})
        except RefusedError as refused:
            return json({**key, **refused.content}, refused.status)

    async def all(self, request: Request) -> Response:
        if not self._caught_up():
            return reading({"errorCode": "PROVIDER_NOT_READY", "errorDetails": READING})
        try:
            context = await _context(request)
            streams = self._store.all(_text(context, "flow"), _text(context, "stream"))
            tag = tag_of(streams)
            count = sum(1 + each.summary["n_selected"] for each in streams)
            if count > MOST_FLAGS:
                raise RefusedError(
                    "INVALID_CONTEXT", f"there are {count:,} flags: name a `flow` and a `stream` in the context"
                )
            return tagged(request, tag, orjson.dumps({"flags": [flag for each in streams for flag in _flags(each)]}))
        except RefusedError as refused:
            return json(refused.content, refused.status)

    def _evaluate(self, names: tuple[str, ...]) -> dict[str, Any]:
        if len(names) not in (2, 3):
            raise RefusedError("FLAG_NOT_FOUND", KEYS, 404)
        newest = self._store.get(*names[:2])
        if newest is None:
            raise RefusedError("FLAG_NOT_FOUND", absent(self._store, *names[:2]), 404)
        snapshot = orjson.loads(newest.text)
        if len(names) == 2:
            return _selection(snapshot)
        entry = next((each for each in snapshot["selected"] if each["feature"] == names[2]), None)
        if entry is None and (beyond := snapshot["n_selected"] - len(snapshot["selected"])) > 0:
            raise RefusedError(
                "GENERAL", f"not among the {len(snapshot['selected']):,} features listed; {beyond:,} more are selected"
            )
        return _feature(snapshot, entry)


def key_of(*names: str) -> str:
    """
    >>> key_of("spam", "mail", "gene/TP53")
    'spam/mail/gene%2FTP53'
    """
    return "/".join(quote(name, safe="") for name in names)


def key_names(path: str) -> tuple[str, ...]:
    """The names in a key, as it stands in a URL: as it is, or encoded once more (which leaves no slash).

    >>> key_names("spam/mail/gene%2FTP53"), key_names("spam%2Fmail%2Fgene%252FTP53")
    (('spam', 'mail', 'gene/TP53'), ('spam', 'mail', 'gene/TP53'))
    """
    key = path if "/" in path else unquote(path)
    return tuple(map(unquote, key.split("/")))


def _flags(newest: Newest) -> Iterator[dict[str, Any]]:
    snapshot = orjson.loads(newest.text)
    yield {"key": key_of(*newest.name), **_selection(snapshot)}
    for entry in snapshot["selected"]:
        yield {"key": key_of(*newest.name, entry["feature"]), **_feature(snapshot, entry)}
    if snapshot["n_selected"] > len(snapshot["selected"]):
        return  # what has left the list may be selected beyond it
    for name in snapshot["left"]:
        yield {"key": key_of(*newest.name, name), **_feature(snapshot, None)}


def _selection(snapshot: dict[str, Any]) -> dict[str, Any]:
    return {
        "value": snapshot,
        "reason": "TARGETING_MATCH",
        "variant": str(snapshot["version"]),
        "metadata": _metadata(snapshot),
    }


def _feature(snapshot: dict[str, Any], entry: dict[str, Any] | None) -> dict[str, Any]:
    more = {} if entry is None else {"weight": entry["weight"], "since": entry["since"]}
    return {
        "value": entry is not None,
        "reason": "TARGETING_MATCH",  # not STATIC: such values are kept by clients
        "variant": "selected" if entry is not None else "not-selected",
        "metadata": {**_metadata(snapshot), **more},
    }


def _metadata(snapshot: dict[str, Any]) -> dict[str, Any]:
    return {name: snapshot[name] for name in ("flow", "stream", "version")}


async def _context(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_REQUEST:
            raise RefusedError("PARSE_ERROR", f"the request has more than {LARGEST_REQUEST:,} bytes")
    try:
        asked = orjson.loads(body) if body else {}
    except ValueError as problem:
        raise RefusedError("PARSE_ERROR", f"the request is no JSON: {problem}") from None
    context = asked.get("context", {}) if isinstance(asked, dict) else None
    if not isinstance(context, dict):
        raise RefusedError("INVALID_CONTEXT", 'the request is to be {"context": {...}}')
    return context


def _text(context: dict[str, Any], name: str) -> str | None:
    value = context.get(name)
    if value is not None and not isinstance(value, str):
        raise RefusedError("INVALID_CONTEXT", f"`{name}` in the context must be text, not {value!r}")
    return value
