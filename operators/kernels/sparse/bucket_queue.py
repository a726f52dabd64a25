"""A bucket queue of the smallest weights: the k largest are kept, row after row, without visiting all of them.

The queue lists every slot whose |w| is below a bound, about a quarter of all slots, in buckets from small to large.
The weights that must go are found in the first buckets and among the entrants, in about as many steps as there are
entrants. When the queue runs out, it is filled again from all slots; by then so many weights have gone that this
costs about four visits for each. Where weights are so uneven that most would share one bucket, fewer slots are listed:
√(k n) for n weights that must go in a row. Bound and buckets come from a sample of the slots; they decide how long
things take and nothing else. Buckets are even in the logarithm of |w|, since weights that shrink at every step spread
over many orders of magnitude.

A slot whose weight falls changes its bucket at once. One whose weight grows is found in its old bucket later, and moved
then. One factor for all weights changes no order. Sizes are the bits of |w|, which are ordered as the numbers are.

Slots that were given another name are logged, so that Python need not search all slots for them. Passing a whole model
to a function that is not inlined costs a tenth of a microsecond, so loops over slots and entrants call none.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.numbers.order_statistics import nth_smallest
from sluiceway.operators.kernels.numbers.sorting import sort_numbers
from sluiceway.operators.kernels.prefetch import MANY, prefetch
from sluiceway.operators.kernels.sparse.slots import Model, Rows

Numbers = NDArray[Any]

QUEUE_HEAD = np.dtype(
    [
        ("listed", np.int64),  # how many slots were listed when the queue was last filled
        ("seated", np.int64),  # how many entrants the last `admit` gave a slot
        ("near", np.int64),  # how many slots are in `near`
        ("low", np.int64),  # buckets below this one are empty
        ("buckets", np.int64),  # how many there are
        ("bound", np.int64),  # every slot with a smaller size is listed
        ("base", np.int64),  # the size at which the first bucket begins
        ("per", np.float64),  # buckets to a size of 1
    ]
)

_NO_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_LEAST = 256
"""Listing fewer does not pay."""
_SAMPLE = 256
_POSITION = 32
_POSITION_BITS = (1 << _POSITION) - 1
_MOST = 4096
_FILLING = 64
"""At most so many buckets, of about so many slots each."""
_SPARE = 8
"""Room that a bucket has in any case, beside half as much again as it holds."""
_UNEVEN = 1024
"""A bucket of more is too many, if it has an eighth of the list too."""


class BucketQueue(NamedTuple):
    """The queue, and the log of slots that were given another name."""

    head: NDArray[np.void]
    # by bucket
    start: NDArray[np.int64]
    """Where it begins in the list, with room to grow up to the start of the next."""
    filled: NDArray[np.int64]
    """How many slots it has."""
    # by position in the list
    slot: NDArray[np.int32]
    # by slot
    where: NDArray[np.int64]
    """1 + its position in the list, and above _POSITION bits its bucket: one access for both; 0: not listed."""
    near: NDArray[np.int32]
    """Scratch: the slots among which those that must go are."""
    log: NDArray[np.int32]
    """`log[:head.logged]` of the model: the slots; if `logged` is larger than the log, any slot may be concerned."""


@kernel
def buckets_for(slots: int) -> int:
    """As in `queue_for`, which compiles nothing."""
    return min(max(slots // _FILLING, 1), _MOST)


@kernel
def places_for(slots: int) -> int:
    """Positions in the list."""
    return slots + slots // 2 + _SPARE * buckets_for(slots)


def queue_for(slots: int, log: int) -> BucketQueue:
    """With room for so many slots, and so many in the log; nothing is listed."""
    buckets = min(max(slots // _FILLING, 1), _MOST)
    return BucketQueue(
        head=np.zeros(1, dtype=QUEUE_HEAD),
        start=np.zeros(buckets + 1, dtype=np.int64),
        filled=np.zeros(buckets, dtype=np.int64),
        slot=np.zeros(slots + slots // 2 + _SPARE * buckets, dtype=np.int32),
        where=np.zeros(slots + 1, dtype=np.int64),
        near=np.zeros(slots + 1, dtype=np.int32),
        log=np.zeros(log, dtype=np.int32),
    )


@kernel
def note(queue: BucketQueue, m: Model, slot: int) -> None:
    """The slot was given another name."""
    if m.head[0].logged < len(queue.log):
        queue.log[m.head[0].logged] = slot
    m.head[0].logged = min(m.head[0].logged + 1, len(queue.log) + 1)
    m.head[0].moves += 1


@kernel
def note_all(queue: BucketQueue, m: Model) -> None:
    """Any slot may have been given another name."""
    m.head[0].logged = len(queue.log) + 1


@kernel
def forget(queue: BucketQueue) -> None:
    """Empty the queue."""
    start, filled, listed, where = queue.start, queue.filled, queue.slot, queue.where
    for g in range(queue.head[0].buckets):
        for at in range(start[g], start[g] + filled[g]):
            where[listed[at]] = 0
        filled[g] = 0
    queue.head[0].listed = 0
    queue.head[0].low = 0
    queue.head[0].buckets = 0
    queue.head[0].bound = 0


@kernel
def _bucket_of(size: int, base: int, per: float, buckets: int) -> int:
    """Never a lower one for a larger size."""
    return min(int(max(size - base, 0) * per), buckets - 1)


@kernel
def _list(slot: int, g: int, listed: Numbers, start: Numbers, filled: Numbers, where: Numbers) -> bool:
    """Whether there was room in the bucket."""
    at = start[g] + filled[g]
    if at == start[g + 1]:
        return False
    listed[at] = slot
    where[slot] = (g << _POSITION) + at + 1
    filled[g] += 1
    return True


@kernel
def _unlist(slot: int, listed: Numbers, start: Numbers, filled: Numbers, where: Numbers) -> None:
    """The last slot of its bucket takes its place."""
    g, at = where[slot] >> _POSITION, where[slot] & _POSITION_BITS
    filled[g] -= 1
    last = listed[start[g] + filled[g]]
    listed[at - 1] = last
    where[last] = where[slot]
    where[slot] = 0


@kernel
def watch(rows: Rows, row: int, m: Model, queue: BucketQueue) -> bool:
    """After the step of the row: slots that have come below the bound are listed. Whether a weight has become 0."""
    weight, touched = m.weight.view(np.int64), m.touched
    listed, start, filled, where = queue.slot, queue.start, queue.filled, queue.where
    bound, base, per, buckets = queue.head[0].bound, queue.head[0].base, queue.head[0].per, queue.head[0].buckets
    low = queue.head[0].low
    fits = True
    zeros = False
    for i in range(rows.indptr[row + 1] - rows.indptr[row]):
        slot = touched[i]
        if slot > 0:
            size = weight[slot] & _NO_SIGN
            zeros |= size == 0
            if size < bound:
                g = _bucket_of(size, base, per, buckets)
                if where[slot] > 0:
                    if g >= where[slot] >> _POSITION:
                        continue
                    _unlist(slot, listed, start, filled, where)
                low = min(low, g)
                fits &= _list(slot, g, listed, start, filled, where)
    queue.head[0].low = low
    if not fits:
        forget(queue)
    return zeros


@kernel
def _refill(queue: BucketQueue, m: Model, excess: int) -> None:
    """List so many of the smallest that visiting all slots is not needed again soon."""
    active = m.head[0].active
    short = excess + max(_LEAST, int(math.sqrt(float(active) * excess)))
    if not _list_smallest(queue, m, max(short, active // 4), excess):
        _list_smallest(queue, m, short, excess)


@kernel
def _list_smallest(queue: BucketQueue, m: Model, wanted: int, needed: int) -> bool:
    """About `wanted`, at least those `needed`, or all there are. Whether buckets are even."""
    active = m.head[0].active
    if wanted >= active:
        return _list_below(queue, m, int(_NO_SIGN), 0, 1)
    buckets = min(max(wanted // _FILLING, 1), len(queue.filled))
    base, bound = _bound_for(m, wanted, max(active // _SAMPLE, 1))
    even = _list_below(queue, m, bound, base, buckets)
    if queue.head[0].listed < min(needed, active):  # the sample was not like the rest
        base, bound = _bound_for(m, wanted, 1)
        even = _list_below(queue, m, bound, base, buckets)
    return even


@kernel
def _bound_for(m: Model, wanted: int, apart: int) -> tuple[int, int]:
    """The smallest size and what `wanted` are below, by one slot of so many `apart`; equal ones are below it too."""
    active = m.head[0].active
    sizes, ordering = m.weight[1 : active + 1].view(np.int64), m.ordering
    n = 0
    least = _NO_SIGN
    for i in range(0, active, apart):
        ordering[n] = sizes[i] & _NO_SIGN
        least = min(least, ordering[n])
        n += 1
    return int(least), nth_smallest(ordering, n, min(wanted // apart + 1, n)) + 1


@kernel
def _list_below(queue: BucketQueue, m: Model, bound: int, base: int, buckets: int) -> bool:
    """Whether no bucket has far too many."""
    forget(queue)
    weight, near = m.weight.view(np.int64), queue.near
    listed, start, filled, where = queue.slot, queue.start, queue.filled, queue.where
    per = buckets / float(bound - base)
    count = 0
    for slot in range(1, m.head[0].active + 1):  # no branch to mispredict
        near[count] = slot
        count += (weight[slot] & _NO_SIGN) < bound
    for i in range(count):
        g = _bucket_of(weight[near[i]] & _NO_SIGN, base, per, buckets)
        where[near[i]] = g << _POSITION
        filled[g] += 1
    largest = 0
    for g in range(buckets):
        start[g + 1] = start[g] + filled[g] + filled[g] // 2 + _SPARE
        largest = max(largest, filled[g])
        filled[g] = 0
    for i in range(count):
        g = where[near[i]] >> _POSITION
        at = start[g] + filled[g]
        listed[at] = near[i]
        where[near[i]] += at + 1
        filled[g] += 1
    queue.head[0].listed = count
    queue.head[0].low = 0
    queue.head[0].buckets = buckets
    queue.head[0].bound = bound
    queue.head[0].base = base
    queue.head[0].per = per
    return bool(largest <= max(_UNEVEN, count // 8))


@kernel
def _cut(queue: BucketQueue, m: Model, entrants: int, excess: int) -> int:
    """The `excess`-th smallest of listed slots and entrants, all slots up to it in `near`.

    -1 if so many are not below the bound: then slots outside the list may have to go.
    """
    sizes, weight, near = m.ordering, m.weight.view(np.int64), queue.near
    entrant, local, slot_of = m.entrant.view(np.int64), m.local, m.slot_of
    listed, start, filled, where = queue.slot, queue.start, queue.filled, queue.where
    bound, base, per, buckets = queue.head[0].bound, queue.head[0].base, queue.head[0].per, queue.head[0].buckets
    low = queue.head[0].low
    while low < buckets - 1 and filled[low] == 0:
        low += 1
    queue.head[0].low = low
    tail = len(sizes) - entrants  # where the entrants below the bound are set aside
    small = 0
    for e in range(entrants):
        sizes[tail + small] = entrant[e] & _NO_SIGN
        small += sizes[tail + small] < bound
    found = -1
    n = 0
    for g in range(low, buckets):
        at = start[g]
        if filled[g] == 0 and g < buckets - 1:
            continue
        while at < start[g] + filled[g]:
            slot = listed[at]
            size = weight[slot] & _NO_SIGN
            now = _bucket_of(size, base, per, buckets)
            if now == g and size < bound:
                near[n] = slot
                sizes[n] = size
                n += 1
                at += 1
            elif size >= bound:
                _unlist(slot, listed, start, filled, where)
            elif start[now] + filled[now] < start[now + 1]:
                _unlist(slot, listed, start, filled, where)
                _list(slot, now, listed, start, filled, where)
            else:  # it has grown, but there is no room where it belongs
                at += 1
        if n + small < excess:
            continue
        arriving = 0
        for e in range(small):
            sizes[n + arriving] = sizes[tail + e]
            arriving += _bucket_of(sizes[tail + e], base, per, buckets) <= g
        if n + arriving >= excess:
            if len(weight) > MANY:
                for i in range(n):
                    if local[near[i]] >= 0:
                        prefetch(slot_of, local[near[i]])
            queue.head[0].near = n
            found = nth_smallest(sizes, n + arriving, excess)
            break
    return found


@kernel
def _drop(queue: BucketQueue, m: Model, entrants: int, excess: int) -> tuple[float, int]:
    """The `excess` smallest of all weights and entrants become 0, of equal ones those with the largest keys.

    How much Σ|w| of the slots loses by it, and how many slots: they are in `ordering`, in order. The queue is no state,
    so nothing may depend on its order.
    """
    cut = -1
    while True:
        cut = _cut(queue, m, entrants, excess)
        if cut >= 0:
            break
        _refill(queue, m, excess)
    weight, near, count, ordering = m.weight.view(np.int64), queue.near, queue.head[0].near, m.ordering
    entrant, name, key, name_key = m.entrant.view(np.int64), m.entrant_name, m.key, m.name_key
    below = 0
    tied = 0
    for i in range(count):
        size = weight[near[i]] & _NO_SIGN
        below += size < cut
        if size == cut:
            ordering[tied] = key[near[i]]
            tied += 1
    for e in range(entrants):
        size = entrant[e] & _NO_SIGN
        below += size < cut
        if size == cut:
            ordering[tied] = name_key[name[e]]
            tied += 1
    staying = tied - (excess - below)
    last_key = nth_smallest(m.ordering, tied, staying) if staying > 0 else np.int64(-1)
    for e in range(entrants):
        size = entrant[e] & _NO_SIGN
        if size < cut or (size == cut and name_key[name[e]] > last_key):
            entrant[e] = 0
    vacant = 0
    for i in range(count):
        slot = near[i]
        size = weight[slot] & _NO_SIGN
        ordering[vacant] = slot
        if size == cut:
            vacant += key[slot] > last_key
        else:
            vacant += size < cut
    sort_numbers(m.ordering, vacant)
    listed, start, filled, where = queue.slot, queue.start, queue.filled, queue.where
    lost, weights = 0.0, m.weight
    for i in range(vacant):
        lost += abs(weights[ordering[i]])
        weights[ordering[i]] = 0.0
        _unlist(ordering[i], listed, start, filled, where)
    return lost, vacant


@kernel
def admit(queue: BucketQueue, m: Model, entrants: int, k: int) -> float:
    """Entrants get slots, the smallest weights lose them, so that the k largest stay. How much Σ|w| grows by it.

    No slot holds 0 before or after: for each weight dropped from a slot there is an entrant that stays.
    """
    grown, vacant = 0.0, 0
    excess = m.head[0].active + entrants - k
    if excess > 0:
        lost, vacant = _drop(queue, m, entrants, excess)
        grown -= lost
    weight, key, since, origin, local, slot_of = m.weight, m.key, m.since, m.origin, m.local, m.slot_of
    arriving, names, name_key, ordering, log = m.entrant, m.entrant_name, m.name_key, m.ordering, queue.log
    listed, start, filled, where = queue.slot, queue.start, queue.filled, queue.where
    bound, base, per, buckets = queue.head[0].bound, queue.head[0].base, queue.head[0].per, queue.head[0].buckets
    low, logged, active, version = queue.head[0].low, m.head[0].logged, m.head[0].active, m.head[0].version
    sizes, fits = m.entrant.view(np.int64), True
    seated = 0
    for e in range(entrants):
        entrant = arriving[e]
        if entrant == 0.0:
            continue
        if seated < vacant:
            slot = ordering[seated]
            if local[slot] >= 0:
                slot_of[local[slot]] = 0
        else:
            active += 1
            slot = active
        name = names[e]
        weight[slot] = entrant
        key[slot] = name_key[name]
        since[slot] = version
        origin[slot] = 0
        local[slot] = name
        slot_of[name] = slot
        size = sizes[e] & _NO_SIGN
        if size < bound:
            g = _bucket_of(size, base, per, buckets)
            low = min(low, g)
            fits &= _list(slot, g, listed, start, filled, where)
        grown += abs(entrant)
        seated += 1
        if logged < len(log):
            log[logged] = slot
        logged = min(logged + 1, len(log) + 1)
    m.head[0].active = active
    m.head[0].logged = logged
    m.head[0].moves += seated
    queue.head[0].seated = seated
    queue.head[0].low = low
    if not fits:
        forget(queue)
    elif len(weight) > MANY:
        _prefetch_next(queue, m, low, 2 * entrants)
    return grown


@kernel
def _prefetch_next(queue: BucketQueue, m: Model, low: int, wanted: int) -> None:
    """The smallest weights: what the next row will look at."""
    weight, listed, where = m.weight, queue.slot, queue.where
    for g in range(low, queue.head[0].buckets):
        for at in range(queue.start[g], queue.start[g] + queue.filled[g]):
            prefetch(weight, listed[at])
            prefetch(where, listed[at])
        wanted -= queue.filled[g]
        if wanted <= 0:
            return


@kernel
def vacate(queue: BucketQueue, m: Model, slot: int) -> None:
    """The slot is given up; the last slot moves into it."""
    if m.local[slot] >= 0:
        m.slot_of[m.local[slot]] = 0
    if queue.where[slot] > 0:
        _unlist(slot, queue.slot, queue.start, queue.filled, queue.where)
    last = m.head[0].active
    m.head[0].active -= 1
    m.head[0].moves += 1
    if slot == last:
        return
    m.weight[slot] = m.weight[last]
    m.key[slot] = m.key[last]
    m.since[slot] = m.since[last]
    m.origin[slot] = m.origin[last]
    m.local[slot] = m.local[last]
    if m.local[slot] >= 0:
        m.slot_of[m.local[slot]] = slot
    queue.where[slot] = queue.where[last]
    if queue.where[slot] > 0:
        queue.slot[(queue.where[slot] & _POSITION_BITS) - 1] = slot
    queue.where[last] = 0
    note(queue, m, slot)
