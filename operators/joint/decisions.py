"""Decisions: of one instance, and those of a batch, held as arrays until one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.checks import numbers_of
from sluiceway.operators.contract import Decision
from sluiceway.operators.joint.policy import Policy
from sluiceway.operators.kernels.joint.advancing import Decided

NO_DECISION = Decision(0, (), (), 0.0)
Fetch = Callable[[str], float | None]


def decide_one(policy: Policy, fetch: Fetch) -> Decision:
    """One instance, whose features are fetched one after the other, and none after the decision."""
    row, plan, asked = policy.one_row(), policy.plan, 0
    for k, name in enumerate(plan.names):
        if row.enough(k):
            break
        asked += 1
        value = fetch(name)
        if value is None:
            row.take_in(k, -1)
        else:
            row.take_in(k, int(np.searchsorted(plan.cuts[k], numbers_of({name: value})[0])))
    place, posterior = row.decision()
    return Decision(plan.labels[place], tuple(posterior.tolist()), plan.names[:asked], float(policy.spent[asked]))


class Decisions(Sequence[Decision]):
    """One a row; rows before the first policy have none: label 0, and nothing looked at."""

    def __init__(self, rows: int) -> None:
        self.label: NDArray[np.int8] = np.zeros(rows, dtype=np.int8)
        self.used: NDArray[np.int64] = np.zeros(rows, dtype=np.int64)
        """How many features were looked at."""
        self.missing: NDArray[np.int64] = np.zeros(rows, dtype=np.int64)
        """How many of these had no value."""
        self.cost: NDArray[np.float64] = np.zeros(rows)
        self._parts: list[tuple[int, int, Policy, NDArray[np.float64]]] = []

    def take_in(self, start: int, policy: Policy, decided: Decided) -> None:
        """Rows from `start` were decided by this policy."""
        rows, classes = len(decided.label), len(policy.plan.labels)
        here = slice(start, start + rows)
        self.label[here], self.used[here] = decided.label, decided.used
        self.missing[here], self.cost[here] = decided.missing, decided.cost
        self._parts.append((start, start + rows, policy, decided.posterior.reshape(rows, classes)))

    def __len__(self) -> int:
        return len(self.label)

    @overload
    def __getitem__(self, row: int) -> Decision: ...
    @overload
    def __getitem__(self, row: slice) -> list[Decision]: ...
    def __getitem__(self, row: int | slice) -> Decision | list[Decision]:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        row %= len(self)
        for start, stop, policy, posterior in self._parts:
            if start <= row < stop:
                names = policy.plan.names[: int(self.used[row])]
                chances = tuple(posterior[row - start].tolist())
                return Decision(int(self.label[row]), chances, names, float(self.cost[row]))
        return NO_DECISION
