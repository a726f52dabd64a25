"""What adapters to other libraries share: an operator by its name and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluiceway.errors import SettingsError
from sluiceway.operators import registry

DEFAULT_K = 10
"""Where an operator needs a `k` and none is given."""


def make(operator: str, params: Mapping[str, Any], needed: str) -> Any:
    """A new operator that has the method `needed`, or a `SettingsError` that offers those that have."""
    cls = registry.get(operator).cls
    if not hasattr(cls, needed):
        fit = ", ".join(name for name, entry in registry.operators().items() if hasattr(entry.cls, needed))
        raise SettingsError(f'operator "{operator}" does not learn this way; those that do: {fit}')
    default = {"k": DEFAULT_K} if registry.needs(operator, "k") else {}
    return cls(**{**default, **params})


def restored(state: Mapping[str, Any]) -> Any:
    """The operator whose `state()` this is."""
    return registry.get(state["operator"]).cls.from_state(state)
