"""`sluiceway serve` as a process, and a plain client for it."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from typing import Any, NamedTuple

from tests.support.flow import Running


class Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class Served:
    """What answers at the address that the command says."""

    def __init__(self, process: Running) -> None:
        self.process = process
        process.until(lambda: " are at http://" in process.stderr)
        found = re.search(r" are at (http://\S+)", process.stderr)
        assert found is not None
        self.url = found[1]

    def ask(
        self, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None, method: str | None = None
    ) -> Answer:
        asked = urllib.request.Request(self.url + path, body, dict(headers or {}), method=method)
        try:
            with urllib.request.build_opener(_Stay).open(asked, timeout=30) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused.code, refused.headers, refused.read())

    def evaluate(self, key: str = "", context: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """A flag, or all of them."""
        body = b"" if context is None else json.dumps({"context": context}).encode()
        where = f"/ofrep/v1/evaluate/flags{'/' if key else ''}{key}"
        return self.ask(where, {"Content-Type": "application/json", **(headers or {})}, body, "POST")

    def ready(self) -> None:
        self.process.until(lambda: self.ask("/readyz").status == 200)

    def events(self, query: str = "", headers: Mapping[str, str] | None = None) -> Iterator[tuple[str, Any]]:
        """Server-sent events as they come."""
        asked = urllib.request.Request(f"{self.url}/events{query}", headers=dict(headers or {}))
        with urllib.request.urlopen(asked, timeout=30) as answer:
            name = ""
            for line in answer:
                kind, _, rest = line.decode().rstrip("\n").partition(": ")
                if kind == "event":
                    name = rest
                elif kind == "data":
                    yield name, json.loads(rest)


@contextmanager
def serving(url: str, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    with Running("serve", url, "--listen", "127.0.0.1:0", *arguments, env=env) as process:
        try:
            served = Served(process)
            served.ready()
            yield served
        except BaseException:
            print(process.stderr)  # beside what went wrong
            raise
