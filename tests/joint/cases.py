"""The joint operators, in the variants that make their rarer branches run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sluiceway.operators.joint.etana import Etana
from sluiceway.operators.joint.f_etana import FEtana

from .streams import Record, batch_of

OPERATORS: dict[str, Any] = {"etana": Etana, "f-etana": FEtana}
SMALL: dict[str, Any] = {"warm_up": 40, "refit_every": 30, "cost": 0.02, "bins": 3}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("etana", {}),
    ("etana", {"absent": "missing", "points": 16, "budget": 2.0, "max_features": 6}),
    ("etana", {"binning": "widths", "cost": {"f0": 0.1, "3": 0.01, "*": 0.03}, "horizon": 4, "seed": 3}),
    ("f-etana", {"binning": {"f0": [0.0], "1": [-0.5, 0.5]}, "explore": 0.2}),
    ("f-etana", {"dependence": "tree", "candidates": 5}),
    ("f-etana", {"dependence": "tree", "absent": "missing", "bins": 2}),
]


def each() -> pytest.MarkDecorator:
    cases = [
        pytest.param(name, variant, id="-".join([name, *(f"{key}={value}" for key, value in variant.items())]))
        for name, variant in VARIANTS
    ]
    return pytest.mark.parametrize(("name", "variant"), cases)


def make(name: str, variant: dict[str, Any]) -> Any:
    return OPERATORS[name](**SMALL | variant)


def same(one: Any, other: Any) -> bool:
    """Everything that can be seen of them, bit for bit."""
    return bool(
        one.state() == other.state()
        and one.selected == other.selected
        and one.version == other.version
        and one.metrics() == other.metrics()
        and one.order == other.order
        and one.wanted_features() == other.wanted_features()
    )


def one_by_one(model: Any, records: Sequence[Record]) -> list[Any]:
    """Each decided before it is learnt, as a mapping."""
    decisions = []
    for record in records:
        decisions.append(model.classify_one(record.x))
        if record.y:
            model.learn_one(record.x, record.y)
        else:
            model.learn_many(batch_of([record]))
    return decisions


