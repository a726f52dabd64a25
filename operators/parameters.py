"""Hyper-parameters, each declared in one place: what it means, what it may be, what it is if nobody says.

    class OFS(LinearLearner):
        k: int = count("how many weights may differ from 0")
        eta: float = positive("step", default=0.2)

The constructor, its checks, `params`, what settings accept and the tables of the pages all follow from these lines.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar, dataclass_transform

import numpy as np

REQUIRED: Any = inspect.Parameter.empty
LAST = ("seed", "max_features")
"""Parameters of the surroundings rather than of the algorithm: told after the others."""


@dataclass(slots=True)
class Parameter:
    """One hyper-parameter, as the body of a class declares it. Of a model it is the value."""

    meaning: str
    values: str
    """What it may be, in words."""
    check: Callable[[str, Any], Any]
    """The value as it is to be kept, or `ValueError` naming the parameter."""
    default: Any
    """`REQUIRED` if there is none; None: it may be left out altogether, and is not among `params` then."""
    name: str = ""
    annotation: str = ""

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def checked(self, value: Any) -> Any:
        return None if value is None and self.default is None else self.check(self.name, value)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.annotation = name, str(owner.__annotations__[name])

    def __get__(self, model: Parameters | None, owner: type) -> Any:
        return self if model is None else model.given[self.name]

    def __set__(self, model: Parameters, value: Any) -> None:
        raise AttributeError(f"{self.name} cannot be changed: make another {type(model).__name__}")


def parameter(meaning: str, values: str, check: Callable[[str, Any], Any], *, default: Any = REQUIRED) -> Any:
    """One of a sort that the functions below have not."""
    return Parameter(meaning, values, check, default)


def count(meaning: str, *, least: int = 1, most: int = 2**31 - 2, default: Any = REQUIRED) -> Any:
    values = f"whole number of at least {least}" + ("" if most >= 2**30 else f" and at most {most}")
    return parameter(meaning, values, lambda name, value: whole_number(name, value, least, most), default=default)


def positive(meaning: str, *, least: float = 0.0, most: float = math.inf, default: Any = REQUIRED) -> Any:
    """Above 0, and from `least` to `most`."""

    values = f"number from {least:g} to {most:g}" if least else f"number above 0 and at most {most:g}"
    if most == math.inf:
        values = "finite number above 0"

    def check(name: str, value: Any) -> float:
        number = finite(value)
        if not (number > 0 and least <= number <= most):
            raise ValueError(f"{name} must be a {values}, not {value!r}")
        return number

    return parameter(meaning, values, check, default=default)


def from_zero(meaning: str, *, default: Any = REQUIRED) -> Any:
    def check(name: str, value: Any) -> float:
        if not (number := finite(value)) >= 0:
            raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
        return number

    return parameter(meaning, "finite number of at least 0", check, default=default)


def share(meaning: str, *, zero: bool = False, default: Any = REQUIRED) -> Any:
    """Between 0 and 1; 0 itself too with `zero`."""

    values = "number of at least 0 and below 1" if zero else "number between 0 and 1"

    def check(name: str, value: Any) -> float:
        number = finite(value)
        if not (0 < number < 1 or (zero and number == 0)):
            raise ValueError(f"{name} must be a {values}, not {value!r}")
        return number

    return parameter(meaning, values, check, default=default)


def choice(meaning: str, *choices: Any, default: Any = REQUIRED) -> Any:
    """One of some texts, or of some numbers (True is not 1)."""

    def check(name: str, value: Any) -> Any:
        if type(value) is not type(choices[0]) or value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}")
        return value

    values = ", ".join(f'"{each}"' if isinstance(each, str) else str(each) for each in choices)
    return parameter(meaning, values, check, default=default)


def flag(meaning: str, *, default: Any = REQUIRED) -> Any:
    def check(name: str, value: Any) -> bool:
        if type(value) is not bool:
            raise ValueError(f"{name} must be true or false, not {value!r}")
        return value

    return parameter(meaning, "true, false", check, default=default)


def random_seed() -> Any:
    meaning = "what random choices follow from, together with the number of the instance"
    return count(meaning, least=0, most=2**63 - 1, default=0)


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """The value as an int, or `ValueError` naming the parameter."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, not {value!r}")
    return int(value)


def finite(value: Any) -> float:
    """The value as a float; NaN, which no comparison holds for, if it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


@dataclass_transform(
    kw_only_default=True, frozen_default=True,
    field_specifiers=(parameter, count, positive, from_zero, share, choice, flag),
)  # fmt: skip
class Parameters:
    """Made from what its class and those above it declare, by keywords."""

    PARAMETERS: ClassVar[Mapping[str, Parameter]] = MappingProxyType({})
    """By name: those that must be given, those of the classes above, its own, the `LAST`."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        declared = {
            name: found
            for each in reversed(cls.__mro__)
            for name, found in vars(each).items()
            if isinstance(found, Parameter)
        }
        rank = {name: LAST.index(name) + 1 if name in LAST else 0 for name in declared}
        order = sorted(declared, key=lambda name: (not declared[name].required, rank[name]))
        cls.PARAMETERS = MappingProxyType({name: declared[name] for name in order})
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what `inspect` and `help` look at first
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.annotation)
                for name, one in cls.PARAMETERS.items()
            ]
        )

    def __init__(self, **given: Any) -> None:
        name = type(self).__name__
        for unknown in given.keys() - self.PARAMETERS.keys():
            raise TypeError(f"{name} has no parameter {unknown!r}: it has {', '.join(self.PARAMETERS)}")
        if missing := [one.name for one in self.PARAMETERS.values() if one.required and one.name not in given]:
            raise TypeError(f"{name} needs {', '.join(missing)}")
        self.given: Mapping[str, Any] = {
            name: one.checked(given.get(name, one.default)) for name, one in self.PARAMETERS.items()
        }
        self._check()
        self._begin()

    def _check(self) -> None:
        """`ValueError` for values that do not go together."""

    def _begin(self) -> None:
        """What the model has before it has learnt anything."""

    @property
    def params(self) -> dict[str, Any]:
        """The hyper-parameters, as given or defaulted: what makes the same operator again."""
        return {name: value for name, value in self.given.items() if value is not None}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"{type(self).__name__}({shown})"


def parameters_of(operator: type[Any]) -> Mapping[str, Parameter]:
    """The hyper-parameters of an operator, by name; of one that does not declare them, what its constructor says."""
    if issubclass(operator, Parameters):
        return operator.PARAMETERS
    return {
        name: Parameter("", "", lambda _, value: value, found.default, name, _type_of(found))
        for name, found in inspect.signature(operator).parameters.items()
    }


def _type_of(parameter: inspect.Parameter) -> str:
    found = parameter.annotation
    return "" if found is parameter.empty else found if isinstance(found, str) else inspect.formatannotation(found)
