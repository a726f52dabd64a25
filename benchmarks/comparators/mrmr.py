"""Minimum redundancy, maximum relevance: the comparator of the OFS paper's batch experiments.

Peng, Long, Ding: "Feature Selection Based on Mutual Information", IEEE TPAMI 27(8), 2005 (the difference, MID):

    next = argmax_j  I(x_j; y) - (1/|S|) Σ_{i in S} I(x_j; x_i)
"""

from __future__ import annotations

import numpy as np

from benchmarks.comparators.information import Levels, information_gain, mutual_information


def by_mrmr(X: Levels, y: Levels, k: int) -> list[int]:
    """In the order in which they are chosen; of equal ones the first."""
    relevance = information_gain(X, y)
    redundancy = np.zeros(X.shape[1])
    chosen: list[int] = []
    for _ in range(min(k, X.shape[1])):
        score = relevance - redundancy / max(len(chosen), 1)
        score[chosen] = -np.inf
        best = int(np.argmax(score))
        chosen.append(best)
        redundancy += [mutual_information(column, X[:, best]) for column in X.T]
    return chosen
