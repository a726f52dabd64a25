"""What FCBF and order-free SAOLA share: all relevant columns held in order of rank, selected or not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from sluiceway.operators.kernels.columns.column_set import MEMBERS, NOBODY, Events
from sluiceway.operators.kernels.columns.column_store import FIRST_MEMBER
from sluiceway.operators.kernels.columns.dominance import learn_columns
from sluiceway.operators.selectors.columns import Block, StoreSelector


class RankedSelector(StoreSelector):
    """At `max_features` relevant columns held, more are left out and counted."""

    KERNEL = learn_columns
    HOLDS_REDUNDANT = True

    @property
    @abstractmethod
    def _rule(self) -> int:
        """When one column makes another redundant, as the kernel has it."""

    @abstractmethod
    def _least(self) -> float:
        """The least relevance that is held at all."""

    def metrics(self) -> dict[str, float]:
        return super().metrics() | {"held": int(self._members.counts[MEMBERS])}

    def state(self, *, columns: bool = True) -> dict[str, Any]:
        places = self._members.order[: self._members.counts[MEMBERS]]
        rank = np.full(len(self._members.number) + 1, NOBODY)
        rank[places] = np.arange(len(places))
        dominator = rank[self._members.dominator[places]].astype("<i8").tobytes()
        return super().state(columns=columns) | {"dominator": dominator}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        dominator = np.frombuffer(state["dominator"], dtype="<i8")
        places = slice(FIRST_MEMBER, FIRST_MEMBER + len(dominator))
        self._members.dominator[places] = np.where(dominator == NOBODY, NOBODY, dominator + FIRST_MEMBER)
        self._members.selected[places] = dominator == NOBODY

    def _learn_columns(self, block: Block, start: int, events: Events, until_change: bool) -> int:
        return learn_columns(
            block.columns, block.keys, start, self._store, self._members, events,
            self._least(), self._rule, self.max_features, until_change,
        )  # fmt: skip

    def _is_selected(self, name: str) -> bool:
        return bool(self._members.selected[self._members.order[self._rank(name)]])

    def _make_way(self, name: str) -> None:
        """A column that is held but not selected makes way for its successor; it dominates nothing."""
        members, count, at = self._members, int(self._members.counts[MEMBERS]), self._rank(name)
        place = int(members.order[at])
        members.order[at : count - 1] = members.order[at + 1 : count].copy()
        members.order[count - 1] = place
        members.counts[MEMBERS] -= 1
        self._forget(self._numbers[name])

    def _rank(self, name: str) -> int:
        places = self._members.order[: self._members.counts[MEMBERS]]
        return int(np.flatnonzero(self._members.number[places] == self._numbers[name])[0])
