"""Fast-OSFS: OSFS that tests the new feature first, and the others only given subsets with the new one.

Wu, Yu, Ding, Wang, Zhu: "Online Feature Selection with Streaming Features", IEEE TPAMI 35(5), 2013 (Fast-OSFS).

    F and C independent:                                             discard F
    F and C independent given some Z ⊆ S, |Z| <= k:                  discard F
    for each Y in S, in order of arrival:
        Y and C independent given some Z ⊆ S + F - Y, F in Z, |Z| <= k:      S <- S - Y
    S <- S + F

| symbol | here | what |
|---|---|---|
| C, F, Y | `TARGET`, `CANDIDATE`, `y` | target, new feature, a candidate |
| S | `members` | the candidate features, the paper's BCF |
| k | `max_subset` | how many features are conditioned on at most |

The subsets Z are tried from small to large, in order of arrival; the first one found is what made a feature redundant.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.columns.column_set import (
    IRRELEVANT,
    MEMBERS,
    NOBODY,
    REDUNDANT,
    REMOVED,
    SELECTED,
    ColumnSet,
    Events,
    arrive,
    close_up,
    goes_on,
    hold,
    leave_out,
    note_subset,
)
from sluiceway.operators.kernels.columns.column_store import CANDIDATE, TARGET, ColumnStore, dependence
from sluiceway.operators.kernels.columns.independence import Tests, correlate, independent, rename, separating
from sluiceway.operators.selectors.columns import Block
from sluiceway.operators.selectors.conditional import ConditionalSelector


@allocating_kernel
def learn_columns(
    columns: NDArray[np.float64], keys: NDArray[np.int64], start: int,
    store: ColumnStore, members: ColumnSet, events: Events, tests: Tests, limit: int, until_change: bool,
) -> int:  # fmt: skip
    for i in range(start, len(columns)):
        if not goes_on(members, events, start, i, until_change):
            return i
        if not arrive(store, members, events, i, columns[i]):
            continue
        correlate(store, tests, CANDIDATE, members.order, 0)
        if independent(store, tests, CANDIDATE, 0):
            events.outcome[i] = IRRELEVANT
            continue
        count = members.counts[MEMBERS]
        correlate(store, tests, CANDIDATE, members.order, count)
        tests.pool[:count] = members.order[:count]
        size = separating(store, tests, CANDIDATE, count, NOBODY)
        if size > 0:
            events.outcome[i] = REDUNDANT
            for k in range(size):
                events.by[i, k] = members.number[tests.subset[k]]
            continue
        events.outcome[i] = SELECTED
        place = hold(store, members, count, dependence(store, CANDIDATE, TARGET), keys[i])
        rename(tests, place, members.order, count)
        removed = 0
        for s in range(count):
            y = members.order[s]
            others = 0
            for t in range(count):
                if t != s and members.selected[members.order[t]]:
                    tests.pool[others] = members.order[t]
                    others += 1
            size = separating(store, tests, y, others, place)
            if size > 0:
                note_subset(members, events, i, REMOVED, y, tests.subset, size)
                removed += 1
        if removed:
            close_up(members)
        elif count >= limit:
            leave_out(members, events, i, place)
    return len(columns)


class FastOSFS(ConditionalSelector):
    """Fast-OSFS: a new feature must matter given subsets of the candidates, and they given subsets with it.

    >>> model = FastOSFS(test="g2")
    >>> model.begin([1, 1, 1, 1, 0, 0, 0, 0] * 8)
    >>> model.learn_feature("clean", [1, 1, 1, 1, 0, 0, 0, 0] * 8).kept
    True
    >>> model.learn_feature("noisy", [1, 1, 1, 0, 0, 0, 0, 1] * 8)
    Verdict(kept=False, removed=(), reason='redundant', by=('clean',), returned=())
    """

    NAME: ClassVar[str] = "fast-osfs"
    KERNEL = learn_columns

    def _learn_columns(self, block: Block, start: int, events: Events, until_change: bool) -> int:
        return learn_columns(
            block.columns, block.keys, start, self._store, self._members, events, self._tests, self.max_features,
            until_change,
        )  # fmt: skip
