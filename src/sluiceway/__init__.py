"""Feature selection on streams.

What services use is here, and nothing heavy is imported before it is used:

    for snapshot in sluiceway.subscribe("kafka://localhost:9092/selections", flow="spam"):
        mask = sluiceway.SelectionMask(snapshot)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluiceway.client import SplitStreamError, StreamName, Subscription, latest, subscribe
    from sluiceway.errors import FlowError, SettingsError, SluicewayError, UnreachableError
    from sluiceway.mask import SelectionMask
    from sluiceway.schemas.records import Snapshot

__version__ = "0.1.0"

__all__ = [
    "FlowError",
    "SelectionMask",
    "SettingsError",
    "SluicewayError",
    "Snapshot",
    "SplitStreamError",
    "StreamName",
    "Subscription",
    "UnreachableError",
    "__version__",
    "latest",
    "subscribe",
]

_HOMES = {
    "FlowError": "sluiceway.errors",
    "SelectionMask": "sluiceway.mask",
    "SettingsError": "sluiceway.errors",
    "SluicewayError": "sluiceway.errors",
    "Snapshot": "sluiceway.schemas.records",
    "SplitStreamError": "sluiceway.client",
    "StreamName": "sluiceway.client",
    "Subscription": "sluiceway.client",
    "UnreachableError": "sluiceway.errors",
    "latest": "sluiceway.client",
    "subscribe": "sluiceway.client",
}


def __getattr__(name: str) -> Any:
    """Import on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sluiceway' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
