"""Models side by side again, in an arena of their own, once what others gave up takes too much room between them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.bank.arena import Arena, block_words, new_arena, take_block, take_run, words_in_use
from sluiceway.operators.bank.queue import queue_words
from sluiceway.operators.bank.seen import NO_FEATURES, seen_words


def gathered(arena: Arena, heads: NDArray[Any], limit: int, features: int, room: int) -> Arena:
    """An arena with the blocks and runs of these models and nothing else; `room`: words that it has at least."""
    to = new_arena(max(room, words_in_use(arena) + 1))
    move(arena, to, heads, limit, features)
    return to


@kernel
def move(arena: Arena, to: Arena, heads: NDArray[Any], limit: int, features: int) -> None:
    for model in range(len(heads)):
        if heads[model].block > 0:
            block = take_block(to, heads[model].room, limit)
            _copy(arena, heads[model].block, to, block, block_words(heads[model].room))
            heads[model].block = block
        if heads[model].snapshot_size > 0:
            words = (heads[model].snapshot_size + 1) // 2
            run = take_run(to, words)
            _copy(arena, heads[model].snapshot, to, run, words)
            heads[model].snapshot = run
        if features != NO_FEATURES and heads[model].extra > 0:
            words = seen_words(heads[model].extra_room, features)
            run = take_run(to, words)
            _copy(arena, heads[model].extra, to, run, words)
            heads[model].extra = run
        if heads[model].queue > 0:
            words = queue_words(heads[model].queue_room)
            run = take_run(to, words)
            _copy(arena, heads[model].queue, to, run, words)
            heads[model].queue = run


@kernel
def _copy(arena: Arena, start: int, to: Arena, at: int, words: int) -> None:
    for word in range(words):
        to.words[at + word] = arena.words[start + word]
