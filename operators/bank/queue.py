"""The bucket queue of a model with many weights, in a run of the arena (`head.queue`): it saves time and is no state.

It has room for as many slots as the model's block. A model that moves to a larger block, or is woken up, gets a new
one, which its learner's kernel fills when it is first asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.bank.arena import NO_ROOM, Arena, give_run, take_run
from sluiceway.operators.kernels.sparse.bucket_queue import BucketQueue, buckets_for, places_for


@kernel
def queue_words(room: int) -> int:
    return room + 1 + 2 * buckets_for(room) + 1 + (places_for(room) + 1) // 2


@kernel
def open_queue(arena: Arena, heads: NDArray[Any], queues: NDArray[Any], model: int) -> bool:
    """A queue that fits the model's block; False, with nothing changed, if the arena has no room for it."""
    room, had = heads[model].room, heads[model].queue_room
    if heads[model].queue > 0 and had == room:
        return True
    run = take_run(arena, queue_words(room))
    if run == NO_ROOM:
        return False
    for word in range(run, run + queue_words(room)):
        arena.words[word] = 0
    if heads[model].queue > 0:
        give_run(arena, heads[model].queue, queue_words(had))
    heads[model].queue, heads[model].queue_room = run, room
    queues[model].listed = queues[model].near = queues[model].low = queues[model].buckets = 0
    queues[model].bound = queues[model].base = 0
    queues[model].per = 0.0
    return True


@kernel
def queue_view(
    arena: Arena, heads: NDArray[Any], queues: NDArray[Any], model: int, near: NDArray[np.int32],
    log: NDArray[np.int32],
) -> BucketQueue:  # fmt: skip
    """The queue of a model as its learner's kernel knows it; an empty one if it has none."""
    run, room, buckets, places = heads[model].queue, 0, 0, 0
    if run > 0:
        room = heads[model].queue_room
        buckets, places = buckets_for(room), places_for(room)
    start = run + room + 1
    filled = start + buckets + 1
    slot = 2 * (filled + buckets)
    return BucketQueue(
        queues[model : model + 1],
        arena.words[start : start + buckets + 1],
        arena.words[filled : filled + buckets],
        arena.ints[slot : slot + places],
        arena.words[run : run + room + 1],
        near,
        log,
    )
