"""FCBF: the fast correlation-based filter, the batch method that SAOLA is compared with.

Yu, Liu: "Feature Selection for High-Dimensional Data: A Fast Correlation-Based Filter Solution", ICML 2003, figure 2.

    S = the features with SU(F, C) > δ, in order of SU(F, C), largest first
    for each Fp in S, in order:
        for each Fq in S after Fp:
            SU(Fp, Fq) >= SU(Fq, C):    S <- S - Fq

| symbol | here | what |
|---|---|---|
| SU | `symmetric_uncertainty` | 2 I(X;Y) / (H(X) + H(Y)) |
| C | `TARGET` | target |
| δ | `delta` | the relevance threshold |

Equal relevances are ordered by feature key. Batch: the answer after each column is that for all columns since the
target, so all relevant columns are held (up to `max_features`); a flow runs it over windows, each with its own target.
"""

from __future__ import annotations

from typing import ClassVar

from sluiceway.operators.kernels.columns.column_store import SYMMETRIC_UNCERTAINTY
from sluiceway.operators.kernels.columns.dominance import AT_LEAST
from sluiceway.operators.parameters import share
from sluiceway.operators.selectors.ranked import RankedSelector
from sluiceway.operators.selectors.significance import least_relevance


class FCBF(RankedSelector):
    """The fast correlation-based filter over all columns since the target.

    >>> model = FCBF()
    >>> model.begin([1, 1, 1, -1, -1, -1])
    >>> model.learn_feature("noisy", [1, 1, 0, 0, 0, 0]).kept
    True
    >>> model.learn_feature("clean", [1, 1, 1, 0, 0, 0]).removed
    (Removed(feature='noisy', by=('clean',)),)
    """

    NAME: ClassVar[str] = "fcbf"

    delta: float = share("what the relevance must lie above", zero=True, default=0.0)

    _measure = SYMMETRIC_UNCERTAINTY
    _rule = AT_LEAST

    def _least(self) -> float:
        return least_relevance(SYMMETRIC_UNCERTAINTY, self.rows, 0.0, self.delta)
