"""What a flow that runs says on standard error.

On a terminal: sentences for the person in front of it. Elsewhere a log: one line an event, with time and level, as text
or as JSON. The Kafka client's own messages are for the log alone: what of them matters to a person is told by sentences
of ours.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

ROOT = "sluiceway"
_OF_THE_CLIENT = re.compile(r"\w+ \[[^\]]*#(producer|consumer)-\d+\] ")
"""How the Kafka client's own lines begin, whatever its `client.id`."""


class LogFormat(StrEnum):
    """How a log is written."""

    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="How the log on standard error is written, a line an event.")
]

_format: LogFormat | None = None
"""None: of a command that answers and ends."""


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to what `sys.stderr` is at the time: a live display takes it over, and lets lines pass above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _Terminal(logging.Formatter):
    """A sentence; one of a library says whose it is."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.name == ROOT else f"{ROOT}: {record.name}: {text}"


class _Text(logging.Formatter):
    """2026-01-31T12:00:00.123Z WARNING sluiceway.lane: what happened; of a traceback each line by itself."""

    def format(self, record: logging.LogRecord) -> str:
        where = "" if record.name == ROOT else f"{record.name}: "
        head = f"{_when(record)} {record.levelname:<7} {where}"
        return "\n".join(head + line for line in super().format(record).splitlines() or [""])


class _Json(logging.Formatter):
    """An object a line. An event that has numbers says them in members of its own, too."""

    def format(self, record: logging.LogRecord) -> str:
        content: dict[str, Any] = {
            "time": _when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False, default=str)


def _when(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _ours(record: logging.LogRecord) -> bool:
    """Not the Kafka client's own words."""
    return _OF_THE_CLIENT.match(record.getMessage()) is None


def _for_people(record: logging.LogRecord) -> bool:
    """On a terminal the display shows the rest."""
    return record.name == ROOT or (record.levelno >= logging.WARNING and _ours(record))


def tell_warnings() -> None:
    """Of a command that answers and ends: warnings of libraries as lines of ours."""
    _take_over(None, logging.WARNING, _Terminal(), _ours)


def begin(wanted: LogFormat) -> None:
    """Of a command that runs until it is stopped."""
    if wanted is LogFormat.JSON:
        _take_over(wanted, logging.INFO, _Json())
    elif sys.stderr.isatty():
        _take_over(wanted, logging.INFO, _Terminal(), _for_people)
    else:
        _take_over(wanted, logging.INFO, _Text())


def _take_over(
    wanted: LogFormat | None,
    level: int,
    formatter: logging.Formatter,
    passes: Callable[[logging.LogRecord], bool] | None = None,
) -> None:
    """One handler of ours at a time: a process may run one command after another, as tests do."""
    global _format
    _format = wanted
    handler = _Stderr()
    handler.setFormatter(formatter)
    if passes is not None:
        handler.addFilter(passes)
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if isinstance(each, _Stderr)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    logging.getLogger(ROOT).setLevel(level)


def say(text: str) -> None:
    if _format is None:
        print(text, file=sys.stderr, flush=True)
    else:
        logging.getLogger(ROOT).info("%s", text)


def tell_failure(sentence: str) -> None:
    """The last line of a command that fails."""
    if _format is LogFormat.JSON:
        logging.getLogger(ROOT).critical("%s", sentence)
    else:
        print(f"{ROOT}: {sentence}", file=sys.stderr, flush=True)
