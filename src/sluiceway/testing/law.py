"""What laws of all kinds are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sluiceway.schemas.state import pack, unpack

Make = Callable[[], Any]
"""A new operator, always with the same hyper-parameters."""

LAWS = {
    1: "batching changes nothing",
    2: "restoring changes nothing",
    3: "names carry meaning, not order",
    4: "what is selected is in order and within its bounds",
    5: "zero is the same as absent",
    6: "bad values are refused before anything changes",
    7: "inputs are never changed, and nothing is random but by the seed",
}


class LawBroken(AssertionError):
    """An operator does not obey a law."""


@dataclass(frozen=True, slots=True)
class Check:
    """One way to try a law."""

    number: int
    run: Callable[[Make], None]
    excusable: bool = False
    """Whether an operator that cannot obey the law is sure to be caught by this very check."""

    def __str__(self) -> str:
        return f"{self.number} ({LAWS[self.number]})"


def expect(holds: bool, otherwise: str) -> None:
    """An assertion that also holds under `python -O`."""
    if not holds:
        raise AssertionError(otherwise)


def seen(model: Any) -> dict[str, Any]:
    """Everything that can be seen of an operator."""
    return {
        "state()": model.state(),
        "selected": model.selected,
        "version": model.version,
        "metrics()": model.metrics(),
        "params": model.params,
    }


def expect_same(one: Any, other: Any, when: str) -> None:
    """Bit for bit."""
    mine, others = seen(one), seen(other)
    for what in mine:
        expect(mine[what] == others[what], f"{what} differs {when}")


def restored(model: Any) -> Any:
    """By its state, as a flow stores it."""
    state = model.state()
    expect_builtins(state, "state()")
    return type(model).from_state(unpack(pack(state)))


def expect_builtins(value: Any, where: str) -> None:
    plain = type(value) in (dict, list, str, int, float, bool, bytes) or value is None
    expect(plain, f"{where} holds {type(value).__name__}: only builtins and bytes can be stored")
    for key, part in value.items() if type(value) is dict else enumerate(value) if type(value) is list else ():
        expect_builtins(part, f"{where}[{key!r}]")


def expect_refused(attempt: Callable[[], Any], model: Any, what: str) -> None:
    """By a `ValueError`, and nothing has changed."""
    before = model.state()
    try:
        attempt()
    except ValueError:
        expect(model.state() == before, f"{what} is refused, but has changed the state")
        return
    raise AssertionError(f"{what} is not refused by a ValueError")


def expect_state_is_its_own(make: Make, model: Any) -> None:
    """Another operator's state, or one of another version, is refused; parameters make the same operator again."""
    state = model.state()
    for member in ("operator", "state_version", "params"):
        expect(member in state, f"state() has no member {member!r}")
    again = type(model)(**model.params)
    expect(again.params == model.params, "params do not make the same operator again")
    fresh = make()
    for change in ({"operator": "somebody else's"}, {"state_version": -1}):
        other = {**state, **change}
        expect_refused(partial(type(model).from_state, other), fresh, f"a state with {change}")
    kept = pack(state)
    model.metrics()
    expect(pack(state) == kept, "the state shares something with the model")
