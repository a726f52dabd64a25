"""Decisions: of one instance, and those of a batch, held as arrays until one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.checks import numbers_of
from sluiceway.operators.contract import Decision
from sluiceway.operators.joint.policy import Policy

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


class Later(NamedTuple):
    """Rows that are no instances but the label of an earlier one, whose features they have. By row of the batch."""

    arrived: NDArray[np.bool_]
    """Whether it is an instance; the rest is of those that are not."""
    said: NDArray[np.int8]
    """The label that was decided when the instance came, if that was with an earlier batch."""
    row: NDArray[np.int64]
    """The instance's row in this batch, or -1."""


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

    def put(self, start: int, policy: Policy, posterior: NDArray[np.float64]) -> None:
        """Rows from `start` were decided by this policy."""
        self._parts.append((start, start + len(posterior), policy, posterior))

    def said(self, later: Later | None, start: int, stop: int) -> NDArray[np.int8]:
        """Of rows [start, stop), the label decided when the instance came; 0: none was."""
        here = self.label[start:stop]
        if later is None:
            return here
        row, said = later.row[start:stop], later.said[start:stop]
        earlier = np.where(row >= 0, self.label[row], said)
        return np.where(later.arrived[start:stop], here, earlier)

    def parts(self) -> Iterator[tuple[int, int, tuple[int, ...], NDArray[np.float64]]]:
        """All rows in order: from where to where, what the columns of the posterior are of (of nothing before there was
        a policy), and the posterior."""
        first = self._parts[0][0] if self._parts else len(self)
        if first:
            yield 0, first, (), np.zeros((first, 0))
        for start, stop, policy, posterior in self._parts:
            yield start, stop, policy.plan.labels, posterior

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
