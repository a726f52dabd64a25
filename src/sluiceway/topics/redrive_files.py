"""Redriving between directories: what is to be appended is written down first, so that each letter is sent once.

Both the ledger and what is under way lie in `_redriven.json` beside the dead letters.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from sluiceway.errors import FlowError, SettingsError
from sluiceway.topics.append import DirectoryAppender
from sluiceway.topics.dead_letters import Letter, letter_of
from sluiceway.topics.directory import partition_count, partition_path
from sluiceway.topics.feeds import read_all
from sluiceway.topics.redrive import Choice, Ledger, Report, chosen, partition_for
from sluiceway.topics.url import DirectoryTopic

FILE = "_redriven.json"


@dataclass(slots=True)
class _Intent:
    """Lines on their way, and how large each file was before."""

    to: str
    sizes: dict[int, int] = field(default_factory=dict)
    lines: dict[int, list[str]] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    def dump(self) -> dict[str, Any]:
        return {
            "to": self.to,
            "sizes": sorted(self.sizes.items()),
            "lines": sorted(self.lines.items()),
            "ledger": self.ledger.dump(),
        }

    @classmethod
    def load(cls, content: Any) -> _Intent:
        return cls(content["to"], dict(content["sizes"]), dict(content["lines"]), Ledger.load(content["ledger"]))


def redrive(
    dead: DirectoryTopic, to: DirectoryTopic, choice: Choice, *, dry: bool, tick: Callable[[], None]
) -> Report:
    partitions = partition_count(to)
    if partitions is None or partition_count(dead) is None:
        raise SettingsError(f"there is no topic {dead if partitions is not None else to}")
    report = Report()
    ledger, intent = _load(dead)
    if not dry and intent is not None:
        _carry_out(dead, intent, ledger)
    elif intent is not None:
        ledger.add(intent.ledger)
    fresh = _Intent(str(to.path.resolve()))
    letters = (letter for entry in read_all(dead, {}) if (letter := letter_of(entry)) is not None)
    for letter in chosen(letters, choice, ledger, report):
        tick()
        fresh.ledger.note(letter)
        line = _line(letter)
        partition = partition_for(letter, _stream(line), to.name, partitions)
        fresh.lines.setdefault(partition, []).append(line)
    if not dry and fresh.lines:
        with DirectoryAppender(to, partitions) as appender:
            fresh.sizes = {partition: appender.size(partition) for partition in fresh.lines}
        _save(dead, ledger, fresh)
        _carry_out(dead, fresh, ledger)
    return report


def _line(letter: Letter) -> str:
    try:
        return (letter.value or b"").decode()
    except UnicodeDecodeError:
        where = f"offset {letter.offset} of partition {letter.partition}"
        raise SettingsError(f"the dead letter at {where} is not UTF-8: it cannot be a line of a directory") from None


def _stream(line: str) -> bytes | None:
    try:
        stream = orjson.loads(line)["stream"]
    except (ValueError, KeyError, TypeError):
        return None
    return stream.encode() if isinstance(stream, str) and stream else None


def _carry_out(dead: DirectoryTopic, intent: _Intent, ledger: Ledger) -> None:
    """Append what is not there yet; an earlier process may have been killed in the middle of it."""
    to = DirectoryTopic(Path(intent.to))
    partitions = partition_count(to)
    if partitions is None:
        raise FlowError(f"an earlier redrive to {to} was interrupted, and that is gone: remove {dead.path / FILE}")
    with DirectoryAppender(to, partitions) as appender:
        for partition, lines in intent.lines.items():
            there = _standing(to, partition, intent.sizes[partition], lines)
            for start, part in ((intent.sizes[partition], lines[:there]), (appender.size(partition), lines[there:])):
                at = start
                for line in part:
                    intent.ledger.note_place(to.name, partition, at)
                    at += len(line.encode()) + 1
            appender.append(partition, [line.encode() for line in lines[there:]])
    ledger.add(intent.ledger)
    _save(dead, ledger, None)


def _standing(to: DirectoryTopic, partition: int, size: int, lines: list[str]) -> int:
    """How many of the lines stand there already, from where the file ended before."""
    with partition_path(to, partition).open("rb") as file:
        file.seek(size)
        for number, line in enumerate(lines):
            if file.readline() != line.encode() + b"\n":
                return number
    return len(lines)


def _load(dead: DirectoryTopic) -> tuple[Ledger, _Intent | None]:
    path = dead.path / FILE
    try:
        content = orjson.loads(path.read_bytes())
        intent = content["intent"]
        return Ledger.load(content["ledger"]), None if intent is None else _Intent.load(intent)
    except FileNotFoundError:
        return Ledger(), None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise FlowError(f"what was sent again is not known: {path} is damaged") from None


def _save(dead: DirectoryTopic, ledger: Ledger, intent: _Intent | None) -> None:
    content = {"ledger": ledger.dump(), "intent": None if intent is None else intent.dump()}
    fresh = dead.path / f"{FILE}.new"
    with fresh.open("wb") as file:
        file.write(orjson.dumps(content))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(dead.path / FILE)
