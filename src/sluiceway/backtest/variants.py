"""The variants of a backtest: a flow's settings with some of them changed, in every combination."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluiceway.errors import SettingsError
from sluiceway.flows.changes import apply_changes
from sluiceway.flows.settings import Settings
from sluiceway.operators import registry

OPERATOR = "operator.name"
VARIED = ("operator", "window", "emit")
VARIED_INPUT = ("scale", "max_pending")
"""What else may differ: all variants learn from what is decoded once."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination."""

    number: int
    changes: Mapping[str, Any]
    """Dotted setting -> its value."""
    settings: Settings

    @property
    def label(self) -> str:
        """How people tell it from the others."""
        return label(self.settings.operator.name, self.changes)


def label(operator: str, changes: Mapping[str, Any]) -> str:
    """
    >>> label("ofs", {"operator.name": "ofs", "operator.k": 5, "input.scale": "l2"})
    'ofs k=5 input.scale=l2'
    """
    given = (f"{name.removeprefix('operator.')}={value}" for name, value in changes.items() if name != OPERATOR)
    return " ".join([operator, *given])


def make_variants(content: Mapping[str, Any], directory: Path, vary: Mapping[str, Sequence[Any]]) -> list[Variant]:
    """The whole grid of a flow's settings; without `vary` the flow itself."""
    for name, values in vary.items():
        _refuse_unvaried(name)
        if not values:
            raise SettingsError(f"{name} is given no value")
        if len(set(map(repr, values))) < len(values):
            raise SettingsError(f"{name} is given a value twice")
    combinations = [dict(zip(vary, chosen, strict=True)) for chosen in itertools.product(*vary.values())]
    return [_variant(number, content, directory, changes) for number, changes in enumerate(combinations)]


def _refuse_unvaried(name: str) -> None:
    section, _, rest = name.partition(".")
    if not rest or (section not in VARIED and not (section == "input" and rest in VARIED_INPUT)):
        inputs = ", ".join(f"input.{one}" for one in VARIED_INPUT)
        raise SettingsError(
            f"{name} cannot be varied: all variants learn from the same decoded records; operator.*, window.*, emit.*,"
            f" {inputs} can"
        )


def _variant(number: int, content: Mapping[str, Any], directory: Path, changes: Mapping[str, Any]) -> Variant:
    changed = apply_changes(content, changes)
    operator = changed.get("operator")
    name = changes.get(OPERATOR)
    if name is not None and isinstance(operator, dict) and name != content.get("operator", {}).get("name"):
        _fit_parameters(operator, name, changes)
    try:
        settings = Settings.parse(changed, directory=directory)
    except SettingsError as problem:
        if not changes:
            raise
        raise SettingsError(f"variant {label(str(operator and operator.get('name')), changes)}: {problem}") from None
    return Variant(number, changes, settings)


def _fit_parameters(operator: dict[str, Any], name: Any, changes: Mapping[str, Any]) -> None:
    """The file's parameters are its own operator's: another one takes of them what it has too."""
    known = registry.parameters(str(name))
    for parameter in [parameter for parameter in operator if parameter != "name" and parameter not in known]:
        if f"operator.{parameter}" not in changes:
            del operator[parameter]
