"""Online feature selection by sparse projection.

Wang, Zhao, Hoi, Jin: "Online Feature Selection and Its Applications", IEEE TKDE 26(3), 2014, algorithm 3.

    f = w . x
    if y f <= 1:    w <- w + η y x
                    w <- min(1, (1/√λ) / ‖w‖₂) w
                    w <- truncate(w, B)

| symbol | here | what |
|---|---|---|
| B | `k` | how many weights may differ from 0 |
| η | `eta` | step |
| λ | `lam` | 1/√λ is the radius of the ball that weights are kept in (the paper's √λ is a misprint) |
| w | `weight` | weights; after truncation, so prediction uses at most B features |

`decay` adds what the listing has and the paper's tables were made without: w <- (1 - λη) w before the step,
and also when no step is due.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.sparse.projection import project
from sluiceway.operators.kernels.sparse.slots import Model, Rows, scale, score_row, step_row
from sluiceway.operators.kernels.sparse.truncation import truncate
from sluiceway.operators.learners.linear import LinearLearner
from sluiceway.operators.parameters import count, flag, positive


@kernel
def learn_rows(
    rows: Rows, start: int, stop: int, m: Model, scores: NDArray[np.float64], until_change: bool,
    k: int, eta: float, radius: float, shrink: float,
) -> int:  # fmt: skip
    for row in range(start, stop):
        scores[row] = score_row(rows, row, m)
        if learn_scored_row(rows, row, m, scores[row], k, eta, radius, shrink) and until_change:
            return row + 1
    return stop


@kernel
def learn_scored_row(
    rows: Rows, row: int, m: Model, f: float, k: int, eta: float, radius: float, shrink: float
) -> bool:
    """After the row was scored; whether the set of features with a weight changed."""
    y = rows.y[row]
    if y == 0:
        return False
    m.head[0].version += 1
    entrants = 0
    if y * f <= 1.0:
        if shrink != 1.0:
            scale(m, 0, shrink)
        entrants = step_row(rows, row, m, eta * y)
        project(m, entrants, radius)
    elif shrink != 1.0:
        scale(m, 0, shrink)
    else:
        return False
    return truncate(m, entrants, k)


class OFS(LinearLearner):
    """Online feature selection: a large-margin step, projection onto a ball, all but `k` weights dropped.

    >>> model = OFS(k=1)
    >>> model.learn_one({"free": 1.0, "len": 0.5}, 1)
    >>> model.selected
    [Selected(feature='free', weight=0.2, since=1)]
    >>> model.score_one({"free": 2.0, "len": 9.0})
    0.4
    """

    NAME: ClassVar[str] = "ofs"
    KERNEL = learn_rows

    k: int = count("how many weights may differ from 0")
    eta: float = positive("step", default=0.2)
    lam: float = positive("1/√lam is the radius of the ball that weights are kept in", default=0.01)
    decay: bool = flag("whether all weights are first shrunk by 1 - lam * eta", default=False)

    def _check(self) -> None:
        if self.decay and self.eta * self.lam >= 1:
            raise ValueError(f"with decay, eta * lam must be below 1, not {self.eta * self.lam!r}")

    def _learn_rows(self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool) -> int:
        radius = 1.0 / float(np.sqrt(self.lam))
        shrink = 1.0 - self.lam * self.eta if self.decay else 1.0
        return learn_rows(rows, start, stop, self._model, scores, until_change, self.k, self.eta, radius, shrink)
