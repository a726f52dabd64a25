"""Which columns of a store are kept, and what happened to each column of a block: what every column selector keeps.

A column is known by its number: how many columns had been seen when it came, itself included. Numbers never come
twice, so events can name columns whose place has been given to another since.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.operators.kernels.columns.column_store import CANDIDATE, FIRST_MEMBER, ColumnStore, move, put

MEMBERS, VERSION, TARGET_VARIES = 0, 1, 2
SELECTED, IRRELEVANT, CONSTANT, ONE_CLASS, REDUNDANT, LEFT_OUT = 0, 1, 2, 3, 4, 5
REMOVED, RETURNED = 0, 1
NOBODY = -1


class ColumnSet(NamedTuple):
    counts: NDArray[np.int64]
    """[MEMBERS], [VERSION], [TARGET_VARIES]: columns kept, columns seen, and 0 for a target of a single class."""
    order: NDArray[np.int64]
    """The places in use, in the selector's order; after them the free ones."""
    # by place
    relevance: NDArray[np.float64]
    number: NDArray[np.int64]
    since: NDArray[np.int64]
    key: NDArray[np.int64]
    selected: NDArray[np.bool_]
    found: NDArray[np.float64]
    """Scratch: what dependences are at most, in the order of `order`."""
    dominator: NDArray[np.int64]
    """The place of the column that keeps this one out of the selection; NOBODY if selected."""


class Events(NamedTuple):
    """By column of the block: `outcome`, and the numbers of the columns that made it redundant (0 = none)."""

    outcome: NDArray[np.int8]
    by: NDArray[np.int64]
    # by event: a column that leaves the selection or returns to it
    noted: NDArray[np.int64]
    at: NDArray[np.int64]
    """The column of the block that caused it."""
    kind: NDArray[np.int8]
    number: NDArray[np.int64]
    because: NDArray[np.int64]


def empty_set(places: int) -> ColumnSet:
    return ColumnSet(
        counts=np.zeros(3, dtype=np.int64),
        order=np.arange(FIRST_MEMBER, places),
        relevance=np.zeros(places),
        number=np.zeros(places, dtype=np.int64),
        since=np.zeros(places, dtype=np.int64),
        key=np.zeros(places, dtype=np.int64),
        selected=np.zeros(places, dtype=np.bool_),
        found=np.zeros(places),
        dominator=np.full(places, NOBODY, dtype=np.int64),
    )


def set_with_places(members: ColumnSet, places: int) -> ColumnSet:
    more = places - len(members.number)
    grown = {}
    for field in ("relevance", "number", "since", "key", "selected", "found", "dominator"):
        array = getattr(members, field)
        grown[field] = np.concatenate((array, np.zeros(more, dtype=array.dtype)))
    return members._replace(order=np.concatenate((members.order, np.arange(places - more, places))), **grown)


def empty_events(columns: int, room: int, width: int) -> Events:
    return Events(
        outcome=np.zeros(columns, dtype=np.int8),
        by=np.zeros((columns, width), dtype=np.int64),
        noted=np.zeros(1, dtype=np.int64),
        at=np.zeros(room, dtype=np.int64),
        kind=np.zeros(room, dtype=np.int8),
        number=np.zeros(room, dtype=np.int64),
        because=np.zeros((room, width), dtype=np.int64),
    )


@allocating_kernel
def goes_on(members: ColumnSet, events: Events, start: int, i: int, until_change: bool) -> bool:
    """Whether column `i` is still for this call: no change to stop at before it, and room whatever it does."""
    if until_change and i > start and (events.outcome[i - 1] == SELECTED or events.noted[0] > 0):
        return False
    count = members.counts[MEMBERS]
    return bool(count < len(members.order) and events.noted[0] + count < len(events.at))


@allocating_kernel
def arrive(store: ColumnStore, members: ColumnSet, events: Events, i: int, x: NDArray[np.float64]) -> bool:
    """The block's column `i` has come; whether it can be relevant at all."""
    members.counts[VERSION] += 1
    if members.counts[TARGET_VARIES] == 0:
        events.outcome[i] = ONE_CLASS
        return False
    if not put(store, CANDIDATE, x):
        events.outcome[i] = CONSTANT
        return False
    return True


@allocating_kernel
def hold(store: ColumnStore, members: ColumnSet, at: int, relevance: float, key: int) -> int:
    """The candidate gets a place, the `at`-th in order."""
    count = members.counts[MEMBERS]
    place: int = members.order[count]
    for s in range(count, at, -1):
        members.order[s] = members.order[s - 1]
    members.order[at] = place
    members.counts[MEMBERS] += 1
    move(store, CANDIDATE, place)
    members.relevance[place] = relevance
    members.number[place] = members.counts[VERSION]
    members.since[place] = members.counts[VERSION]
    members.key[place] = key
    members.selected[place] = True
    members.dominator[place] = NOBODY
    return place


@allocating_kernel
def note(members: ColumnSet, events: Events, i: int, kind: int, place: int, by: int) -> None:
    """The column at `place` leaves the selection because of column number `by`, or returns to it."""
    event = events.noted[0]
    events.at[event] = i
    events.kind[event] = kind
    events.number[event] = members.number[place]
    events.because[event] = 0
    events.because[event, 0] = by
    events.noted[0] += 1
    members.selected[place] = kind == RETURNED


@allocating_kernel
def close_up(members: ColumnSet) -> None:
    """Give up the places of the columns that are no longer selected; the others keep their order."""
    count = members.counts[MEMBERS]
    kept = 0
    for s in range(count):
        place = members.order[s]
        if members.selected[place]:
            members.order[s] = members.order[kept]
            members.order[kept] = place
            kept += 1
    members.counts[MEMBERS] = kept


@allocating_kernel
def leave_out(members: ColumnSet, events: Events, i: int, place: int) -> None:
    """The candidate was given a place, but there are too many."""
    events.outcome[i] = LEFT_OUT
    members.selected[place] = False
    close_up(members)


@allocating_kernel
def note_subset(
    members: ColumnSet, events: Events, i: int, kind: int, place: int, subset: NDArray[np.int64], size: int
) -> None:
    """As `note`, because of the columns at the places `subset[:size]` together."""
    event = events.noted[0]
    note(members, events, i, kind, place, 0)
    for k in range(size):
        events.because[event, k] = members.number[subset[k]]
