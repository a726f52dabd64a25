"""One row of a poll meets one model of the bank: its features are bound to slots, learnt from, and settled.

Between rows no model is bound to anything, and the scratch arrays are as they were: `origin[slot] == slot`, `local` is
-1. A kernel of a learner changes weights and moves slots as it does for a model of its own (`kernels.sparse.slots`);
`settle` then brings the index, the addresses and the names of the block up to what it did.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.bank import index
from sluiceway.operators.bank.arena import (
    NO_ROOM,
    SMALL,
    Arena,
    block_words,
    give_block,
    index_words,
    room_for,
    take_block,
)
from sluiceway.operators.bank.block import (
    address_of,
    fill_index,
    key_of,
    large_index,
    name_of,
    since_of,
    small_index,
    weight_of,
)
from sluiceway.operators.bank.book import Book, number_of
from sluiceway.operators.kernels.numbers.random import draw
from sluiceway.operators.kernels.prefetch import prefetch
from sluiceway.operators.kernels.sparse.slots import Model, Rows

ARRIVED, LABELLED_LATER, LABEL_OF_NOTHING = 0, 1, 2
"""What a row is: an instance; the later label of an earlier one, with that one's features; a label for none."""
TOUCHED = 1
_SET = np.uint64(0x5E1EC7ED)
_ROWS_AHEAD = 4
LARGE = 1 << 13
"""Indexes longer than this are prefetched."""


class Poll(NamedTuple):
    """The rows of all models, in the order in which they came."""

    text: NDArray[np.uint8]
    first: NDArray[np.int64]
    """Where a row's features begin; rows may share features."""
    stop: NDArray[np.int64]
    # by non-zero
    address: NDArray[np.uint64]
    key: NDArray[np.int64]
    name_at: NDArray[np.int64]
    name_size: NDArray[np.int32]
    values: NDArray[np.float64]
    # by row
    y: NDArray[np.int8]
    ts: NDArray[np.int64]
    model: NDArray[np.int64]
    kind: NDArray[np.int8]
    judged_by: NDArray[np.int64]
    """Of a later label: the row of this poll that has the score to judge; -1: it came with an earlier poll."""
    given_score: NDArray[np.float64]
    evicted: NDArray[np.int64]
    """How many waiting instances the row pushed out."""


class Scratch(NamedTuple):
    """What a row needs while it is learnt from; nothing in it outlives the row but `touched_models`."""

    signal: NDArray[np.int64]
    """[0]: whether a snapshot is due."""
    touched_models: NDArray[np.int64]
    """[0]: how many; then the models that have changed since they were last packed."""
    # by slot
    origin: NDArray[np.int64]
    local: NDArray[np.int32]
    moved: NDArray[np.int64]
    moved_address: NDArray[np.uint64]
    moved_name: NDArray[np.int32]
    # by place in the row
    bound: NDArray[np.int32]
    """The slot that each feature had before the row was learnt from."""
    slot_of: NDArray[np.int32]
    indices: NDArray[np.int32]
    """0, 1, 2, ...: within its row a feature is known by its place."""
    indptr: NDArray[np.int64]
    values: NDArray[np.float64]
    touched: NDArray[np.int32]
    entrant: NDArray[np.float64]
    entrant_name: NDArray[np.int32]
    ordering: NDArray[np.int64]


def new_scratch(slots: int, length: int, models: int) -> Scratch:
    """For rows of this length and models of so many slots."""
    return Scratch(
        signal=np.zeros(1, dtype=np.int64),
        touched_models=np.zeros(models + 1, dtype=np.int64),
        origin=np.arange(slots + 1, dtype=np.int64),
        local=np.full(slots + 1, -1, dtype=np.int32),
        moved=np.zeros(slots + 1, dtype=np.int64),
        moved_address=np.zeros(slots + 1, dtype=np.uint64),
        moved_name=np.zeros(slots + 1, dtype=np.int32),
        bound=np.zeros(length, dtype=np.int32),
        slot_of=np.zeros(length, dtype=np.int32),
        indices=np.arange(length, dtype=np.int32),
        indptr=np.zeros(2, dtype=np.int64),
        values=np.zeros(length),
        touched=np.zeros(length, dtype=np.int32),
        entrant=np.zeros(length),
        entrant_name=np.zeros(length, dtype=np.int32),
        ordering=np.zeros(slots + 1 + 2 * length, dtype=np.int64),
    )


