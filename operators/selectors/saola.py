"""SAOLA: online feature selection by comparing pairs of features.

Yu, Wu, Ding, Pei: "Towards Scalable and Accurate Online Feature Selection for Big Data", ICDM 2014, algorithm 1.

    dep(F, C) not significant:                           discard F
    for each Y in S, in order of arrival:
        dep(Y, C) >= dep(F, C) and dep(F, Y) > δ₂:       discard F, stop
        dep(F, C) >  dep(Y, C) and dep(F, Y) > δ₂:       S <- S - Y
    S <- S + F

| symbol | here | what |
|---|---|---|
| C, F, Y | `TARGET`, `CANDIDATE`, `y` | target, new feature, a selected feature |
| S | `members` | the selected features |
| dep, I(.;.) | `dependence` | Pearson's r without its sign (Fisher-Z), symmetric uncertainty, mutual information |
| δ₁ | `delta` | what the relevance must lie above; with Fisher-Z, √(N-3) atanh r must be significant instead |
| δ₂ | `bound` | the smaller of dep(F, C) and dep(Y, C), or the larger (SAOLA-max) |

The text has mutual information for discrete data, the paper's figures were made with symmetric uncertainty. One pass: a
Y that is removed stays removed even if F itself is discarded later. Any dep(F, Y) above δ₂ is significant, since both
relevances are. `ties = "strict"` has > where the rule has >=, as the published figures for discrete data do: then every
copy of a column is kept. With "inclusive", two columns that determine each other are redundant even where nothing can
lie above δ₂ (both equal the target).

With Fisher-Z, most pairs are settled by an estimate of dep(F, Y) that says how large it is at most; what that leaves
open is decided by the sum of fixed order, so that no estimate ever decides. At `max_features` selected columns, one
more is left out and counted.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

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
from sluiceway.operators.kernels.columns.column_store import (
    CANDIDATE,
    TARGET,
    ColumnStore,
    at_most,
    dependence,
    equivalent,
    estimate,
)
from sluiceway.operators.kernels.columns.pairwise import DISCARD_F, REMOVE_Y, compare
from sluiceway.operators.selectors.columns import Block, StoreSelector
from sluiceway.operators.selectors.significance import Relevance, bound_of_dependence


@allocating_kernel
def learn_columns(
    columns: NDArray[np.float64], keys: NDArray[np.int64], start: int,
    store: ColumnStore, members: ColumnSet, events: Events, least: float, largest: bool, strict: bool,
    limit: int, until_change: bool,
) -> int:  # fmt: skip
    for i in range(start, len(columns)):
        if not goes_on(members, events, start, i, until_change):
            return i
        if not arrive(store, members, events, i, columns[i]):
            continue
        dep_F = dependence(store, CANDIDATE, TARGET)
        if dep_F < least:
            events.outcome[i] = IRRELEVANT
            continue
        events.outcome[i] = SELECTED
        estimate(store, CANDIDATE)
        removed = 0
        ready = 0
        for s in range(members.counts[MEMBERS]):
            y = members.order[s]
            dep_Y = members.relevance[y]
            if s == ready:
                ready = at_most(store, members.order, s, members.counts[MEMBERS], members.found)
            if members.found[s] < (max(dep_F, dep_Y) if largest else min(dep_F, dep_Y)):
                continue
            v = dependence(store, CANDIDATE, y)
            same = equivalent(store, CANDIDATE, y, v)
            found = compare(dep_F, dep_Y, v, same, largest, strict)
            if found == DISCARD_F:
                events.outcome[i] = REDUNDANT
                events.by[i, 0] = members.number[y]
                break
            if found == REMOVE_Y:
                note(members, events, i, REMOVED, y, members.counts[VERSION])
                removed += 1
        if removed:
            close_up(members)
        if events.outcome[i] == SELECTED and members.counts[MEMBERS] >= limit:
            events.outcome[i] = LEFT_OUT
        if events.outcome[i] == SELECTED:
            hold(store, members, members.counts[MEMBERS], dep_F, keys[i])
    return len(columns)


class Saola(Relevance, StoreSelector):
    """SAOLA: keeps a feature that no selected one makes redundant, and drops those it makes redundant.

    >>> model = Saola(measure="symmetric-uncertainty")
    >>> model.begin([1, 1, 1, 1, -1, -1, -1, -1])
    >>> model.learn_feature("noisy", [1, 1, 1, 1, 1, 1, 0, 0])
    Verdict(kept=True, removed=(), reason='selected', by=(), returned=())
    >>> model.learn_feature("clean", [1, 1, 1, 1, 1, 0, 0, 0]).removed
    (Removed(feature='noisy', by=('clean',)),)
    >>> model.learn_feature("copy", [7, 7, 7, 7, 7, 2, 2, 2]).by
    ('clean',)
    >>> [(feature, round(weight, 3), since) for feature, weight, since in model.selected]
    [('clean', 0.562, 2)]
    """

    NAME: ClassVar[str] = "saola"
    KERNEL = learn_columns

    bound: str = bound_of_dependence()

    def _learn_columns(self, block: Block, start: int, events: Events, until_change: bool) -> int:
        least = self._least_relevance(self.rows)
        return learn_columns(
            block.columns, block.keys, start, self._store, self._members, events,
            least, self.bound == "max", self.ties == "strict", self.max_features, until_change,
        )  # fmt: skip
