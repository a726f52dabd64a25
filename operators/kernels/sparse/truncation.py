"""truncate(w, B): all but the B largest |w| become 0; of equal ones the smaller feature key stays.

Only the non-zero weights, at most B + nnz(x), are looked at. |w| is compared by the bits of the float, which
are ordered as the numbers are.
"""

from __future__ import annotations

import numpy as np

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.numbers.order_statistics import nth_smallest
from sluiceway.operators.kernels.sparse.slots import Model, settle

_NO_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@kernel
def truncate(m: Model, entrants: int, k: int) -> bool:
    """w <- truncate(w, k); then slots are given up and taken. Whether the set of non-zero weights changed."""
    active = m.head[0].active
    slots = m.weight[1 : active + 1].view(np.int64)
    arriving = m.entrant.view(np.int64)
    smallest = _NO_SIGN
    for i in range(active):
        smallest = min(smallest, slots[i] & _NO_SIGN)
    if active == k:  # below the smallest of k others: never among the k largest
        entrants = _leave_out_smaller(m, entrants, smallest)
        if entrants == 0 and smallest > 0:
            return False
    excess = active + entrants - k
    if excess > 0:
        for i in range(active):
            m.ordering[i] = slots[i] & _NO_SIGN
        for e in range(entrants):
            m.ordering[active + e] = arriving[e] & _NO_SIGN
        cut = nth_smallest(m.ordering, active + entrants, excess)
        _drop(m, entrants, excess, cut)
    return settle(m, entrants)


@kernel
def _leave_out_smaller(m: Model, entrants: int, smallest: np.int64) -> int:
    arriving = m.entrant.view(np.int64)
    left = 0
    for e in range(entrants):
        m.entrant[left] = m.entrant[e]
        m.entrant_name[left] = m.entrant_name[e]
        left += (arriving[e] & _NO_SIGN) >= smallest
    return left


@kernel
def _drop(m: Model, entrants: int, excess: int, cut: int) -> None:
    """Weights below `cut` become 0, and of those at `cut` the ones with the largest keys, `excess` in all."""
    active = m.head[0].active
    slots = m.weight[1 : active + 1].view(np.int64)
    arriving = m.entrant.view(np.int64)
    below = 0
    tied = 0
    for i in range(active):
        size = slots[i] & _NO_SIGN
        if size < cut:
            slots[i] = 0
            below += 1
        elif size == cut:
            m.ordering[tied] = m.key[i + 1]
            tied += 1
    for e in range(entrants):
        size = arriving[e] & _NO_SIGN
        if size < cut:
            arriving[e] = 0
            below += 1
        elif size == cut:
            m.ordering[tied] = m.name_key[m.entrant_name[e]]
            tied += 1
    staying = tied - (excess - below)
    last_key = nth_smallest(m.ordering, tied, staying) if staying > 0 else np.int64(-1)
    for i in range(active):
        if (slots[i] & _NO_SIGN) == cut:
            if staying > 0 and m.key[i + 1] <= last_key:
                staying -= 1
            else:
                slots[i] = 0
    for e in range(entrants):
        if (arriving[e] & _NO_SIGN) == cut:
            if staying > 0 and m.name_key[m.entrant_name[e]] <= last_key:
                staying -= 1
            else:
                arriving[e] = 0
