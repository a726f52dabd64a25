"""Features that depend on each other through a tree: pairs of a few candidates counted by class, and what they tell.

The candidates are the features that tell most of the class at the end of the warm-up. The tree is the one of the
largest sum of I(A; B | class) over its edges (Chow and Liu, by class). A feature's chances are those given its nearest
ancestor that comes earlier in the order: the product of the edges' tables down to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import as_argument
from sluiceway.operators.joint.counts import Counts, packed, unpacked
from sluiceway.operators.joint.names import Integers
from sluiceway.operators.kernels.joint.counting import count_pairs
from sluiceway.operators.kernels.joint.line import place_of

Vector = NDArray[np.float64]


class PairCounts:
    """[class, pair of candidates, bin, bin]"""

    def __init__(self, names: Sequence[str], bins: int) -> None:
        self.names = tuple(names)
        few = len(self.names)
        self.labels: list[int] = []
        self.pairs: Integers = np.zeros((0, few * (few - 1) // 2, bins, bins), dtype=np.int64)

    def count(self, indptr: Integers, slots: Integers, values: Vector, y: NDArray[np.int8], counts: Counts) -> None:
        """Labelled rows, by slots of features."""
        self.know(counts.labels)
        own = self.slots(counts)
        count_pairs(
            as_argument(indptr), slots.astype(np.int32), as_argument(values), np.searchsorted(self.labels, y),
            self._candidates(counts, own), counts.cuts[own], self._absent(counts, own),
            np.zeros(len(own), dtype=np.int8), self.pairs,
        )  # fmt: skip

    def seat(self, counts: Counts) -> None:
        """Have kernels count the rows that the counts' line is given, from now on."""
        self.know(counts.labels)
        own, line = self.slots(counts), counts.line
        absent = np.concatenate((self._absent(counts, own), np.zeros(len(own), dtype=np.int8)))
        candidates, cuts = self._candidates(counts, own), counts.cuts[own]
        self._seated = candidates, cuts, absent
        line["candidates"], line["candidate_slots"] = len(own), len(counts.known)
        line["pairs_at"] = place_of(self.pairs)
        line["candidate_at"], line["candidate_cuts_at"] = place_of(candidates), place_of(cuts)
        line["candidate_absent_at"] = place_of(absent)

    def _candidates(self, counts: Counts, own: Integers) -> Integers:
        """By slot, -1: none."""
        candidate = np.full(len(counts.known), -1, dtype=np.int64)
        candidate[own] = np.arange(len(own))
        return candidate

    def _absent(self, counts: Counts, own: Integers) -> NDArray[np.int8]:
        """The bin of each candidate where it is not in a row."""
        return (counts.zero[own] if counts.absent_is_zero else np.full(len(own), -1)).astype(np.int8)

    def know(self, labels: Sequence[int]) -> None:
        for label in labels:
            if label not in self.labels:
                at = int(np.searchsorted(self.labels, label))
                self.labels.insert(at, label)
                self.pairs = np.insert(self.pairs, at, 0, axis=0)

    def slots(self, counts: Counts) -> Integers:
        return counts.known.find(self.names)

    def together(self, a: int, b: int) -> Integers:
        """[class, bin of a, bin of b]"""
        if a > b:
            return self.together(b, a).transpose(0, 2, 1)
        few = len(self.names)
        found: Integers = self.pairs[:, a * (2 * few - a - 1) // 2 + b - a - 1]
        return found

    def parents(self, root: int) -> list[int]:
        """Of each candidate in the tree; -1 of the root. Prim's algorithm, ties to the earlier candidate."""
        few = len(self.names)
        weight = np.full((few, few), -np.inf)
        for a in range(few):
            for b in range(a + 1, few):
                weight[a, b] = weight[b, a] = conditional_information(self.together(a, b))
        parents, best = [-1] * few, weight[root].copy()
        nearest = np.full(few, root)
        outside = np.ones(few, dtype=np.bool_)
        outside[root] = False
        for _ in range(few - 1):
            c = int(np.argmax(np.where(outside, best, -np.inf)))
            if not outside[c]:
                break
            parents[c], outside[c] = int(nearest[c]), False
            closer = weight[c] > best
            best[closer], nearest[closer] = weight[c, closer], c
        return parents

    def tables(self, order: Sequence[int], parents: Sequence[int], counts: Counts) -> tuple[Vector, Integers]:
        """Of the candidates in that order: [stage, bin of the ancestor or unknown, bin, class], and the ancestors."""
        slots, bins = self.slots(counts), counts.bins
        alone = counts.probabilities(slots, counts.tables(slots))
        tables = np.empty((len(order), bins + 1, bins, len(counts.labels)))
        ancestor = np.full(len(order), -1, dtype=np.int64)
        stage = {c: k for k, c in enumerate(order)}
        for k, c in enumerate(order):
            tables[k] = alone[c].T
            path, up = [c], parents[c]
            while up >= 0 and stage.get(up, k) >= k:
                path.append(up)
                up = parents[up]
            if up < 0:
                continue
            ancestor[k] = stage[up]
            table = self._edge(up, path[-1], counts.levels[slots])
            for above, below in zip(path[::-1], path[-2::-1], strict=False):
                table = np.einsum("nuv,nvw->nuw", table, self._edge(above, below, counts.levels[slots]))
            tables[k, :bins] = table.transpose(1, 2, 0)
        return tables, ancestor

    def _edge(self, above: int, below: int, levels: Integers) -> Vector:
        """P(bin of below | bin of above, class): [class, bin of above, bin of below]."""
        together = self.together(above, below)
        smoothed = (together + 1) / (together.sum(axis=2, keepdims=True) + levels[below])
        return np.where(np.arange(together.shape[2]) < levels[below], smoothed, 0.0)

    def merged(self, other: PairCounts) -> PairCounts:
        if self.names != other.names:
            raise ValueError("the candidates of the trees differ")
        made = PairCounts(self.names, self.pairs.shape[-1])
        for one in (self, other):
            made.know(one.labels)
        for one in (self, other):
            made.pairs[np.searchsorted(made.labels, one.labels)] += one.pairs
        return made

    def state(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "labels": list(self.labels),
            "pairs": packed(self.pairs),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], bins: int) -> PairCounts:
        made = cls(state["names"], bins)
        made.know(state["labels"])
        made.pairs = unpacked(state["pairs"]).reshape(made.pairs.shape)
        return made


def information(counts: Integers) -> Vector:
    """I(feature; class) in nats, of each feature: [feature, class, bin]."""
    rows = np.maximum(counts.sum(axis=(1, 2), keepdims=True), 1)
    p = counts / rows
    expected = p.sum(axis=2, keepdims=True) * p.sum(axis=1, keepdims=True)
    return np.asarray(_divergence(p, expected).sum(axis=(1, 2)))


def conditional_information(together: Integers) -> float:
    """I(A; B | class) in nats: [class, bin of A, bin of B]."""
    rows = max(int(together.sum()), 1)
    whole = np.maximum(together.sum(axis=(1, 2), keepdims=True), 1)
    expected = together.sum(axis=2, keepdims=True) * together.sum(axis=1, keepdims=True) / whole / rows
    return float(_divergence(together / rows, expected).sum())


def _divergence(p: Vector, expected: Vector) -> Vector:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(p > 0, p * np.log(p / expected), 0.0))
