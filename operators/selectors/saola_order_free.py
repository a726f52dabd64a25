"""SAOLA without the order of arrival: the unique kernel of its dominance relation.

The relation of Yu, Wu, Ding, Pei: "Towards Scalable and Accurate Online Feature Selection for Big Data", ICDM 2014:

    Y dominates F  iff  dep(Y, C) >= dep(F, C) and dep(F, Y) > dep(F, C)
    F in S         iff  dep(F, C) is significant and no Y in S dominates F

| symbol | here | what |
|---|---|---|
| C | `TARGET` | target |
| S | `members.selected` | the selected features |
| dep | `dependence` | as in SAOLA: `measure`, `significance`, `delta` |

SAOLA's own answer depends on the order in which columns come, because a feature it has discarded never returns when
what had made it redundant is removed. Here it does. Equal relevances are ordered by feature key ("inclusive") or never
dominate each other ("strict"), so the relation has no cycle, its kernel is unique, and it is the greedy answer in
order of relevance. The price: all relevant columns are held, up to `max_features`; the same set for any order as long
as no column is left out.
"""

from __future__ import annotations

from typing import ClassVar

from sluiceway.operators.kernels.columns.dominance import ABOVE, ABOVE_STRICT
from sluiceway.operators.selectors.ranked import RankedSelector
from sluiceway.operators.selectors.significance import Relevance


class SaolaOrderFree(Relevance, RankedSelector):
    """SAOLA's relation, answered for all columns since the target whatever their order.

    >>> model = SaolaOrderFree(measure="symmetric-uncertainty")
    >>> model.begin([1, 1, 1, 1, 0, 0, 0, 0])
    >>> names, columns = ["b", "a", "c"], [[1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0]]
    >>> [verdict.kept for verdict in model.learn_features(names, columns)]
    [True, True, True]
    >>> [feature for feature, weight, since in model.selected]
    ['c', 'a', 'b']
    """

    NAME: ClassVar[str] = "saola-order-free"

    @property
    def _rule(self) -> int:
        return ABOVE if self.ties == "inclusive" else ABOVE_STRICT

    def _least(self) -> float:
        return self._least_relevance(self.rows)
