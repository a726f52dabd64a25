"""Against the features that are known to matter: precision, recall, and how long after a drift they were found.

The file is a list of names, one a line, or JSON: `["free", "casino"]`, or a list of what matters from which version
on: `[{"from": 0, "features": ["free"]}, {"from": 25000, "features": ["casino"]}]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import orjson

from sluiceway.backtest.selections import Timeline
from sluiceway.errors import SettingsError

FOUND = 0.8
"""The share of the features that must be selected for a drift to count as found."""


class Phase(NamedTuple):
    """What matters from a version on."""

    start: int
    features: frozenset[str]


def read_known(path: Path) -> list[Phase]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"--known {path} cannot be read: {problem}") from None
    if not text.lstrip().startswith("["):
        return _phases(path, [{"from": 0, "features": [line.strip() for line in text.splitlines() if line.strip()]}])
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise SettingsError(f"--known {path} is not JSON: {problem}") from None
    if all(isinstance(name, str) for name in content):
        content = [{"from": 0, "features": content}]
    return _phases(path, content)


def _phases(path: Path, content: Any) -> list[Phase]:
    try:
        phases = [Phase(int(entry["from"]), frozenset(map(str, entry["features"]))) for entry in content]
    except (KeyError, TypeError, ValueError):
        raise SettingsError(f'--known {path} must hold names, or a list of {{"from": N, "features": [...]}}') from None
    if not phases or not all(phase.features for phase in phases):
        raise SettingsError(f"--known {path} names no features")
    return sorted(phases)


def against_known(timeline: Timeline, phases: list[Phase]) -> dict[str, Any]:
    """At the last snapshot, and the versions from the start of each phase until most of its features were selected."""
    if not len(timeline):
        return {"precision": None, "recall": None, "delays": [None] * len(phases)}
    last = timeline.selected(len(timeline) - 1)
    now = next((phase for phase in reversed(phases) if phase.start <= timeline.versions[-1]), phases[0])
    hits = len(last & now.features)
    return {
        "precision": hits / len(last) if last else None,
        "recall": hits / len(now.features),
        "delays": [
            _delay(timeline, phase, following.start if following else None)
            for phase, following in zip(phases, [*phases[1:], None], strict=True)
        ],
    }


def _delay(timeline: Timeline, phase: Phase, end: int | None) -> int | None:
    for at, version in enumerate(timeline.versions):
        if version < phase.start or (end is not None and version > end):
            continue
        if len(timeline.selected(at) & phase.features) >= FOUND * len(phase.features):
            return version - phase.start
    return None
