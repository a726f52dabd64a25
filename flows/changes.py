"""Settings changed from the command line: `--set operator.k=5`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sluiceway.errors import SettingsError
from sluiceway.flows.settings import HIDDEN, Settings


def parse_sets(given: Iterable[str]) -> dict[str, list[Any]]:
    """`--set NAME=VALUE,VALUE` options.

    >>> parse_sets(["operator.k=5,10", "operator.name=ofs,stsd", "emit.on_change=true"])
    {'operator.k': [5, 10], 'operator.name': ['ofs', 'stsd'], 'emit.on_change': [True]}
    """
    found: dict[str, list[Any]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not (name and equals and values.strip()):
            shown = "" if text.startswith(HIDDEN) else f", not {text!r}"
            raise SettingsError(f"--set takes NAME=VALUE,VALUE, for example operator.k=5,10{shown}")
        if name in found:
            raise SettingsError(f"--set {name} is given twice; write its values in one list")
        found[name] = _values(values)
    return found


def _values(text: str) -> list[Any]:
    """As TOML has them, or else plain texts."""
    try:
        values: list[Any] = tomllib.loads(f"values = [{text}]")["values"]
    except tomllib.TOMLDecodeError:
        values = [part.strip() for part in text.split(",")]
    return values


def parse_single(given: Iterable[str]) -> dict[str, Any]:
    """The same where a setting can have one value only.

    >>> parse_single(["operator.k=5", "input.stop=end"])
    {'operator.k': 5, 'input.stop': 'end'}
    """
    found = parse_sets(given)
    for name, values in found.items():
        if len(values) != 1:
            raise SettingsError(f"--set {name} takes one value here; `sluiceway backtest` compares several")
    return {name: value for name, (value,) in found.items()}


def apply_changes(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a flow's tables with some settings, named by their dotted names, changed."""
    changed: dict[str, Any] = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for name, value in changes.items():
        # names of the Kafka client have dots of their own
        *path, last = name.split(".", 1) if name.startswith("kafka.") else name.split(".")
        table = changed
        for part in path:
            inner = table.get(part, {})
            if not isinstance(inner, dict):
                raise SettingsError(f"{name} cannot be set: {part} is no table")
            table[part] = dict(inner)
            table = table[part]
        table[last] = value
    return changed


def load_changed(path: Path, changes: Mapping[str, Any]) -> Settings:
    """A flow's file with some settings changed."""
    settings = Settings.load(path)  # for its sentences
    if not changes:
        return settings
    content = apply_changes(tomllib.loads(path.read_text(encoding="utf-8")), changes)
    try:
        return Settings.parse(content, directory=path.parent)
    except SettingsError as problem:
        raise SettingsError(f"{path} with --set {', '.join(changes)}: {problem}") from None