@kernel
def open_row(
    poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, row: int, limit: int, scaled: bool
) -> bool:
    """Make room in the model's block and bind the row's features; False, with nothing changed, if there is no room."""
    if not make_room(poll, arena, heads, scratch, row, limit):
        return False
    at, first, length = poll.model[row], poll.first[row], poll.stop[row] - poll.first[row]
    if scaled:
        unit_row(poll.values, first, length, scratch.values)
    else:
        for i in range(length):
            scratch.values[i] = poll.values[first + i]
    scratch.indptr[1] = length
    block, room = heads[at].block, heads[at].room
    address, weight = address_of(arena, block, room), weight_of(arena, block, room)
    if room <= SMALL:
        _bind(small_index(arena, block, room), address, weight, poll.address, first, length, scratch)
    else:
        _bind(large_index(arena, block, room), address, weight, poll.address, first, length, scratch)
    return True


@kernel
def make_room(poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, row: int, limit: int) -> bool:
    """In the model's block, for what the row can bring; False, with nothing changed, if the arena has none."""
    model, length = poll.model, poll.stop[row] - poll.first[row]
    if row + _ROWS_AHEAD < len(model):
        ahead = heads[model[row + _ROWS_AHEAD]].block
        for line in range(7):
            prefetch(arena.words, ahead + 8 * line)
        if row + 2 * _ROWS_AHEAD < len(model):
            _prefetch_head(heads, model[row + 2 * _ROWS_AHEAD])
    at = model[row]
    active = heads[at].active
    need = max(1, min(limit, active + length) if poll.y[row] != 0 else active)  # slot 0 at least: kernels write it
    if heads[at].room < need and not _move(arena, heads, at, need, limit, len(scratch.origin)):
        return False
    if heads[at].flags & TOUCHED == 0:
        heads[at].flags |= TOUCHED
        scratch.touched_models[0] += 1
        scratch.touched_models[scratch.touched_models[0]] = at
    heads[at].moves = 0
    return True


@kernel
def _prefetch_head(heads: NDArray[Any], model: int) -> None:
    prefetch(heads, model)


@kernel
def _bind(
    index_: NDArray[Any],
    address: NDArray[np.uint64],
    weight: NDArray[np.float64],
    wanted: NDArray[np.uint64],
    first: int,
    length: int,
    scratch: Scratch,
) -> None:
    """The slot of each feature, 0 = none, and the other way round."""
    bound, slot_of, local = scratch.bound, scratch.slot_of, scratch.local
    large = len(index_) > LARGE
    for i in range(length):
        if large:
            prefetch_slot(index_, address, weight, local, wanted, first + i)
        slot = index.slot_at(index_, address, wanted[first + i])
        bound[i] = slot
        slot_of[i] = slot
        local[slot] = i


@kernel
def prefetch_slot(
    index_: NDArray[Any], address: NDArray[np.uint64], weight: NDArray[np.float64], local: NDArray[np.int32],
    wanted: NDArray[np.uint64], at: int,
) -> None:  # fmt: skip
    """Of features that come after the one at that place of the poll."""
    if at + 24 < len(wanted):
        mask = np.uint64(len(index_) - 1)
        prefetch(index_, np.int64(wanted[at + 24] & mask))
        likely = np.int64(index_[wanted[at + 12] & mask])
        prefetch(address, likely)
        prefetch(weight, likely)
        prefetch(local, likely)


@kernel
def model_view(poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, row: int) -> Model:
    """The model of an opened row, as its learner's kernel knows models."""
    at = poll.model[row]
    block, room = heads[at].block, heads[at].room
    first, stop = poll.first[row], poll.stop[row]
    return Model(
        heads[at : at + 1],
        weight_of(arena, block, room),
        key_of(arena, block, room),
        since_of(arena, block, room),
        scratch.origin,
        scratch.local,
        scratch.slot_of[: stop - first],
        poll.key[first:stop],
        scratch.touched,
        scratch.entrant,
        scratch.entrant_name,
        scratch.ordering,
    )


