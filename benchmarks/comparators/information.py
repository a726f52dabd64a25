"""Information gain: I(feature; class) in bits, each feature on its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Levels = NDArray[np.int64]


def levels(X: NDArray[np.float64], bins: int = 2) -> Levels:
    """Columns cut into bins of equal width between their least and largest value."""
    low, high = X.min(axis=0), X.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.asarray(np.minimum((X - low) / width * bins, bins - 1).astype(np.int64))


def mutual_information(a: Levels, b: Levels) -> float:
    """I(a; b) in bits, from counts."""
    joint = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(joint, (a, b), 1.0)
    joint /= len(a)
    expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    there = joint > 0
    return float((joint[there] * np.log2(joint[there] / expected[there])).sum())


def information_gain(X: Levels, y: Levels) -> NDArray[np.float64]:
    """Of each column."""
    return np.array([mutual_information(column, y) for column in X.T])


def pair_gain(X: Levels, y: Levels) -> NDArray[np.float64]:
    """I((x_i, x_j); y) of each pair of columns: what two of them say together."""
    d, values, classes = X.shape[1], int(X.max()) + 1, int(y.max()) + 1
    hot = np.concatenate([np.equal(X, value).astype(np.float64) for value in range(values)], axis=1)
    by_class = [(hot[y == label].T @ hot[y == label]).reshape(values, d, values, d) for label in range(classes)]
    joint = np.stack(by_class) / len(y)
    pair = joint.sum(axis=0)
    prior = np.bincount(y, minlength=classes) / len(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * np.log2(joint / (pair[None] * prior[:, None, None, None, None]))
    return np.asarray(np.nansum(terms, axis=(0, 1, 3)))


def largest(scores: NDArray[np.float64], k: int) -> list[int]:
    """Of equal ones the first."""
    return [int(at) for at in np.argsort(-scores, kind="stable")[:k]]


def by_information_gain(X: Levels, y: Levels, k: int) -> list[int]:
    return largest(information_gain(X, y), k)
