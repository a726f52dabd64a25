"""OFS-A3M: columns that make neighbourhoods purer, a neighbourhood ending at the first large gap between distances.

Zhou, Hu, Li, Wu: "Online Streaming Feature Selection Using Adapted Neighborhood Rough Set", Information Sciences 481,
2019. A comparator of ETANA.

    D(i, j) = the Euclidean distance of rows i and j under S, every column brought to deviation 1
    s_0 <= s_1 <= ... the distances of a row; s_0 is the row itself
    neighbours: s_1, and s_2, s_3, ... while s_t - s_t-1 < 1.5 (s_n-1 - s_1) / (n - 2)
    γ(S) = the mean over rows of the share of neighbours that have the row's label
    γ(F) >= the mean of γ over the single columns of S, else F is irrelevant
        γ(S + F) > γ(S):   S <- S + F
        γ(S + F) = γ(S):   S <- S + F, without each u of S (in random order) that leaves γ the same
        else               F is redundant

| symbol | here | what |
|---|---|---|
| γ | `purity` | of one column: its weight |
| n | `max_rows` | rows at most: memory is O(n²) |

The authors' program demands γ(F) > γ(S) / |S| only, which lets nearly everything pass; this is the paper's. The random
order comes from `seed` and the column's number. Once γ(S) is 1, columns of equal γ replace each other for ever.
Constant columns, which make all distances undefined there, are refused.
"""

from __future__ import annotations

from typing import ClassVar

from sluiceway.operators.kernels.columns.neighbourhood import GAP
from sluiceway.operators.selectors.neighbourhoods import NeighbourhoodSelector


class OFSA3M(NeighbourhoodSelector):
    """Columns that make the neighbourhoods of rows purer, up to the first large gap.

    >>> model = OFSA3M()
    >>> model.begin([1, 1, 1, -1, -1, -1])
    >>> model.learn_feature("apart", [0.1, 0.2, 0.3, 5.1, 5.2, 5.3]).kept
    True
    """

    NAME: ClassVar[str] = "ofs-a3m"
    RULE = GAP