@kernel
def row_view(poll: Poll, scratch: Scratch, row: int) -> Rows:
    return Rows(scratch.indptr, scratch.indices, scratch.values, poll.y[row : row + 1])


@kernel
def _move(
    arena: Arena, heads: NDArray[Any], model: int, need: int, limit: int, room_in_scratch: int
) -> bool:
    """The model into a larger block; False if the arena has none."""
    room, block, active = heads[model].room, heads[model].block, heads[model].active
    larger = room_for(need, limit)
    if larger >= room_in_scratch:
        return False
    to = take_block(arena, larger, limit)
    if to == NO_ROOM:
        return False
    for word in range(block_words(larger)):  # padding too: blocks are compared, and slot 0 is all zeros
        arena.words[to + word] = 0
    if block > 0:
        for part in range(4):
            source = block + index_words(room) + part * (room + 1)
            target = to + index_words(larger) + part * (larger + 1)
            for slot in range(1, active + 1):
                arena.words[target + slot] = arena.words[source + slot]
        before, after = name_of(arena, block, room), name_of(arena, to, larger)
        for slot in range(1, active + 1):
            after[slot] = before[slot]
        give_block(arena, block, room)
    heads[model].block, heads[model].room = to, larger
    fill_index(arena, to, larger, active)
    return True


@kernel
def unit_rows(values: NDArray[np.float64], indptr: NDArray[np.int64], units: NDArray[np.float64]) -> None:
    """Each row of a poll as `unit_row` has it."""
    for row in range(len(indptr) - 1):
        first, stop = indptr[row], indptr[row + 1]
        unit_row(values, first, stop - first, units[first:stop])


@kernel
def unit_row(values: NDArray[np.float64], first: int, length: int, unit: NDArray[np.float64]) -> None:
    """The row at L2 norm 1; a row of zeros stays."""
    squares = 0.0
    for i in range(length):
        squares += values[first + i] * values[first + i]
    if length * 1e-270 < squares < 1e270:
        norm = np.sqrt(squares)
        for i in range(length):
            unit[i] = values[first + i] / norm
    else:
        _extreme_unit_row(values, first, length, unit)


@kernel
def _extreme_unit_row(values: NDArray[np.float64], first: int, length: int, unit: NDArray[np.float64]) -> None:
    """Squares of very large or very small values leave the range of floats: the largest is brought near 1 first."""
    largest = 0.0
    for i in range(length):
        largest = max(largest, abs(values[first + i]))
    if largest == 0.0:
        unit[:length] = 0.0
        return
    shift = 1.0 if 1e-140 < largest < 1e140 else largest
    squares = 0.0
    for i in range(length):
        squares += (values[first + i] / shift) * (values[first + i] / shift)
    norm = np.sqrt(squares)
    for i in range(length):
        unit[i] = (values[first + i] / shift) / norm


@kernel
def all_moved(heads: NDArray[Any], model: int, scratch: Scratch) -> int:
    """Which slots have another name than before the row, by a look at all of them; how many."""
    origin, moved = scratch.origin, scratch.moved
    count = 0
    for slot in range(1, heads[model].active + 1):
        moved[count] = slot
        count += origin[slot] != slot
    return count


@kernel
def settle(
    poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, book: Book, row: int, before: int, count: int
) -> None:
    """After a row that moved `count` slots, told in `scratch.moved`, of a model that had `before` weights."""
    at = poll.model[row]
    block, room, active = heads[at].block, heads[at].room, heads[at].active
    address, name, key = address_of(arena, block, room), name_of(arena, block, room), key_of(arena, block, room)
    first = poll.first[row]
    origin, local, moved = scratch.origin, scratch.local, scratch.moved
    for i in range(count):
        slot = moved[i]
        if local[slot] >= 0:
            place = first + local[slot]
            key[slot] = poll.key[place]
            scratch.moved_address[i] = poll.address[place]
            scratch.moved_name[i] = number_of(
                book, poll.address[place], poll.key[place], poll.text, poll.name_at[place], poll.name_size[place]
            )
        else:
            scratch.moved_address[i] = address[origin[slot]]
            scratch.moved_name[i] = name[origin[slot]]
    change = np.uint64(0)
    for i in range(count):
        if moved[i] <= before:
            change -= draw(_SET, book.entry[name[moved[i]]].key)
        change += draw(_SET, key[moved[i]])
    for slot in range(active + 1, before + 1):
        change -= draw(_SET, book.entry[name[slot]].key)
    heads[at].fingerprint += change
    if room <= SMALL:
        reindex(small_index(arena, block, room), address, name, scratch, before, active, count)
    else:
        reindex(large_index(arena, block, room), address, name, scratch, before, active, count)
    for i in range(count):
        origin[moved[i]] = moved[i]


