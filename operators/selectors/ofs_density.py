"""OFS-Density: columns that make neighbourhoods purer, a neighbourhood ending where distances grow faster.

Zhou, Hu, Li, Wu: "OFS-Density: A Novel Online Streaming Feature Selection Method", Pattern Recognition 86, 2019. A
comparator of ETANA.

    D(i, j) = the Euclidean distance of rows i and j under S, every column brought to deviation 1
    s_0 <= s_1 <= ... the distances of a row; s_0 is the row itself
    neighbours: s_1, and s_2, s_3, ... while s_t / t <= s_t-1 / (t - 1) or s_t = 0
    γ(S) = the mean over rows of the share of neighbours that have the row's label
    γ(F) >= the mean of γ over the single columns of S, else F is irrelevant
        γ(S + F) > γ(S):                    S <- S + F
        |γ(S + F) - γ(S)| <= .05 γ(S):      R <- S + F but for each u of S (in random order) without which γ is no less;
                                            S <- R if γ(R) >= γ(S), else S <- S + F, and γ(S) counts as it was
        else                                F is redundant

| symbol | here | what |
|---|---|---|
| γ | `purity` | of one column: its weight |
| n | `max_rows` | rows at most: memory is O(n²) |

The paper's definition stops at the first decrease of s_t / t, the authors' program, as here, at the first increase. The
random order comes from `seed` and the column's number. γ of what is selected may lie 5% below the γ that is counted.
"""

from __future__ import annotations

from typing import ClassVar

from sluiceway.operators.kernels.columns.neighbourhood import DENSITY
from sluiceway.operators.selectors.neighbourhoods import NeighbourhoodSelector


class OFSDensity(NeighbourhoodSelector):
    """Columns that make the neighbourhoods of rows purer, as far as rows lie dense.

    >>> model = OFSDensity()
    >>> model.begin([1, 1, 1, -1, -1, -1])
    >>> model.learn_feature("apart", [0.1, 0.2, 0.3, 5.1, 5.2, 5.3]).kept
    True
    """

    NAME: ClassVar[str] = "ofs-density"
    RULE = DENSITY
