"""The perceptron with truncation: the simple baseline of online feature selection.

Wang, Zhao, Hoi, Jin: "Online Feature Selection and Its Applications", IEEE TKDE 26(3), 2014, algorithm 1
(PE_trun).

    f = w . x
    if y f <= 0:    w <- truncate(w + y x, B)

| symbol | here | what |
|---|---|---|
| B | `k` | how many weights may differ from 0 |
| w | `weight` | weights; after truncation, so prediction uses at most B features |

No bound on its mistakes holds: two instances in turn, each cutting off what the other taught, keep it wrong
for ever (the paper's section 3.2.1).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.sparse.slots import Model, Rows, score_row, step_row
from sluiceway.operators.kernels.sparse.truncation import truncate
from sluiceway.operators.learners.linear import LinearLearner
from sluiceway.operators.parameters import count


@kernel
def learn_rows(
    rows: Rows, start: int, stop: int, m: Model, scores: NDArray[np.float64], until_change: bool, k: int
) -> int:
    for row in range(start, stop):
        scores[row] = score_row(rows, row, m)
        if learn_scored_row(rows, row, m, scores[row], k) and until_change:
            return row + 1
    return stop


@kernel
def learn_scored_row(rows: Rows, row: int, m: Model, f: float, k: int) -> bool:
    """After the row was scored; whether the set of features with a weight changed."""
    y = rows.y[row]
    if y == 0:
        return False
    m.head[0].version += 1
    if y * f > 0.0:
        return False
    return truncate(m, step_row(rows, row, m, float(y)), k)


class PerceptronTruncated(LinearLearner):
    """The perceptron, all but the `k` largest weights dropped after each mistake.

    >>> model = PerceptronTruncated(k=1)
    >>> model.learn_one({"free": 1.0, "len": 0.5}, 1)
    >>> model.selected
    [Selected(feature='free', weight=1.0, since=1)]
    >>> model.predict_one({"len": 9.0})
    -1
    """

    NAME: ClassVar[str] = "perceptron-truncated"
    KERNEL = learn_rows

    k: int = count("how many weights may differ from 0")

    def _learn_rows(self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool) -> int:
        return learn_rows(rows, start, stop, self._model, scores, until_change, self.k)