@kernel
def reindex(
    index_: NDArray[Any],
    address: NDArray[np.uint64],
    name: NDArray[np.int32],
    scratch: Scratch,
    before: int,
    active: int,
    count: int,
) -> None:
    moved = scratch.moved
    for i in range(count):
        if moved[i] <= before:
            index.remove(index_, address, moved[i])
    for slot in range(active + 1, before + 1):
        index.remove(index_, address, slot)
        address[slot] = 0
        name[slot] = 0
    for i in range(count):
        address[moved[i]] = scratch.moved_address[i]
        name[moved[i]] = scratch.moved_name[i]
        index.enter(index_, address, moved[i])


@kernel
def unbind(poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, row: int, before: int) -> None:
    """The scratch arrays as they were before the row was opened."""
    at = poll.model[row]
    length = poll.stop[row] - poll.first[row]
    bound, slot_of, local, origin = scratch.bound, scratch.slot_of, scratch.local, scratch.origin
    active, room = heads[at].active, heads[at].room
    if heads[at].moves == 0:  # each feature stands where it stood
        if active < length:
            for slot in range(active + 1):
                local[slot] = -1
        else:
            for i in range(length):
                local[bound[i]] = -1
        return
    for i in range(length):
        local[bound[i]] = -1
        local[slot_of[i]] = -1
    weight, key, since = (
        weight_of(arena, heads[at].block, room),
        key_of(arena, heads[at].block, room),
        since_of(arena, heads[at].block, room),
    )
    for slot in range(active + 1, min(max(before, active) + length, room) + 1):
        local[slot] = -1
        origin[slot] = slot
        weight[slot], key[slot], since[slot] = 0.0, 0, 0


@kernel
def count_row(
    poll: Poll, heads: NDArray[Any], scores: NDArray[np.float64], row: int, version: int,
    every: int, on_change: bool, min_gap: int,
) -> bool:  # fmt: skip
    """Bookkeeping of a row that has been learnt from; whether a snapshot is due. `version`: before the row."""
    at = poll.model[row]
    y, kind = poll.y[row], poll.kind[row]
    if kind == ARRIVED:
        heads[at].seen += 1
        heads[at].mistakes += y != 0 and y * scores[row] <= 0.0
    else:
        score = scores[poll.judged_by[row]] if poll.judged_by[row] >= 0 else poll.given_score[row]
        heads[at].mistakes += y * score <= 0.0
    heads[at].evicted += poll.evicted[row]
    heads[at].ts = max(heads[at].ts, poll.ts[row])
    if heads[at].version == version:
        return False
    version = heads[at].version
    if every > 0 and version % every == 0:
        return True
    return bool(
        on_change
        and heads[at].fingerprint != heads[at].emitted_fingerprint
        and version - heads[at].emitted >= min_gap
    )


@kernel
def count_back(
    models: NDArray[np.int64], kind: NDArray[np.int8], heads: NDArray[Any], numbers: NDArray[np.int64]
) -> None:
    """By row, how many instances its model had seen before it, now that it has seen them all; -1: a later label."""
    for row in range(len(models) - 1, -1, -1):
        numbers[row] = -1
        if kind[row] == ARRIVED:
            heads[models[row]].seen -= 1
            numbers[row] = heads[models[row]].seen
    for row in range(len(models)):
        heads[models[row]].seen += kind[row] == ARRIVED
