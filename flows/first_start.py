"""How long a first start compiles: what it took last time, or a fair guess. For people, before they wait for it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from sluiceway.compiling import kept_in
from sluiceway.flows.settings import Settings
from sluiceway.flows.work import Work
from sluiceway.schemas.read_rows import read_rows

_GUESS = "about 10 s"
_FILE = "first-starts.json"


def prepare(work: Work, settings: Settings, on_compile: Callable[[str], None] | None) -> None:
    """Load or compile what the flow needs; `on_compile` is told how long it may take, if it is not there yet."""
    what, began = f"{settings.verb} {settings.operator.name}", 0.0

    def compiling() -> None:
        nonlocal began
        began = time.monotonic()
        if on_compile is not None:
            on_compile(how_long(what))

    work.prepare(settings, compiling)
    if began:
        remember(what, time.monotonic() - began)


def how_long(what: str) -> str:
    taken = {name: seconds for name, seconds in _taken().items() if isinstance(seconds, int | float)}
    if what in taken:
        return f"{_rounded(taken[what])} s last time"
    verb, _, _ = what.partition(" ")
    others = [seconds for name, seconds in taken.items() if name.startswith(f"{verb} ")]
    return f"about {_rounded(median(others))} s, as other operators took here" if others else _GUESS


def _rounded(seconds: float) -> int:
    return max(round(seconds), 1)


def remember(what: str, seconds: float) -> None:
    path = _path()
    if path is None:
        return
    try:
        path.write_text(json.dumps(_taken() | {what: round(seconds, 1)}))
    except OSError:  # then the next one gets a guess
        return


def _taken() -> dict[str, Any]:
    path = _path()
    try:
        taken = json.loads(path.read_bytes()) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return taken if isinstance(taken, dict) else {}


def _path() -> Path | None:
    """Beside what is kept of the decoder, which every flow needs."""
    folder = kept_in(read_rows)
    return None if folder is None else folder / _FILE
