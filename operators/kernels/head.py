"""The head of a model: one typed record with every number that belongs to the model as a whole.

All learners share the one layout, so a kernel has the same argument types whichever learner it serves, and the heads
of many models stand side by side in one array. A field that a learner has no use for stays 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HEAD = np.dtype(
    [
        # every learner
        ("active", np.int64),  # slots in use: they are numbered from 1 to this
        ("version", np.int64),  # labelled instances learnt
        ("moves", np.int64),  # counts up whenever a slot is given another name: equal means that no slot was
        ("logged", np.int64),  # how many slots are in the log of those that were given another name
        ("ignored", np.int64),  # non-zero values of labelled instances left out because of `max_features`
        # learners that shrink all weights at once: w = scale * weight
        ("scale", np.float64),
        ("stale", np.int64),  # changes or steps since the numbers below were last computed from all weights
        ("squares", np.float64),  # squared Euclidean norm of w
        ("total", np.float64),  # sum of |weight|, without the scale
        ("all_moved", np.int64),  # 1: in this row every weight may have changed
        # learners that apply soft thresholds when a feature comes again
        ("shrunk", np.float64),  # sum of all thresholds so far
        ("hand", np.int64),  # clock hand: the slot last examined for one that can be taken over
        ("counted", np.int64),  # at least how many weights are not 0
        # learners that count the features they have seen
        ("features", np.int64),  # distinct features of labelled instances
        ("open", np.int64),  # bound names not yet known to be among them
        # models that live in a bank
        ("seen", np.int64),  # instances, with and without a label
        ("mistakes", np.int64),
        ("evicted", np.int64),
        ("ts", np.int64),  # newest time of an instance
        ("emitted", np.int64),  # version of the newest snapshot
        ("fingerprint", np.uint64),  # of the set of selected features
        ("emitted_fingerprint", np.uint64),
        ("block", np.int64),  # where its slots start in the arena, and how many there are
        ("room", np.int64),
        ("extra", np.int64),  # where the features seen start in the arena, and for how many there is room
        ("extra_room", np.int64),
        ("snapshot", np.int64),
        ("snapshot_size", np.int64),
        ("next_piece", np.int64),
        ("flags", np.int64),
        ("queue", np.int64),  # where its bucket queue starts in the arena, and for how many slots it is
        ("queue_room", np.int64),
    ]
)

Head = NDArray[np.void]
"""An array of one record. Kernels write `m.head[0].active`; Python, where that is slow, `m.head["active"][0]`."""


def new_head() -> Head:
    head = np.zeros(1, dtype=HEAD)
    head["scale"] = 1.0
    return head
