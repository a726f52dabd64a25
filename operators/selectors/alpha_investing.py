"""Alpha-investing: a feature must improve a linear model more than chance, and chance is rationed.

Zhou, Foster, Stine, Ungar: "Streamwise Feature Selection", JMLR 7, 2006, figure 1.

    α_i = w_i / (2 i)
    p = p-value of adding x_i to the linear model (with intercept)
    p < α_i:    add x_i,  w_{i+1} = w_i - α_i + α_Δ
    else:                 w_{i+1} = w_i - α_i

| symbol | here | what |
|---|---|---|
| w | `wealth` | the chance of a false feature that may still be spent; `wealth` at the start |
| α_Δ | `payout` | what a feature that enters earns |
| i | `TESTED` | columns of this generation, this one included |
| Q | `store.floats` of the members | the model's columns, each without what those before it explain, at length 1 |
| e | `store.floats[TARGET]` | the target without what the model explains, at length 1 |

The model is never fitted again. With Q at hand, the new column is made orthogonal to it (twice: once is not enough
for rounding), and its correlation r with e gives the t test of its coefficient: t² = ν r² / (1 - r²), ν = N - |S| -
2. The SAOLA paper does not print its wealth and payout; the defaults are the pair that gives its madelon row. The
intercept is real: columns and target are centred. A column that the model explains already is redundant, and its
verdict names the feature that explains most of it. A feature's weight is |r| when it entered. At `max_features`, a
column that would enter is left out and counted, and earns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.columns.column_set import (
    IRRELEVANT,
    LEFT_OUT,
    MEMBERS,
    REDUNDANT,
    SELECTED,
    ColumnSet,
    Events,
    arrive,
    goes_on,
    hold,
)
from sluiceway.operators.kernels.columns.column_store import CANDIDATE, FIRST_MEMBER, FISHER_Z, TARGET, ColumnStore
from sluiceway.operators.kernels.columns.correlation import dot, rounded
from sluiceway.operators.kernels.numbers.tails import correlation_tail
from sluiceway.operators.parameters import share
from sluiceway.operators.selectors.columns import Block, StoreSelector

WEALTH, TESTED = 0, 1
EXPLAINED = 1e-10
"""Less than this share of a column's (or the target's) variance is rounding."""


@allocating_kernel
def without(x: NDArray[np.float64], q: NDArray[np.float64], strand: NDArray[np.float64]) -> float:
    """x <- x - (q . x) q; q . x."""
    share_of_q = dot(q, x, strand)
    for row in range(len(x)):
        x[row] -= share_of_q * q[row]
    return share_of_q


@allocating_kernel
def at_length_one(x: NDArray[np.float64], strand: NDArray[np.float64]) -> float:
    """The squared length it had."""
    square = dot(x, x, strand)
    if square > 0.0:
        factor = 1.0 / math.sqrt(square)
        for row in range(len(x)):
            x[row] *= factor
    return square


@allocating_kernel
def explain(store: ColumnStore, q: NDArray[np.float64]) -> None:
    """e <- what q leaves of e."""
    e = store.floats[TARGET]
    without(e, q, store.strand)
    if at_length_one(e, store.strand) < EXPLAINED:
        e[:] = 0.0


@allocating_kernel
def learn_columns(
    columns: NDArray[np.float64], keys: NDArray[np.int64], start: int,
    store: ColumnStore, members: ColumnSet, events: Events, ration: NDArray[np.float64], payout: float,
    limit: int, until_change: bool,
) -> int:  # fmt: skip
    for i in range(start, len(columns)):
        if not goes_on(members, events, start, i, until_change):
            return i
        ration[TESTED] += 1
        alpha = ration[WEALTH] / (2 * ration[TESTED])
        ration[WEALTH] -= alpha
        if not arrive(store, members, events, i, columns[i]):
            continue
        x = store.floats[CANDIDATE]
        count = members.counts[MEMBERS]
        largest = 0.0
        for s in range(count):
            share_of_q = without(x, store.floats[members.order[s]], store.strand)
            if abs(share_of_q) > largest:
                largest = abs(share_of_q)
                events.by[i, 0] = members.number[members.order[s]]
        for s in range(count):
            without(x, store.floats[members.order[s]], store.strand)
        if at_length_one(x, store.strand) < EXPLAINED:
            events.outcome[i] = REDUNDANT
            continue
        events.by[i, 0] = 0
        r = rounded(dot(x, store.floats[TARGET], store.strand))
        if not correlation_tail(r * r, store.rows - count - 2) < alpha:
            events.outcome[i] = IRRELEVANT
        elif count >= limit:
            events.outcome[i] = LEFT_OUT
        else:
            events.outcome[i] = SELECTED
            ration[WEALTH] += payout
            hold(store, members, count, r, keys[i])
            explain(store, x)
    return len(columns)


class AlphaInvesting(StoreSelector):
    """Alpha-investing: columns enter a linear model one by one and never leave it.

    >>> model = AlphaInvesting()
    >>> model.begin([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    >>> model.learn_feature("rising", [1.1, 1.9, 3.2, 3.9, 5.1, 5.9]).kept
    True
    >>> model.learn_feature("again", [2.2, 3.8, 6.4, 7.8, 10.2, 11.8])
    Verdict(kept=False, removed=(), reason='redundant', by=('rising',), returned=())
    >>> round(model.metrics()["wealth"], 5)
    0.05625
    """

    NAME: ClassVar[str] = "alpha-investing"
    KERNEL = learn_columns

    wealth: float = share("what there is to spend on tests at first", default=0.05)
    payout: float = share("what a column that enters earns", default=0.05)

    _measure = FISHER_Z

    def _begin(self) -> None:
        super()._begin()
        self._ration = np.array((self.wealth, 0.0))

    def metrics(self) -> dict[str, float]:
        return super().metrics() | {"wealth": float(self._ration[WEALTH])}

    def state(self, *, columns: bool = True) -> dict[str, Any]:
        ration = {"wealth": float(self._ration[WEALTH]), "tested": int(self._ration[TESTED])}
        return super().state(columns=columns) | ration

    def _start(self, target: NDArray[np.float64], targets: int, version: int) -> None:
        super()._start(target, targets, version)
        self._ration[:] = (self.wealth, 0)

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._ration[:] = (state["wealth"], state["tested"])
        for place in range(FIRST_MEMBER, FIRST_MEMBER + len(state["names"])):
            explain(self._store, self._store.floats[place])

    def _learn_columns(self, block: Block, start: int, events: Events, until_change: bool) -> int:
        return learn_columns(
            block.columns, block.keys, start, self._store, self._members, events, self._ration, self.payout,
            self.max_features, until_change,
        )  # fmt: skip
