"""Many models of joint operators go through their rows: each decides, then learns, up to where Python is wanted.

Every model has its rows of a poll one after the other. They are independent of each other's, so each goes as far as it
can by itself: to its last row, to the version at which something is due, or until it needs room.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel, kernel
from sluiceway.operators.kernels.joint.binding import Bound, tells
from sluiceway.operators.kernels.joint.counting import count_pairs_of_row
from sluiceway.operators.kernels.joint.deciding import Outcome, Rows, decide_by_belief, decide_by_odds
from sluiceway.operators.kernels.joint.line import (
    float_table_at,
    float_tables_at,
    floats_at,
    line_at,
    long_table_at,
    long_tables_at,
    longs_at,
    octets_at,
    pair_tables_at,
    stage_tables_at,
)
from sluiceway.operators.kernels.joint.stages import CHUNK, Stages, bin_of
from sluiceway.schemas.swar import pointer_to

DONE, DUE, UNSEATED, NEW_CLASS, NO_ROOM = range(5)
"""Why a model is where it is: at its last row; at a version at which something is due; its policy is not in its line; a
row has a class that it does not know; there is no room for the values of a row that have to wait."""
ARRIVED = 0
"""The kind of a row that is an instance; the others are later labels, of an instance or of nothing."""


class Facts(NamedTuple):
    """By row."""

    y: NDArray[np.int8]
    ts: NDArray[np.int64]
    kind: NDArray[np.int8]
    came: NDArray[np.int64]
    """Of a later label: the row of its instance, or -1 if it came with an earlier poll."""
    said: NDArray[np.int8]
    """Of a later label: what was decided of its instance in an earlier poll."""
    evicted: NDArray[np.int64]


class Decided(NamedTuple):
    """By row; what no policy has decided is left as it is, zeros."""

    label: NDArray[np.int8]
    used: NDArray[np.int64]
    missing: NDArray[np.int64]
    cost: NDArray[np.float64]
    place: NDArray[np.int64]
    """Of the class among those of the policy."""
    posterior: NDArray[np.float64]
    """Room for the most classes of a row, for all rows: those of a model's stretch of rows are one after the other."""
    chances: NDArray[np.float64]
    """[row, class], NaN where the policy does not know the class; empty if nobody asks for them."""
    number: NDArray[np.int64]
    """Which instance of its stream it is; -1 if it is none."""


def new_decided(rows: int, most_classes: int, classes: int = 0) -> Decided:
    """For rows that nothing has decided."""
    used, missing, place, number = (np.zeros(rows, dtype=np.int64) for _ in range(4))
    posterior, chances = np.empty(rows * most_classes), np.full((rows if classes else 0, classes), np.nan)
    return Decided(np.zeros(rows, dtype=np.int8), used, missing, np.zeros(rows), place, posterior, chances, number)


class Reach(NamedTuple):
    """By model: how far it is."""

    at: NDArray[np.int64]
    """The next row to learn."""
    decided: NDArray[np.int64]
    """The next row to decide."""
    stop: NDArray[np.int64]
    """After its last row."""
    why: NDArray[np.int8]


@allocating_kernel
def decide(
    lines: NDArray[np.int64], models: NDArray[np.int64], reach: Reach, bound: Bound, facts: Facts, decided: Decided,
    most_classes: int,
) -> None:  # fmt: skip
    """Of these models, those without decided rows still to learn: up to the row with which something is due."""
    for model in models:
        line, at = line_at(lines[model]), reach.at[model]
        if reach.decided[model] > at:
            continue
        if line.decides and not line.seated:
            reach.why[model] = UNSEATED
            continue
        end, left = at, line.stop_at - line.rows
        while end < reach.stop[model] and left > 0:
            left -= facts.y[end] != 0
            end += 1
        if line.decides:
            _decide_rows(line, bound, at, end, most_classes, decided)
        reach.decided[model] = end


@allocating_kernel
def _decide_rows(line: Any, bound: Bound, start: int, stop: int, most_classes: int, decided: Decided) -> None:
    horizon, known, bins, befores = line.horizon, line.known, line.bins, line.befores
    by_odds = line.by_odds != 0
    of_odds, of_belief = (horizon, 0) if by_odds else (0, horizon)
    by_planes = line.planes_a_stage > 0
    stages = Stages(
        float_table_at(line.stage_cuts_at, horizon, bins - 1), longs_at(line.stage_zero_at, horizon),
        longs_at(line.ancestor_at, horizon), stage_tables_at(line.tables_at, horizon, befores, bins, known),
        floats_at(line.low_at, of_odds), floats_at(line.high_at, of_odds), float_table_at(line.odds_at, of_odds, bins),
        floats_at(line.risk_at, 0 if by_planes else of_belief),
        float_tables_at(line.planes_at, of_belief if by_planes else 0, known, line.planes_a_stage),
        floats_at(line.prior_at, known), float_table_at(line.misclassification_at, known, known), line.zero_one != 0,
    )  # fmt: skip
    rows = Rows(bound.indptr, bound.slots, bound.values, longs_at(line.column_at, horizon), line.absent_is_zero != 0)
    count = stop - start
    posterior = float_table_at(pointer_to(decided.posterior) + 8 * start * most_classes, count, known)
    used, place = decided.used[start:stop], decided.place[start:stop]
    outcome = Outcome(place, used, decided.missing[start:stop], posterior)
    if by_odds:
        decide_by_odds(rows, start, stop, line.prior_odds, stages, outcome)
    else:
        found = np.zeros((count, horizon) if befores > 1 else (0, 0), dtype=np.int8)
        decide_by_belief(rows, start, stop, stages, outcome, found, np.zeros(CHUNK))
    labels, spent = octets_at(line.labels_at, known), floats_at(line.spent_at, horizon + 1)
    for i in range(count):
        decided.label[start + i] = labels[place[i]]
        decided.cost[start + i] = spent[used[i]]
    if len(decided.chances) > 0:
        for c in range(known):
            column = class_place(labels[c], decided.chances.shape[1])
            for i in range(count):
                decided.chances[start + i, column] = posterior[i, c]


