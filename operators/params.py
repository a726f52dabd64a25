"""What an operator is given, checked at once: parameters, one instance, a state. A `ValueError` names what is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np


def whole_number(name: str, value: Any, *, least: int, most: int = 2**31 - 2) -> int:
    """The hyper-parameter as an int, or `ValueError` naming it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, not {value!r}")
    return int(value)


def positive_number(name: str, value: Any) -> float:
    """The hyper-parameter as a finite float above 0, or `ValueError` naming it."""
    if isinstance(value, bool) or not isinstance(value, Real) or not (0 < float(value) < math.inf):
        raise ValueError(f"{name} must be a finite number above 0, not {value!r}")
    return float(value)


def one_of(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """The hyper-parameter if it is one of the choices (True is not 1), or `ValueError` naming it and them."""
    if type(value) is not type(choices[0]) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}")
    return value


def share(name: str, value: Any, *, zero: bool = False) -> float:
    """A float in (0, 1), or in [0, 1) with `zero`."""
    least = "in [0, 1)" if zero else "between 0 and 1"
    if isinstance(value, bool) or not isinstance(value, Real) or not (0 <= float(value) < 1):
        raise ValueError(f"{name} must be a number {least}, not {value!r}")
    if float(value) == 0 and not zero:
        raise ValueError(f"{name} must be a number {least}, not {value!r}")
    return float(value)


def numbers_of(x: Mapping[str, float]) -> list[float]:
    """The values of `x` as floats, or `ValueError` for the first feature that cannot be used."""
    values = []
    for name, value in x.items():
        if type(name) is not str or not name:
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
