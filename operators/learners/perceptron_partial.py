"""The perceptron on a fresh random set of features of each instance: the baselines of learning with partial input.

Wang, Zhao, Hoi, Jin: "Online Feature Selection and Its Applications", IEEE TKDE 26(3), 2014, table 3
(PE_rand, printed PE_trun there, and RAND).

    C = a random set of B of the d features
    f = w . x over C
    if y f <= 0:    w <- w + y x over C, then
                    w <- truncate(w, B)                                            PE_rand
                    w <- 0 outside another random set of B of the d features      RAND

| symbol | here | what |
|---|---|---|
| B | `k` | how many features may be looked at, and how many weights may differ from 0 |
| d | `d` | how many features labelled instances have had before this one |
| w | `weight` | weights |
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.sparse.features_seen import Features, has_room, look
from sluiceway.operators.kernels.sparse.sampling import Sample, choose, score_sampled, step_row
from sluiceway.operators.kernels.sparse.slots import Model, Rows, settle
from sluiceway.operators.kernels.sparse.thinning import thin_out
from sluiceway.operators.kernels.sparse.truncation import truncate
from sluiceway.operators.learners.partial import PartialLearner
from sluiceway.operators.parameters import choice


class PerceptronPartialRule(NamedTuple):
    at_random: bool
    """Whether the weights that are kept are drawn too."""


@kernel
def learn_rows(
    rows: Rows, start: int, stop: int, m: Model, scores: NDArray[np.float64], until_change: bool,
    seen: Features, limit: int, sample: Sample, k: int, seed: int, rule: PerceptronPartialRule,
) -> int:  # fmt: skip
    for row in range(start, stop):
        t, d = m.head[0].version + 1, m.head[0].features
        choose(sample, seed, t, k, d)
        f = score_sampled(rows, row, m, seen, sample)
        scores[row] = f
        y = rows.y[row]
        if y == 0:
            continue
        if not has_room(rows, row, m, seen, limit):
            return ~row
        m.head[0].version = t
        look(rows, row, m, seen, limit)
        if y * f > 0.0:
            continue
        entrants = step_row(rows, row, m, float(y), float(y))
        if rule.at_random:
            if d > k:
                thin_out(m, entrants, k, d, seed)
            changed = settle(m, entrants)
        else:
            changed = truncate(m, entrants, k)
        if changed and until_change:
            return row + 1
    return stop


class PerceptronPartial(PartialLearner):
    """The perceptron that looks at `k` random features an instance, and keeps the largest weights or random ones.

    >>> model = PerceptronPartial(k=1)
    >>> model.learn_one({"free": 1.0, "len": 0.5}, 1)
    >>> model.wanted_features()
    ['len']
    >>> model.learn_one({"free": 1.0, "len": 0.5}, 1)
    >>> model.selected
    [Selected(feature='len', weight=0.5, since=2)]
    """

    NAME: ClassVar[str] = "perceptron-partial"
    KERNEL = learn_rows

    selection: str = choice("which k weights are kept", "largest", "random", default="largest")

    def explores(self, instance: int) -> bool:
        return True

    def rule(self) -> PerceptronPartialRule:
        return PerceptronPartialRule(self.selection == "random")
