"""A row of a poll meets a dense model of the bank: what surrounds the learner's own kernel.

A dense learner's kernel tells in a log which slots were given another name, so that a row costs its non-zeros and its
changes, however many weights the model has. Weights that the kernel wants by name are those of the row alone: they are
gathered when the row is opened and go back to their slots when it is closed.

What is selected is computed only where a change of it calls for a snapshot. `FRESH` says that the fingerprint in the
head is that of the weights as they are; it is lost when a model is packed, which costs a computation and changes
nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.bank.arena import SMALL, Arena
from sluiceway.operators.bank.block import address_of, key_of, large_index, name_of, small_index, weight_of
from sluiceway.operators.bank.book import Book, number_of
from sluiceway.operators.bank.rows import Poll, Scratch, count_row, reindex, unbind
from sluiceway.operators.kernels.dense.lazy_thresholds import soft
from sluiceway.operators.kernels.dense.selection import fingerprint
from sluiceway.operators.kernels.dense.storage import Dense
from sluiceway.operators.kernels.prefetch import MANY, prefetch

FRESH = 2
"""In `head.flags`: the fingerprint is up to date."""


@kernel
def gather(poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, row: int) -> None:
    """The weights of the row's features by their place in it; without a slot it is 0, as in slot 0."""
    at, slot_of, by_name = poll.model[row], scratch.slot_of, d.by_name
    weight = weight_of(arena, heads[at].block, heads[at].room)
    for i in range(poll.stop[row] - poll.first[row]):
        by_name[i] = weight[slot_of[i]]


@kernel
def scatter(poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, row: int) -> None:
    """The other way round, after the row: to whatever slots its features have then."""
    at, slot_of, by_name = poll.model[row], scratch.slot_of, d.by_name
    weight = weight_of(arena, heads[at].block, heads[at].room)
    for i in range(poll.stop[row] - poll.first[row]):
        weight[slot_of[i]] = by_name[i]
    weight[0] = 0.0  # a weight that has become 0 may have kept its sign


@kernel
def close_row(
    poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, book: Book,
    scores: NDArray[np.float64], row: int, before: int, version: int, every: int, on_change: bool, min_gap: int,
    k: int, keep: float, margin: float,
) -> bool:  # fmt: skip
    """After a row was learnt from: names, index and scratch as they must be, and whether a snapshot is due.

    `before`, `version`: the model's weights and version before the row. A row changes nothing if y f is above `margin`.
    """
    at = poll.model[row]
    if heads[at].logged > 0 or heads[at].active != before:
        _settle(poll, arena, heads, scratch, d, book, row, before)
    unbind(poll, arena, heads, scratch, row, before)
    if heads[at].version != version:
        if poll.y[row] * scores[row] <= margin:
            heads[at].flags &= ~FRESH
        version_now = heads[at].version
        if on_change and heads[at].flags & FRESH == 0:
            interval = every > 0 and version_now % every == 0
            if interval or version_now - heads[at].emitted >= min_gap:
                know_selected(arena, heads, at, d.current, scratch.ordering, k, keep)
    return count_row(poll, heads, scores, row, version, every, on_change, min_gap)


@kernel
def _settle(
    poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, book: Book, row: int, before: int
) -> None:
    """Addresses, names, keys and index of the slots in the log, which stands in `scratch.moved`."""
    at = poll.model[row]
    block, room, active = heads[at].block, heads[at].room, heads[at].active
    address, name, key = address_of(arena, block, room), name_of(arena, block, room), key_of(arena, block, room)
    first = poll.first[row]
    origin, local, moved, in_log = scratch.origin, scratch.local, scratch.moved, d.in_log
    moved_address, moved_name = scratch.moved_address, scratch.moved_name
    count = 0
    for i in range(heads[at].logged):
        slot = moved[i]
        in_log[slot] = False
        moved[count] = slot
        count += slot <= active
    heads[at].logged = 0
    if len(book.table) > MANY:
        _prefetch_names(poll, scratch, book, first, count)
    for i in range(count):
        slot = moved[i]
        if local[slot] >= 0:
            place = first + local[slot]
            key[slot] = poll.key[place]
            moved_address[i] = poll.address[place]
            moved_name[i] = number_of(
                book, poll.address[place], poll.key[place], poll.text, poll.name_at[place], poll.name_size[place]
            )
        else:
            moved_address[i] = address[origin[slot]]
            moved_name[i] = name[origin[slot]]
    if room <= SMALL:
        reindex(small_index(arena, block, room), address, name, scratch, before, active, count)
    else:
        reindex(large_index(arena, block, room), address, name, scratch, before, active, count)
    for i in range(count):
        origin[moved[i]] = moved[i]


@kernel
def _prefetch_names(poll: Poll, scratch: Scratch, book: Book, first: int, count: int) -> None:
    """Of the slots that have moved: each look into a large book would wait for main memory three times."""
    local, moved, address, table, entry = scratch.local, scratch.moved, poll.address, book.table, book.entry
    mask = np.uint64(len(table) - 1)
    for i in range(count):
        if local[moved[i]] >= 0:
            prefetch(table, np.int64(address[first + local[moved[i]]] & mask))
    for i in range(count):
        if local[moved[i]] >= 0:
            prefetch(entry, np.int64(table[address[first + local[moved[i]]] & mask]) - 1)


@kernel
def present_weights(arena: Arena, heads: NDArray[Any], model: int, current: NDArray[np.float64]) -> None:
    """The weights themselves, by slot.

    One rule for all: the scale is 1 where nothing is scaled, and the sum of thresholds 0 where there are none.
    """
    weight = weight_of(arena, heads[model].block, heads[model].room)
    scale, shrunk = heads[model].scale, heads[model].shrunk
    for slot in range(1, heads[model].active + 1):
        current[slot] = soft(scale * weight[slot], shrunk)


@kernel
def know_selected(
    arena: Arena, heads: NDArray[Any], model: int, current: NDArray[np.float64], ordering: NDArray[np.int64],
    k: int, keep: float,
) -> None:  # fmt: skip
    """Bring the fingerprint of what is selected up to date."""
    present_weights(arena, heads, model, current)
    key = key_of(arena, heads[model].block, heads[model].room)
    heads[model].fingerprint = fingerprint(current, key, heads[model].active, k, keep, ordering)
    heads[model].flags |= FRESH
