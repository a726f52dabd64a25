"""A random set of features instead of the largest weights: what the random baselines keep.

The set is never made: how many of the n non-zero weights it holds is hypergeometric, and which ones is decided by a
random number for each feature key. Both come from (seed, instance number), so the order of features does not matter.
"""

from __future__ import annotations

import numpy as np

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.numbers.order_statistics import nth_smallest
from sluiceway.operators.kernels.numbers.random import draw, stream_of, uniform
from sluiceway.operators.kernels.sparse.slots import Model

HOW_MANY, WHICH = 0, 1


@kernel
def thin_out(m: Model, entrants: int, k: int, d: int, seed: int) -> None:
    """Weights and entrants outside a uniformly random set of k of the d features become 0."""
    active = m.head[0].active
    n = entrants
    for slot in range(1, active + 1):
        n += m.weight[slot] != 0.0
    how_many = stream_of(seed, m.head[0].version, HOW_MANY)
    staying = 0
    for i in range(n):  # hypergeometric: each in turn meets k - staying seats left among d - i
        staying += uniform(draw(how_many, i)) * (d - i) < k - staying
    if staying == 0:  # as most often with many features: then no key has to be read from memory
        m.weight[1 : active + 1] = 0.0
        m.entrant[:entrants] = 0.0
        return
    which = stream_of(seed, m.head[0].version, WHICH)
    n = 0
    for slot in range(1, active + 1):
        if m.weight[slot] != 0.0:
            m.ordering[n] = np.int64(draw(which, m.key[slot]))
            n += 1
    for e in range(entrants):
        m.ordering[n] = np.int64(draw(which, m.name_key[m.entrant_name[e]]))
        n += 1
    last = nth_smallest(m.ordering, n, staying)
    for slot in range(1, active + 1):
        if m.weight[slot] != 0.0:
            if staying > 0 and np.int64(draw(which, m.key[slot])) <= last:
                staying -= 1
            else:
                m.weight[slot] = 0.0
    for e in range(entrants):
        if staying > 0 and np.int64(draw(which, m.name_key[m.entrant_name[e]])) <= last:
            staying -= 1
        else:
            m.entrant[e] = 0.0
