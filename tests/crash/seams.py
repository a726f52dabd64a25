"""What the patches of a crash run share: wrapping a seam from outside, and writing down what happens."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson


class Report:
    """Events, each written before the next thing happens; their times can be compared between processes."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def __call__(self, event: str, **details: object) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError):  # a process may have come to the limit of its files
            os.write(self._file, orjson.dumps({"event": event, "at": time.monotonic(), **details}) + b"\n")


def wrap(owner: Any, name: str, around: Callable[[Any], Any]) -> None:
    """Put a wrapper around a method or function: `around(original) -> replacement`."""
    setattr(owner, name, around(getattr(owner, name)))
