"""A model as bytes, and back: its numbers, its weights and its names. Nothing in it depends on the process.

    mask                which of the kept fields of the head are not 0, a bit each
    fields              those, eight bytes each
    weight, since       of each slot
    names               of the slots, of the last snapshot, and (learners that know their features by name) of the
                        features: sizes, four bytes each, then letters
    keys                of the features (learners that only count them)

Everything begins at a multiple of eight bytes; what is between is 0. Addresses, keys of named features and the index
are made again from the names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.bank.arena import NO_ROOM, Arena, give_block, give_run, room_for, take_block, take_run
from sluiceway.operators.bank.block import address_of, fill_index, key_of, name_of, since_of, weight_of
from sluiceway.operators.bank.book import Book, enter, number_or_place
from sluiceway.operators.bank.queue import queue_words
from sluiceway.operators.bank.rows import TOUCHED
from sluiceway.operators.bank.seen import KEYS, NAMES, NO_FEATURES, room_for_seen, seen_words, table_of_seen
from sluiceway.operators.kernels.head import HEAD
from sluiceway.operators.kernels.sparse.features_seen import refill
from sluiceway.schemas.feature_key import key_of_name
from sluiceway.schemas.name_hash import address_of_name
from sluiceway.schemas.swar import load_word, pointer_to, store_word

_TRANSIENT = {
    "moves", "logged", "all_moved", "open", "block", "room", "extra", "extra_room", "snapshot", "flags",
    "queue", "queue_room",
}  # fmt: skip
KEPT = np.array([at for at, name in enumerate(HEAD.names or ()) if name not in _TRANSIENT], dtype=np.int64)
"""Places of the fields that are state: every field is one word."""
FIELDS = len(HEAD.names or ())
_ACTIVE, _SNAPSHOT_SIZE, _FEATURES = (
    list(HEAD.names or ()).index(name) for name in ("active", "snapshot_size", "features")
)


@kernel
def pack(
    models: NDArray[np.int64],
    start: int,
    heads: NDArray[Any],
    fields: NDArray[np.int64],
    arena: Arena,
    book: Book,
    features: int,
    out: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> int:
    """Models from `start` on into `out`, whose words `ends[i]` says where the i-th ends; the first without room."""
    for i in range(start, len(models)):
        end = _pack(models[i], ends[i - 1] if i > 0 else 0, heads, fields, arena, book, features, out)
        if end < 0:
            return i
        ends[i] = end
        heads[models[i]].flags &= ~TOUCHED
    return len(models)


@kernel
def _pack(
    model: int, at: int, heads: NDArray[Any], fields: NDArray[np.int64], arena: Arena, book: Book, features: int,
    out: NDArray[np.int64],
) -> int:  # fmt: skip
    active, count, emitted = heads[model].active, heads[model].features, heads[model].snapshot_size
    if at + 1 + len(KEPT) + 3 * active + count + emitted + 8 > len(out):
        return NO_ROOM
    mask = np.int64(0)
    start = at
    at += 1
    for bit in range(len(KEPT)):
        value = fields[model * FIELDS + KEPT[bit]]
        if value != 0:
            mask |= np.int64(1) << np.int64(bit)
            out[at] = value
            at += 1
    out[start] = mask
    block, room = heads[model].block, heads[model].room
    if active > 0:
        weight, since = weight_of(arena, block, room).view(np.int64), since_of(arena, block, room)
        for slot in range(1, active + 1):
            out[at] = weight[slot]
            out[at + active] = since[slot]
            at += 1
        at = _put_names(name_of(arena, block, room)[1:], active, book, out, at + active)
    run = heads[model].snapshot
    if at >= 0:
        at = _put_names(arena.ints[2 * run :], emitted, book, out, at)
    run, had = heads[model].extra, heads[model].extra_room
    if at >= 0 and features == KEYS:
        if at + count > len(out):
            return NO_ROOM
        for i in range(count):
            out[at + i] = arena.words[run + i]
        at += count
    elif at >= 0 and features == NAMES:
        at = _put_names(arena.ints[2 * (run + had) :], count, book, out, at)
    return at


@kernel
def _put_names(numbers: NDArray[np.int32], count: int, book: Book, out: NDArray[np.int64], at: int) -> int:
    """Sizes and letters of these names; where they end, NO_ROOM if there is none."""
    if count == 0:
        return at
    if at + (count + 1) // 2 > len(out):
        return NO_ROOM
    out[at + (count + 1) // 2 - 1] = 0
    sizes, octets, letters = out.view(np.int32), out.view(np.uint8), book.letters
    to = 8 * (at + (count + 1) // 2)
    for i in range(count):
        size, source = book.entry[numbers[i]].size, book.entry[numbers[i]].at
        sizes[2 * at + i] = size
        if to + size + 8 > len(octets):
            return NO_ROOM
        spelt, written = pointer_to(letters) + source, pointer_to(octets) + to
        for c in range(0, size, 8):  # up to seven bytes too many, which the next name or the end writes over
            store_word(written + c, load_word(spelt + c))
        to += size
    while to % 8 != 0:
        octets[to] = 0
        to += 1
    return to // 8


@kernel
def wake(
    models: NDArray[np.int64],
    start: int,
    packed: NDArray[np.int64],
    ends: NDArray[np.int64],
    heads: NDArray[Any],
    fields: NDArray[np.int64],
    arena: Arena,
    book: Book,
    limit: int,
    features: int,
    secret_1: np.uint64,
    secret_2: np.uint64,
) -> int:
    """Packed models into blocks, from `start` on; the first for which the arena has no room.

    The book has room for all their names.
    """
    for i in range(start, len(models)):
        begin = ends[i - 1] if i > 0 else 0
        if not _wake(
            models[i], begin, ends[i], packed, heads, fields, arena, book, limit, features, secret_1, secret_2
        ):
            free_model(arena, heads, models[i], features)
            return i
    return len(models)


@kernel
def _wake(
    model: int, at: int, end: int, packed: NDArray[np.int64], heads: NDArray[Any], fields: NDArray[np.int64],
    arena: Arena, book: Book, limit: int, features: int, secret_1: np.uint64, secret_2: np.uint64,
) -> bool:  # fmt: skip
    for field in range(FIELDS):
        fields[model * FIELDS + field] = 0
    mask = packed[at]
    at += 1
    for bit in range(len(KEPT)):
        if mask >> np.int64(bit) & 1:
            fields[model * FIELDS + KEPT[bit]] = packed[at]
            at += 1
    active, emitted, count = heads[model].active, heads[model].snapshot_size, heads[model].features
    if active > 0:
        room = room_for(active, limit)
        block = take_block(arena, room, limit)
        if block == NO_ROOM:
            return False
        heads[model].block, heads[model].room = block, room
        weight, since = weight_of(arena, block, room), since_of(arena, block, room)
        address, key, name = address_of(arena, block, room), key_of(arena, block, room), name_of(arena, block, room)
        address[0], weight[0], since[0], key[0], name[0] = 0, 0.0, 0, 0, 0
        weights = packed.view(np.float64)
        for slot in range(1, active + 1):
            weight[slot] = weights[at]
            since[slot] = packed[at + active]
            at += 1
        at = _get_names(packed, at + active, active, book, secret_1, secret_2, name[1:])
        for slot in range(1, active + 1):
            address[slot] = book.entry[name[slot]].address
            key[slot] = book.entry[name[slot]].key
        fill_index(arena, block, room, active)
    if emitted > 0:
        run = take_run(arena, (emitted + 1) // 2)
        if run == NO_ROOM:
            return False
        heads[model].snapshot = run
        at = _get_names(packed, at, emitted, book, secret_1, secret_2, arena.ints[2 * run :])
    if features != NO_FEATURES and count > 0:
        heads[model].features = 0
        if not room_for_seen(arena, heads, model, count, features):
            return False
        heads[model].features = count
        run, had = heads[model].extra, heads[model].extra_room
        if features == KEYS:
            for i in range(count):
                arena.words[run + i] = packed[at + i]
        else:
            numbers = arena.ints[2 * (run + had) :]
            at = _get_names(packed, at, count, book, secret_1, secret_2, numbers)
            for i in range(count):
                arena.words[run + i] = book.entry[numbers[i]].key
        refill(arena.words[run : run + had], count, table_of_seen(arena, run, had, features))
    return True


@kernel
def first_damaged(packed: NDArray[np.int64], ends: NDArray[np.int64], limit: int, features: int) -> int:
    """Which of these is no packed model, the i-th ending at `ends[i]`; -1: none. Nothing else may be woken.

    A word beyond the last is readable.
    """
    begin = np.int64(0)
    for i in range(len(ends)):
        if not _is_whole(packed[begin : ends[i] + 1], limit, features):
            return i
        begin = ends[i]
    return -1


@kernel
def _is_whole(packed: NDArray[np.int64], limit: int, features: int) -> bool:
    """Whether these words, all but the last, are one packed model."""
    end = len(packed) - 1
    if end < 1:
        return False
    mask, at = packed[0], 1
    active = emitted = count = 0
    for bit in range(64):
        if mask >> np.int64(bit) & 1:
            if bit >= len(KEPT) or at >= end:
                return False
            if KEPT[bit] == _ACTIVE:
                active = int(packed[at])
            elif KEPT[bit] == _SNAPSHOT_SIZE:
                emitted = int(packed[at])
            elif KEPT[bit] == _FEATURES:
                count = int(packed[at])
            at += 1
    if active < 0 or active > limit or emitted < 0 or emitted > 2 * end or count < 0 or count > 2 * end:
        return False
    if active > 0:
        at = _names_end(packed, at + 2 * active, active, end)
    if at >= 0 and emitted > 0:
        at = _names_end(packed, at, emitted, end)
    if at >= 0 and features == KEYS:
        at += count
    elif at >= 0 and features == NAMES and count > 0:
        at = _names_end(packed, at, count, end)
    return bool(at == end)


@kernel
def _names_end(packed: NDArray[np.int64], at: int, count: int, end: int) -> int:
    """Where names end that `_put_names` has put there; -1 if they do not fit."""
    letters = at + (count + 1) // 2
    if letters > end:
        return -1
    sizes = packed.view(np.int32)
    total = 0
    for i in range(count):
        size = int(sizes[2 * at + i])
        if size < 1:
            return -1
        total += size
    letters += (total + 7) // 8
    return letters if letters <= end else -1


@kernel
def _get_names(
    packed: NDArray[np.int64], at: int, count: int, book: Book, secret_1: np.uint64, secret_2: np.uint64,
    numbers: NDArray[np.int32],
) -> int:
    """Names as `_put_names` has put them, entered into the book; where they end."""
    sizes, text = packed.view(np.int32), packed.view(np.uint8)
    place = 8 * (at + (count + 1) // 2)
    for i in range(count):
        size = int(sizes[2 * at + i])
        letters = pointer_to(text) + place
        address = address_of_name(letters, size, secret_1, secret_2)
        number = number_or_place(book, address, text, place, size)
        if number < 0:  # only now is its key worth going through its letters for
            number = enter(book, ~number, address, key_of_name(letters, size), text, place, size)
        numbers[i] = number
        place += size
    return (place + 7) // 8


@kernel
def free_model(arena: Arena, heads: NDArray[Any], model: int, features: int) -> None:
    """Its blocks and runs can be used again."""
    if heads[model].block > 0:
        give_block(arena, heads[model].block, heads[model].room)
    if heads[model].snapshot > 0:
        give_run(arena, heads[model].snapshot, (heads[model].snapshot_size + 1) // 2)
    if features != NO_FEATURES and heads[model].extra > 0:
        give_run(arena, heads[model].extra, seen_words(heads[model].extra_room, features))
    if heads[model].queue > 0:
        give_run(arena, heads[model].queue, queue_words(heads[model].queue_room))
    heads[model].block = heads[model].snapshot = heads[model].snapshot_size = heads[model].active = 0
    heads[model].extra = heads[model].extra_room = heads[model].features = heads[model].queue = 0
