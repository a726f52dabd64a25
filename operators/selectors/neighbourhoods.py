"""What OFS-A3M and OFS-Density share: columns judged by how pure the neighbourhoods of rows are with them.

    γ(S) = the mean over rows of the share of its neighbours under S that have the row's label
    each column F with γ(F) >= the mean γ of the single columns of S:
        γ(S + F) > γ(S):                    S <- S + F
        γ(S + F) as good as γ(S):           S <- S + F without what the others make superfluous, tried in random order
        else                                F is rejected
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.columns.column_set import (
    IRRELEVANT,
    LEFT_OUT,
    MEMBERS,
    REDUNDANT,
    REMOVED,
    SELECTED,
    VERSION,
    ColumnSet,
    Events,
    arrive,
    close_up,
    goes_on,
    hold,
    note,
)
from sluiceway.operators.kernels.columns.column_store import CANDIDATE, FISHER_Z, ColumnStore
from sluiceway.operators.kernels.columns.neighbourhood import GAP, Neighbours, add_column, neighbours_of, purity
from sluiceway.operators.kernels.numbers.random import draw, stream_of
from sluiceway.operators.parameters import count
from sluiceway.operators.selectors.columns import Block, StoreSelector

PURITY, THRESHOLD = 0, 1
"""Of the selected columns together, and what a column needs alone."""
NEAR = 0.05
"""OFS-Density: a purity that differs by no more than this share is as good."""
LEAST_ROWS = 3
PURPOSE = 3


@allocating_kernel
def together(
    store: ColumnStore, n: Neighbours, order: NDArray[np.int64], count: int, there: NDArray[np.bool_], candidate: bool
) -> float:
    """γ of the members that are there, summed in their order, and the candidate."""
    n.trial[:] = 0.0
    for s in range(count):
        if there[s]:
            add_column(n.trial, store.floats[order[s]])
    if candidate:
        add_column(n.trial, store.floats[CANDIDATE])
    return purity(n, n.trial)


@allocating_kernel
def learn_columns(
    columns: NDArray[np.float64], keys: NDArray[np.int64], start: int,
    store: ColumnStore, members: ColumnSet, events: Events, n: Neighbours, found: NDArray[np.float64],
    seed: int, limit: int, until_change: bool,
) -> int:  # fmt: skip
    for i in range(start, len(columns)):
        if not goes_on(members, events, start, i, until_change):
            return i
        if not arrive(store, members, events, i, columns[i]):
            continue
        count = members.counts[MEMBERS]
        x = store.floats[CANDIDATE]
        events.outcome[i] = IRRELEVANT
        if len(x) < LEAST_ROWS:
            continue
        n.trial[:] = 0.0
        add_column(n.trial, x)
        alone = purity(n, n.trial)
        if alone < found[THRESHOLD] or alone == 0.0:
            continue
        n.trial[:] = n.squares
        add_column(n.trial, x)
        with_it = purity(n, n.trial)
        there = np.ones(count, dtype=np.bool_)
        better = with_it > found[PURITY]
        if not better:
            near = with_it == found[PURITY]
            if n.rule != GAP:
                near = abs(with_it - found[PURITY]) <= NEAR * found[PURITY]
            if not near:
                events.outcome[i] = REDUNDANT
                continue
        now, undone = with_it, False
        if not better:
            turn, stream = np.arange(count), stream_of(seed, members.counts[VERSION], PURPOSE)
            for last in range(count - 1, 0, -1):
                other = np.int64(draw(stream, last) % np.uint64(last + 1))
                turn[last], turn[other] = turn[other], turn[last]
            for s in turn:
                there[s] = False
                without = together(store, n, members.order, count, there, True)
                superfluous = without == now if n.rule == GAP else now <= without
                if superfluous:
                    now = without
                else:
                    there[s] = True
            if n.rule != GAP and now < found[PURITY]:
                there[:] = True
                undone = True
        kept = 1
        for s in range(count):
            kept += there[s]
        if kept > limit:
            events.outcome[i] = LEFT_OUT
            continue
        for s in range(count):
            if not there[s]:
                note(members, events, i, REMOVED, members.order[s], members.counts[VERSION])
        events.outcome[i] = SELECTED
        close_up(members)
        hold(store, members, members.counts[MEMBERS], alone, keys[i])
        if kept == count + 1:
            add_column(n.squares, store.floats[members.order[count]])
        else:
            measure(store, members, n)
        if not undone:
            found[PURITY] = now
            mean = 0.0
            for s in range(kept):
                mean += members.relevance[members.order[s]]
            found[THRESHOLD] = mean / kept
    return len(columns)


@allocating_kernel
def measure(store: ColumnStore, members: ColumnSet, n: Neighbours) -> None:
    """The distances under the members, from the start."""
    n.squares[:] = 0.0
    for s in range(members.counts[MEMBERS]):
        add_column(n.squares, store.floats[members.order[s]])


class NeighbourhoodSelector(StoreSelector):
    """An algorithm adds its name and its rule."""

    RULE: ClassVar[int]
    KERNEL = learn_columns

    seed: int = count("what the order of removals follows from", least=0, default=0)
    max_rows: int = count(
        "a target of more rows is refused: memory is O(rows²)", least=LEAST_ROWS, most=20_000, default=1000
    )

    _measure = FISHER_Z

    def _begin(self) -> None:
        super()._begin()
        self._found = np.zeros(2)
        self._neighbours = neighbours_of(self.RULE, np.zeros(0))

    @property
    def needs_numbers(self) -> bool:
        return False

    def begin(self, target: ArrayLike) -> None:
        rows = len(np.atleast_1d(np.asarray(target)))
        if rows > self.max_rows:
            raise ValueError(f"the target has {rows} rows: more than max_rows = {self.max_rows}, memory is O(rows²)")
        super().begin(target)

    def metrics(self) -> dict[str, float]:
        return super().metrics() | {"purity": float(self._found[PURITY])}

    def state(self, *, columns: bool = True) -> dict[str, Any]:
        return super().state(columns=columns) | {"found": self._found.tolist()}

    def _start(self, target: NDArray[np.float64], targets: int, version: int) -> None:
        super()._start(target, targets, version)
        self._neighbours = neighbours_of(self.RULE, target.copy())
        self._found[:] = 0.0

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._found[:] = state["found"]
        measure(self._store, self._members, self._neighbours)

    def _learn_columns(self, block: Block, start: int, events: Events, until_change: bool) -> int:
        return learn_columns(
            block.columns, block.keys, start, self._store, self._members, events, self._neighbours, self._found,
            self.seed, self.max_features, until_change,
        )  # fmt: skip
