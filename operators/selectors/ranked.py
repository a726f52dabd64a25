"""What FCBF and order-free SAOLA share: all relevant columns held in order of rank, selected or not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from sluiceway.operators.kernels import held as holding
from sluiceway.operators.kernels.dominance import learn_columns
from sluiceway.operators.kernels.held import HELD, NOBODY, Events
from sluiceway.operators.kernels.shelf import FIRST_HELD
from sluiceway.operators.selectors.columns import Block, ShelfSelector
from sluiceway.operators.selectors.params import whole_number


class RankedSelector(ShelfSelector):
    """At `max_features` relevant columns held, more are left out and counted."""

    KERNEL = learn_columns

    def __init__(self, *, measure: int, rule: int, max_features: int) -> None:
        super().__init__(measure=measure)
        self._rule = rule
        self._max_features = whole_number("max_features", max_features, least=1, most=2**30)

    @abstractmethod
    def _least(self) -> float:
        """The least relevance that is held at all."""

    def metrics(self) -> dict[str, float]:
        return super().metrics() | {
            "held": int(self._held.counts[HELD]),
            "columns_left_out": int(self._tally[holding.LEFT_OUT]),
        }

    def state(self) -> dict[str, Any]:
        places = self._held.order[: self._held.counts[HELD]]
        rank = np.full(len(self._held.number) + 1, NOBODY)
        rank[places] = np.arange(len(places))
        return super().state() | {"dominator": rank[self._held.dominator[places]].astype("<i8").tobytes()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        dominator = np.frombuffer(state["dominator"], dtype="<i8")
        places = slice(FIRST_HELD, FIRST_HELD + len(dominator))
        self._held.dominator[places] = np.where(dominator == NOBODY, NOBODY, dominator + FIRST_HELD)
        self._held.selected[places] = dominator == NOBODY

    def _learn_columns(self, block: Block, start: int, events: Events) -> int:
        return learn_columns(
            block.columns, block.keys, start, self._shelf, self._held, events,
            self._least(), self._rule, self._max_features,
        )  # fmt: skip

    def _come_again(self, name: str) -> None:
        """A column that is held but not selected makes way for its successor; it dominates nothing."""
        held = self._held
        count = int(held.counts[HELD])
        places = held.order[:count]
        at = int(np.flatnonzero(held.number[places] == self._numbers[name])[0])
        place = int(places[at])
        if held.selected[place]:
            super()._come_again(name)
        held.order[at : count - 1] = held.order[at + 1 : count].copy()
        held.order[count - 1] = place
        held.counts[HELD] -= 1
        del self._names[self._numbers.pop(name)]
