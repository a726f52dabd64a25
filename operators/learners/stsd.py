"""Sparse learning on trapezoidal streams: instances and features both keep coming.

Zhang, Zhang, Long, Ding, Zhang, Wu: "Towards Mining Trapezoidal Data Streams", ICDM 2015, algorithms 1 to 3.

    f = w . x                                   features never seen before have weight 0
    l = max(0, 1 - y f)
    τ = l / ‖x‖²                                STSD
        min(C, l / ‖x‖²)                        STSD-I
        l / (‖x‖² + 1/(2C))                     STSD-II
    if l > 0:   w <- w + τ y x                  old and new features alike
                w <- min(1, λ / ‖w‖₁) w         towards 0, not the nearest point of the ball
                w <- truncate(w, max(1, ⌊B d⌋))

| symbol | here | what |
|---|---|---|
| B | `proportion` | which part of the features seen may have a weight |
| C | `C` | how much one instance may teach; `variant = 0` has none |
| λ | `lam` | radius of the L1 ball that weights are kept in |
| d | `head.features` | how many features labelled instances have had so far, this one included |
| w | `head.scale * weight` | weights |

The baselines of the paper's table III: `selection = "all"` truncates nothing; `"random"` keeps a fresh random set of
⌊B d⌋ features instead of the largest; `update = "perceptron"` has τ = 1 on mistakes (y f <= 0) and 0 elsewhere.

The paper's own program differs from the paper in seven ways; this is the paper's algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.sparse.bucket_queue import BucketQueue, queue_for
from sluiceway.operators.kernels.sparse.features_seen import Features, has_room, look
from sluiceway.operators.kernels.sparse.lazy_scaling import (
    keep_few,
    keep_largest,
    keep_non_zero,
    project,
    score_row,
    step_row,
)
from sluiceway.operators.kernels.sparse.passive_step import square_row, step_size
from sluiceway.operators.kernels.sparse.slots import Model, Rows, bounded
from sluiceway.operators.kernels.sparse.thinning import thin_out
from sluiceway.operators.learners.counting import CountingLearner
from sluiceway.operators.parameters import choice, positive, random_seed

PERCEPTRON = 3
_LOG = 4096
"""Slots that are logged when they are given another name; if there are more, all slots are examined."""


@kernel
def learn_rows(
    rows: Rows, start: int, stop: int, m: Model, scores: NDArray[np.float64], until_change: bool,
    seen: Features, limit: int, queue: BucketQueue,
    rule: int, C: float, lam: float, proportion: float, at_random: bool, seed: int, few: int,
) -> int:  # fmt: skip
    for row in range(start, stop):
        f = score_row(rows, row, m, m.head[0].scale)
        scores[row] = f
        y = rows.y[row]
        if y == 0:
            continue
        if not has_room(rows, row, m, seen, limit):
            return ~row
        m.head[0].version += 1
        look(rows, row, m, seen, limit)
        if rule == PERCEPTRON:
            tau, inverse = 1.0 if y * f <= 0.0 else 0.0, 1.0
        else:
            loss = 1.0 - y * f
            squares, inverse = square_row(rows, row, m)
            tau = step_size(loss, squares, inverse, rule, C) if loss > 0.0 and squares > 0.0 else 0.0
        if tau == 0.0:
            continue
        d = m.head[0].features
        k = max(1, int(proportion * d + 1e-9))
        entrants = step_row(rows, row, m, bounded(tau * y), inverse)
        project(m, entrants, lam)
        if at_random:
            if d > k:
                thin_out(m, entrants, k, d, seed)
            changed = keep_non_zero(m, queue, entrants)
        elif k <= few:
            changed = keep_few(m, queue, entrants, k)
        else:
            changed = keep_largest(rows, row, m, queue, entrants, k)
        if changed and until_change:
            return row + 1
    return stop


class STSD(CountingLearner):
    """Passive-aggressive steps inside an L1 ball, all but a `proportion` of the features seen dropped.

    >>> model = STSD(proportion=0.5)
    >>> model.learn_one({"free": 1.0, "len": 0.5}, 1)
    >>> model.selected
    [Selected(feature='free', weight=0.1, since=1)]
    >>> model.learn_one({"now": 2.0, "win": 1.0}, 1)
    >>> [feature for feature, _, _ in model.selected]
    ['now', 'free']
    """

    NAME: ClassVar[str] = "stsd"
    KERNEL = learn_rows
    FEW: ClassVar[int] = 512
    """Up to so many weights kept, a row goes through all of them."""

    proportion: float = positive("which part of the features seen may have a weight", most=1.0, default=0.5)
    variant: int = choice("STSD, STSD-I or STSD-II", 0, 1, 2, default=1)
    C: float = positive("how much one instance may teach; not used by variant 0", default=0.1)
    lam: float = positive("radius of the L1 ball that weights are kept in", least=1e-9, most=1e9, default=30.0)
    selection: str = choice("which weights are kept", "largest", "random", "all", default="largest")
    update: str = choice("passive-aggressive steps, or the perceptron's", "pa", "perceptron", default="pa")
    seed: int = random_seed()

    def _begin(self) -> None:
        super()._begin()
        self._queue = queue_for(0, _LOG)

    @classmethod
    def compile(cls) -> None:
        cls().learn_one({"0": 1.0}, 1)

    @property
    def _slots_at_most(self) -> int:
        return self.max_features

    def metrics(self) -> dict[str, float]:
        return super().metrics() | {"features_seen": int(self._model.head["features"][0])}

    def state(self) -> dict[str, Any]:
        scale, total, stale = self._model.head[["scale", "total", "stale"]].item()
        return super().state() | {"scale": scale, "total": total, "stale": float(stale)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        head = self._model.head
        head["scale"], head["total"], head["stale"] = state["scale"], state["total"], state["stale"]

    @property
    def _scale(self) -> float:
        return float(self._model.head["scale"][0])

    def _weights(self) -> NDArray[np.float64]:
        return self._scale * super()._weights()

    def _weight_in(self, slot: int) -> float:
        return self._scale * super()._weight_in(slot)

    def _moved_slots(self, active: int) -> list[int]:
        logged = int(self._model.head["logged"][0])
        self._model.head["logged"] = 0
        if logged > len(self._queue.log):
            return super()._moved_slots(active)
        return sorted(slot for slot in set(self._queue.log[:logged].tolist()) if slot <= active)

    def _grow_queue(self) -> None:
        slots = len(self._model.weight) - 1
        if slots > len(self._queue.where) - 1:
            self._queue = queue_for(slots, _LOG)._replace(log=self._queue.log)

    def _learn_counted(self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool) -> int:
        self._grow_queue()
        return learn_rows(
            rows, start, stop, self._model, scores, until_change,
            self._seen, self.max_features, self._queue,
            PERCEPTRON if self.update == "perceptron" else self.variant,
            self.C, self.lam, 1.0 if self.selection == "all" else self.proportion,
            self.selection == "random", self.seed, self.FEW,
        )  # fmt: skip
