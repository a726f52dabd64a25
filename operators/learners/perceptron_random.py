"""The perceptron on randomly kept features: the baseline that any selection must beat.

Wang, Zhao, Hoi, Jin: "Online Feature Selection and Its Applications", IEEE TKDE 26(3), 2014 (RAND).

    f = w . x
    if y f <= 0:    w <- w + y x, then 0 outside a fresh uniformly random set of B of the d features

| symbol | here | what |
|---|---|---|
| B | `k` | how many weights may differ from 0 |
| d | `head.features` | how many features labelled instances have had so far, this one included |
| w | `weight` | weights |

The random set follows from (seed, instance number), so the generator has no state. The keys seen are state: at
`max_features` of them, new features are left out.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.sparse.features_seen import Features, has_room, look
from sluiceway.operators.kernels.sparse.slots import Model, Rows, score_row, settle, step_row
from sluiceway.operators.kernels.sparse.thinning import thin_out
from sluiceway.operators.learners.counting import CountingLearner
from sluiceway.operators.parameters import count, random_seed


@kernel
def learn_rows(
    rows: Rows, start: int, stop: int, m: Model, scores: NDArray[np.float64], until_change: bool,
    k: int, seed: int, seen: Features, limit: int,
) -> int:  # fmt: skip
    for row in range(start, stop):
        f = score_row(rows, row, m)
        scores[row] = f
        y = rows.y[row]
        if y == 0:
            continue
        if not has_room(rows, row, m, seen, limit):
            return ~row
        m.head[0].version += 1
        look(rows, row, m, seen, limit)
        if y * f > 0.0:
            continue
        entrants = step_row(rows, row, m, float(y))
        if m.head[0].features > k:
            thin_out(m, entrants, k, m.head[0].features, seed)
        if settle(m, entrants) and until_change:
            return row + 1
    return stop


class PerceptronRandom(CountingLearner):
    """The perceptron, a fresh random set of `k` features kept after each mistake.

    >>> model = PerceptronRandom(k=1, seed=7)
    >>> model.learn_one({"free": 1.0, "len": 0.5}, 1)
    >>> len(model.selected)
    1
    >>> model.metrics()
    {'values_ignored': 0}
    """

    NAME: ClassVar[str] = "perceptron-random"
    KERNEL = learn_rows

    k: int = count("how many weights may differ from 0")
    seed: int = random_seed()

    def _learn_counted(self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool) -> int:
        return learn_rows(
            rows, start, stop, self._model, scores, until_change, self.k, self.seed, self._seen, self.max_features
        )
