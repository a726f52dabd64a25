"""Algorithms and what surrounds them. Called, the package lists them: `sluiceway.operators()`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluiceway.operators.registry import Entry


class _Operators(ModuleType):
    def __call__(self) -> Mapping[str, Entry]:
        """What is known of every operator, those of other packages too, by the name that a flow's file gives it."""
        from sluiceway.operators.registry import operators

        return operators()


sys.modules[__name__].__class__ = _Operators
