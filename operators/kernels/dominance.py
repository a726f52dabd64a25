"""The kernel of a dominance relation, kept up to date as columns come: the greedy answer in order of relevance.

Columns are ranked by relevance, then by the smaller feature key. A column is selected unless a selected one of
higher rank dominates it. Since only higher ranks dominate, there is exactly one such selection, whatever the order of
arrival. All relevant columns are held: a dominated one returns when its dominators go.

`held.order` is the ranking; `held.dominator` is the highest-ranked selected column that dominates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.held import (
    HELD,
    IRRELEVANT,
    LEFT_OUT,
    NOBODY,
    REDUNDANT,
    REMOVED,
    RETURNED,
    SELECTED,
    VERSION,
    Events,
    Held,
    arrive,
    goes_on,
    hold,
    note,
)
from sluiceway.operators.kernels.shelf import CANDIDATE, TARGET, Shelf, dependence, equivalent

ABOVE, ABOVE_STRICT, AT_LEAST = 0, 1, 2
"""dep(Y, F) > dep(F, C); the same, and dep(Y, C) > dep(F, C) without ties; dep(Y, F) >= dep(F, C)."""


@kernel
def dominates(shelf: Shelf, held: Held, y: int, f: int, rule: int) -> bool:
    """Whether Y, of higher rank, makes F redundant."""
    dep_F = held.relevance[f]
    if rule == ABOVE_STRICT and held.relevance[y] == dep_F:
        return False
    v = dependence(shelf, y, f)
    return v > dep_F or (v == dep_F and rule == AT_LEAST) or (rule == ABOVE and equivalent(shelf, y, f, v))


@kernel
def ranks_above(held: Held, y: int, f: int) -> bool:
    if held.relevance[y] != held.relevance[f]:
        return bool(held.relevance[y] > held.relevance[f])
    return bool(held.key[y] < held.key[f])


@kernel
def learn_columns(
    columns: NDArray[np.float64], keys: NDArray[np.int64], start: int,
    shelf: Shelf, held: Held, events: Events, least: float, rule: int, limit: int,
    until_change: bool,
) -> int:  # fmt: skip
    for i in range(start, len(columns)):
        if not goes_on(held, events, start, i, until_change):
            return i
        if not arrive(shelf, held, events, i, columns[i]):
            continue
        dep_F = dependence(shelf, CANDIDATE, TARGET)
        if dep_F < least:
            events.outcome[i] = IRRELEVANT
            continue
        if held.counts[HELD] >= limit:
            events.outcome[i] = LEFT_OUT
            continue
        held.relevance[CANDIDATE] = dep_F
        held.key[CANDIDATE] = keys[i]
        rank = 0
        while rank < held.counts[HELD] and ranks_above(held, held.order[rank], CANDIDATE):
            rank += 1
        f = hold(shelf, held, rank, dep_F, keys[i])
        for s in range(rank):
            y = held.order[s]
            if held.selected[y] and dominates(shelf, held, y, f, rule):
                held.selected[f] = False
                held.dominator[f] = y
                break
        if held.selected[f]:
            events.outcome[i] = SELECTED
            settle_below(shelf, held, events, i, rank, rule)
        else:
            events.outcome[i] = REDUNDANT
            events.by[i, 0] = held.number[held.dominator[f]]
    return len(columns)


@kernel
def settle_below(shelf: Shelf, held: Held, events: Events, i: int, rank: int, rule: int) -> None:
    """The column at `rank` has been selected: those of lower rank, from the highest down."""
    f = held.order[rank]
    for s in range(rank + 1, held.counts[HELD]):
        g = held.order[s]
        before = held.dominator[g]
        if before != NOBODY and ranks_above(held, before, f):
            continue
        found = f if dominates(shelf, held, f, g, rule) else _dominator_between(shelf, held, rank, s, rule)
        held.dominator[g] = found
        if found == NOBODY and before != NOBODY:
            note(held, events, i, RETURNED, g, 0)
            held.since[g] = held.counts[VERSION]
        elif found != NOBODY and before == NOBODY:
            note(held, events, i, REMOVED, g, held.number[found])


@kernel
def _dominator_between(shelf: Shelf, held: Held, rank: int, below: int, rule: int) -> int:
    """The first selected column between two ranks that dominates the lower; what is known is not computed again."""
    g = held.order[below]
    before = held.dominator[g]
    stands = before != NOBODY and held.selected[before]
    for s in range(rank + 1, below):
        y: int = held.order[s]
        if not held.selected[y]:
            continue
        if stands and y == before:
            return y
        has_returned = held.since[y] == held.counts[VERSION]
        unknown = has_returned or (before != NOBODY and not stands)
        if unknown and dominates(shelf, held, y, g, rule):
            return y
    return NOBODY
