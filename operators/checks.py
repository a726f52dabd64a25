"""An instance, a label, a state, each checked before an operator uses it: `ValueError` says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np


def binary_label(y: Any) -> int:
    """-1 or +1, also of False and True, or `ValueError`."""
    if isinstance(y, bool | np.bool_):
        return 1 if y else -1
    if y not in (-1, 1):
        raise ValueError(f"label {y!r} is not -1 or +1, False or True")
    return int(y)


def numbers_of(x: Mapping[str, float]) -> list[float]:
    """The values of `x` as floats, or `ValueError` for the first feature that cannot be used."""
    values = []
    for name, value in x.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"feature {name!r} must be named by a string that is not empty")
        if type(value) is not float:
            if isinstance(value, bool) or not isinstance(value, Real):
                raise ValueError(f"feature {name!r} is {value!r}, not a number")
            try:
                value = float(value)
            except OverflowError:
                value = math.inf
        if not math.isfinite(value):
            raise ValueError(f"feature {name!r} is {value}: values must be finite")
        values.append(value)
    return values


def refuse_other_state(state: Mapping[str, Any], operator: str, version: int) -> None:
    if state.get("operator") != operator:
        raise ValueError(f"this is the state of {state.get('operator')!r}, not of {operator!r}")
    if state.get("state_version") != version:
        raise ValueError(
            f"this state of {operator!r} has version {state.get('state_version')!r}; "
            f"this release of sluiceway reads version {version}"
        )
