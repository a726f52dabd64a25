"""Every column selector of the registry, in the variants that make its rarer branches run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sluiceway.operators import registry
from sluiceway.operators.contract import ColumnSelector
from sluiceway.operators.kinds.column_selector import COLUMN_SELECTOR

SELECTORS = {name: entry for name, entry in registry.OPERATORS.items() if entry.kind is COLUMN_SELECTOR}
DISCRETE = ("symmetric-uncertainty", "mutual-information")
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "saola": [
        {},
        {"bound": "max", "ties": "strict"},
        *({"measure": measure, "ties": ties} for measure in DISCRETE for ties in ("inclusive", "strict")),
        {"measure": "symmetric-uncertainty", "bound": "max", "delta": 0.05},
    ],
    "saola-order-free": [
        {},
        {"ties": "strict", "significance": 0.2},
        *({"measure": measure, "ties": ties} for measure in DISCRETE for ties in ("inclusive", "strict")),
    ],
    "osfs": [{}, {"test": "g2"}, {"max_subset": 1, "significance": 0.1}],
    "fast-osfs": [{}, {"test": "g2"}, {"max_subset": 1, "significance": 0.1}],
    "alpha-investing": [{}, {"wealth": 0.9, "payout": 0.1}],
    "fcbf": [{}, {"delta": 0.1}],
}
CASES = [(name, variant) for name in SELECTORS for variant in VARIANTS.get(name, [{}])]


def shown(name: str, variant: dict[str, Any]) -> str:
    return "-".join([name, *(f"{key}={value}" for key, value in variant.items())])


def each() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("name", "variant"), [pytest.param(*case, id=shown(*case)) for case in CASES])


def law(number: int) -> pytest.MarkDecorator:
    """Each selector in each variant; a strict xfail where the registry says why the law cannot hold."""
    cases = []
    for name, variant in CASES:
        reason = SELECTORS[name].exceptions.get(number)
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        cases.append(pytest.param(name, variant, marks=marks, id=shown(name, variant)))
    return pytest.mark.parametrize(("name", "variant"), cases)


def make(name: str, variant: dict[str, Any]) -> ColumnSelector:
    made: ColumnSelector = SELECTORS[name].cls(**variant)
    return made


def names_of(model: ColumnSelector) -> list[str]:
    return [feature for feature, _, _ in model.selected]


def alike(one: ColumnSelector, other: ColumnSelector) -> bool:
    """Everything that can be seen of them, bit for bit."""
    return (
        one.state() == other.state()
        and one.selected == other.selected
        and one.version == other.version
        and one.generation == other.generation
        and one.metrics() == other.metrics()
        and one.params == other.params
    )


Oracle = Callable[..., Sequence[int] | set[int]]
