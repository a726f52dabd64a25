"""Operators of other packages: each an `Entry` of the registry, named by an entry point of the group below.

In the other package's `pyproject.toml`:

    [project.entry-points."sluiceway.operators"]
    winnow = "winnow.sluiceway:ENTRY"
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from sluiceway.errors import SettingsError

GROUP = "sluiceway.operators"
_Entry = TypeVar("_Entry")


@cache
def points() -> Mapping[str, EntryPoint]:
    """By the operator's name. Nothing of the other packages is imported yet."""
    return {point.name: point for point in entry_points(group=GROUP)}


def load(point: EntryPoint, entry: type[_Entry]) -> _Entry:
    """Whatever is wrong with another package's operator is told in a sentence that names the package."""
    whose = f'operator "{point.name}" of {"another package" if point.dist is None else point.dist.name}'
    try:
        found = point.load()
    except Exception as problem:  # there is no end to what importing somebody's code can lead to
        raise SettingsError(f"{whose} cannot be loaded: {type(problem).__name__}: {problem}") from problem
    if not isinstance(found, entry):
        raise SettingsError(f"{whose}: {point.value} must be a {entry.__module__}.{entry.__name__}, not {found!r}")
    return found
