"""The laws that are shipped: all of ours obey them, and operators that break one are caught by that one."""

from __future__ import annotations

import doctest
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sluiceway.testing
from sluiceway.operators import registry
from sluiceway.operators.learners.ofs import OFS
from sluiceway.operators.selectors.saola import Saola
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.testing import LawBroken, check_operator, laws


def of_all() -> Iterator[Any]:
    for name in registry.OPERATORS:
        params = {"k": 3} if registry.needs(name, "k") else {}
        for law in laws(name, **params):
            yield pytest.param(law, id=f"{name}-{law}")


@pytest.mark.parametrize("law", [*of_all()])
def test_every_operator_obeys(law: Any) -> None:
    law()


class FollowsBatches(OFS):
    def prequential(self, batch: InstanceBatch) -> NDArray[np.float64]:
        if len(batch) > 50:
            self.given = {**self.given, "eta": 0.5 * self.eta}
        return super().prequential(batch)


class ForgetsPart(OFS):
    def state(self) -> dict[str, Any]:
        state = super().state()
        return {**state, "since": bytes(len(state["since"]))}


class KeepsAnArray(OFS):
    def state(self) -> dict[str, Any]:
        return {**super().state(), "array": np.zeros(3)}


class SelectsTooMuch(OFS):
    @property
    def selected(self) -> Any:
        found = super().selected
        return found + found[:1]


class TakesAnything(OFS):
    def learn_one(self, x: Mapping[str, float], y: Any) -> None:
        super().learn_one({name: value for name, value in x.items() if value == value}, y)


class Drawn(OFS):
    def prequential(self, batch: InstanceBatch) -> NDArray[np.float64]:
        return super().prequential(batch) + (np.random.random() if len(batch) > 250 else 0.0)


class ChangesInput(OFS):
    def prequential(self, batch: InstanceBatch) -> NDArray[np.float64]:
        scores = super().prequential(batch)
        if batch.values.flags.writeable:
            batch.values[:] = 0.0
        return scores


def entry_of(cls: type[Any]) -> registry.Entry:
    return replace(registry.OPERATORS["ofs" if issubclass(cls, OFS) else "saola"], cls=cls)


@pytest.mark.parametrize(
    ("cls", "number"),
    [
        (FollowsBatches, 1),
        (ForgetsPart, 2),
        (KeepsAnArray, 2),
        (SelectsTooMuch, 4),
        (TakesAnything, 6),
        (Drawn, 7),
        (ChangesInput, 7),
    ],
)
def test_a_broken_law_is_named(cls: type[Any], number: int) -> None:
    broken = set()
    for law in laws(entry_of(cls), k=3):
        try:
            law()
        except LawBroken as problem:
            broken.add((law.check.number, str(problem).startswith(f"{cls.__name__} breaks law {law.check.number} (")))
    assert (number, True) in broken
    with pytest.raises(LawBroken):
        check_operator(entry_of(cls), k=3)


class FollowsColumns(Saola):
    def learn_features(self, names: Any, columns: Any) -> Any:
        verdicts = super().learn_features(names, columns)
        return verdicts[::-1] if len(names) > 20 else verdicts


def test_column_selectors_are_caught_too() -> None:
    with pytest.raises(LawBroken, match="law 1"):
        check_operator(entry_of(FollowsColumns))


def test_an_excuse_must_be_true() -> None:
    excused = replace(registry.OPERATORS["ofs"], exceptions={3: "it says so"})
    with pytest.raises(LawBroken, match=r"said to break law 3 .*, because it says so; but it does not"):
        check_operator(excused, k=3)


def test_the_examples_hold() -> None:
    assert doctest.testmod(sluiceway.testing).failed == 0
