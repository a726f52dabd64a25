"""Settings of the Kafka client from outside of a flow's file: environment variables, and a file for all commands."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluiceway.errors import SettingsError

FILE = "SLUICEWAY_KAFKA"
"""The environment variable that names the file."""

OURS = frozenset(
    {
        "acks", "auto.offset.reset", "bootstrap.servers", "enable.auto.commit", "enable.auto.offset.store",
        "enable.idempotence", "enable.partition.eof", "group.id", "isolation.level", "partition.assignment.strategy",
        "transaction.timeout.ms", "transactional.id",
    }
)  # fmt: skip
"""What exactness depends on: a flow sets these itself."""


def from_environment() -> dict[str, str]:
    """What the file says, if there is one; what the flow sets itself is left out, as others use such files too."""
    path = os.environ.get(FILE)
    return {} if not path else {name: value for name, value in _read(Path(path)).items() if name not in OURS}


def _read(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"{FILE} names the file {path}, which cannot be read: {problem}") from None
    settings = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not (name and equals):
            raise SettingsError(f"{path}, line {number}: a setting is written NAME=VALUE")
        settings[name] = fill_in(value, f"{path}, line {number},")
    return settings


def refuse_ours(given: Mapping[str, Any], flow: str) -> None:
    """In a flow's file such a setting would be overridden in silence."""
    for name in given:
        if name in OURS:
            group = f" (its groups are {flow!r} and {flow + '.members'!r})" if name == "group.id" else ""
            raise SettingsError(f'kafka."{name}" is set by the flow itself{group}: leave it out')


def fill_in(value: Any, where: str) -> Any:
    """Replace ${NAME} in texts by the environment's value."""
    if isinstance(value, dict):
        return {key: fill_in(inner, f"{where}{key}.") for key, inner in value.items()}
    if not isinstance(value, str):
        return value

    def lookup(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise SettingsError(f"{where.rstrip('.')} needs the environment variable {name}, which is not set")
        return os.environ[name]

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", lookup, value)