@kernel
def class_place(label: int, classes: int) -> int:
    """Of a class among all that there are."""
    return (label + 1) // 2 if classes == 2 else label - 1


@kernel
def learn(
    lines: NDArray[np.int64], models: NDArray[np.int64], reach: Reach, bound: Bound, facts: Facts, decided: Decided
) -> None:
    """Of these models, the rows that have been decided, as many as there is room for."""
    for model in models:
        line = line_at(lines[model])
        if reach.decided[model] > reach.at[model]:
            _learn(line, model, reach, bound, facts, decided)


@kernel
def _learn(line: Any, model: int, reach: Reach, bound: Bound, facts: Facts, decided: Decided) -> None:
    """The rows that it has decided."""
    places, used = octets_at(line.class_at, 256), longs_at(line.used_at, line.horizon + 1)
    many = line.many_classes
    confusion = long_table_at(line.confusion_at, many, many)
    for row in range(reach.at[model], reach.decided[model]):
        y = facts.y[row]
        if y != 0:
            if places[y + 1] < 0:
                reach.at[model], reach.why[model] = row, NEW_CLASS
                return
            if not _has_room(line, bound, row):
                reach.at[model], reach.why[model] = row, NO_ROOM
                return
        arrived = facts.kind[row] == ARRIVED
        said = decided.label[row]
        if not arrived:
            said = decided.label[facts.came[row]] if facts.came[row] >= 0 else facts.said[row]
        decided.number[row] = line.seen if arrived else -1
        line.seen += arrived
        line.evicted += facts.evicted[row]
        line.ts = max(line.ts, facts.ts[row])
        judged = y != 0 and said != 0
        if judged and many > 0:
            confusion[class_place(y, many), class_place(said, many)] += 1
        if line.decides:
            if arrived:
                used[decided.used[row]] += 1
                line.window_rows += 1
                line.window_used += decided.used[row]
                line.window_missing += decided.missing[row]
            line.window_labelled += judged
            line.window_right += judged and y == said
        if y != 0:
            _learn_row(line, bound, row, places[y + 1], y)
    reach.at[model] = reach.decided[model]
    reach.why[model] = DUE if line.rows == line.stop_at else DONE


@kernel
def _has_room(line: Any, bound: Bound, row: int) -> bool:
    """For the values of a row that have to wait."""
    count = bound.indptr[row + 1] - bound.indptr[row]
    if not line.started and line.rows >= line.warm_room:
        return False
    if line.waiting + count <= line.waiting_room:
        return True
    waits = count
    if line.started:
        has_cuts, waits = octets_at(line.has_cuts_at, line.room), 0
        for at in range(bound.indptr[row], bound.indptr[row + 1]):
            waits += not has_cuts[bound.slots[at]]
    return bool(line.waiting + waits <= line.waiting_room)


@kernel
def _learn_row(line: Any, bound: Bound, row: int, place: int, y: int) -> None:
    """A labelled one, of a class that is known."""
    room, classes, bins = line.room, line.classes, line.bins
    absent_is_zero, started = line.absent_is_zero != 0, line.started != 0
    has_cuts, zero = octets_at(line.has_cuts_at, room), longs_at(line.zero_at, room)
    cuts, first = float_table_at(line.cuts_at, room, bins - 1), longs_at(line.first_at, room)
    counts, nulls = long_tables_at(line.counts_at, room, classes, bins), long_table_at(line.nulls_at, room, classes)
    longs_at(line.totals_at, classes)[place] += 1
    if not started:
        octets_at(line.warm_at, line.warm_room)[line.rows] = y
    for at in range(bound.indptr[row], bound.indptr[row + 1]):
        slot, x = bound.slots[at], bound.values[at]
        if not tells(x, absent_is_zero):
            continue
        if started and has_cuts[slot]:
            if math.isnan(x):
                nulls[slot, place] += 1
                continue
            found = bin_of(cuts[slot], x)
            if not absent_is_zero or found != zero[slot]:
                counts[slot, place, found] += 1
            continue
        if first[slot] < 0:
            first[slot] = line.rows if started else 0
        waiting = line.waiting
        longs_at(line.waiting_row_at, line.waiting_room)[waiting] = line.rows
        longs_at(line.waiting_slot_at, line.waiting_room)[waiting] = slot
        floats_at(line.waiting_value_at, line.waiting_room)[waiting] = x
        octets_at(line.waiting_label_at, line.waiting_room)[waiting] = y
        line.waiting = waiting + 1
    line.ignored += bound.ignored[row]
    line.rows += 1
    few = line.candidates
    if few > 0:
        count_pairs_of_row(
            bound.slots, bound.values, bound.indptr[row], bound.indptr[row + 1],
            longs_at(line.candidate_at, line.candidate_slots), float_table_at(line.candidate_cuts_at, few, bins - 1),
            octets_at(line.candidate_absent_at, few), octets_at(line.candidate_absent_at + few, few),
            pair_tables_at(line.pairs_at, classes, few * (few - 1) // 2, bins, bins)[place],
        )  # fmt: skip
