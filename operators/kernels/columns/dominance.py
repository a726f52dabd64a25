"""The kernel of a dominance relation, kept up to date as columns come: the greedy answer in order of relevance.

Columns are ranked by relevance, then by the smaller feature key. A column is selected unless a selected one of
higher rank dominates it. Since only higher ranks dominate, there is exactly one such selection, whatever the order of
arrival. All relevant columns are kept: a dominated one returns when its dominators go.

`members.order` is the ranking; `members.dominator` is the highest-ranked selected column that dominates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.columns.column_set import (
    IRRELEVANT,
    LEFT_OUT,
    MEMBERS,
    NOBODY,
    REDUNDANT,
    REMOVED,
    RETURNED,
    SELECTED,
    VERSION,
    ColumnSet,
    Events,
    arrive,
    goes_on,
    hold,
    note,
)
from sluiceway.operators.kernels.columns.column_store import CANDIDATE, TARGET, ColumnStore, dependence, equivalent

ABOVE, ABOVE_STRICT, AT_LEAST = 0, 1, 2
"""dep(Y, F) > dep(F, C); the same, and dep(Y, C) > dep(F, C) without ties; dep(Y, F) >= dep(F, C)."""


@allocating_kernel
def dominates(store: ColumnStore, members: ColumnSet, y: int, f: int, rule: int) -> bool:
    """Whether Y, of higher rank, makes F redundant."""
    dep_F = members.relevance[f]
    if rule == ABOVE_STRICT and members.relevance[y] == dep_F:
        return False
    v = dependence(store, y, f)
    return v > dep_F or (v == dep_F and rule == AT_LEAST) or (rule == ABOVE and equivalent(store, y, f, v))


@allocating_kernel
def ranks_above(members: ColumnSet, y: int, f: int) -> bool:
    if members.relevance[y] != members.relevance[f]:
        return bool(members.relevance[y] > members.relevance[f])
    return bool(members.key[y] < members.key[f])


@allocating_kernel
def learn_columns(
    columns: NDArray[np.float64], keys: NDArray[np.int64], start: int,
    store: ColumnStore, members: ColumnSet, events: Events, least: float, rule: int, limit: int,
    until_change: bool,
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
        if members.counts[MEMBERS] >= limit:
            events.outcome[i] = LEFT_OUT
            continue
        members.relevance[CANDIDATE] = dep_F
        members.key[CANDIDATE] = keys[i]
        rank = 0
        while rank < members.counts[MEMBERS] and ranks_above(members, members.order[rank], CANDIDATE):
            rank += 1
        f = hold(store, members, rank, dep_F, keys[i])
        for s in range(rank):
            y = members.order[s]
            if members.selected[y] and dominates(store, members, y, f, rule):
                members.selected[f] = False
                members.dominator[f] = y
                break
        if members.selected[f]:
            events.outcome[i] = SELECTED
            settle_below(store, members, events, i, rank, rule)
        else:
            events.outcome[i] = REDUNDANT
            events.by[i, 0] = members.number[members.dominator[f]]
    return len(columns)


@allocating_kernel
def settle_below(store: ColumnStore, members: ColumnSet, events: Events, i: int, rank: int, rule: int) -> None:
    """The column at `rank` has been selected: those of lower rank, from the highest down."""
    f = members.order[rank]
    for s in range(rank + 1, members.counts[MEMBERS]):
        g = members.order[s]
        before = members.dominator[g]
        if before != NOBODY and ranks_above(members, before, f):
            continue
        found = f if dominates(store, members, f, g, rule) else _dominator_between(store, members, rank, s, rule)
        members.dominator[g] = found
        if found == NOBODY and before != NOBODY:
            note(members, events, i, RETURNED, g, 0)
            members.since[g] = members.counts[VERSION]
        elif found != NOBODY and before == NOBODY:
            note(members, events, i, REMOVED, g, members.number[found])


@allocating_kernel
def _dominator_between(store: ColumnStore, members: ColumnSet, rank: int, below: int, rule: int) -> int:
    """The first selected column between two ranks that dominates the lower; what is known is not computed again."""
    g = members.order[below]
    before = members.dominator[g]
    stands = before != NOBODY and members.selected[before]
    for s in range(rank + 1, below):
        y: int = members.order[s]
        if not members.selected[y]:
            continue
        if stands and y == before:
            return y
        has_returned = members.since[y] == members.counts[VERSION]
        unknown = has_returned or (before != NOBODY and not stands)
        if unknown and dominates(store, members, y, g, rule):
            return y
    return NOBODY
