"""The rules of the papers on dense vectors, written to be obviously right and for nothing else.

Column i is the feature named str(i), so the smaller feature key is the smaller index. Each returns the score
made before learning; `Truncation` counts how often a cut went through equal weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def dot(w: Vector, x: Vector) -> float:
    """Summed from left to right: which side of a margin a sum of tenths falls on depends on the order."""
    f = 0.0
    for part in (w * x).tolist():
        f += part
    return f


class Truncation:
    def __init__(self, B: int) -> None:
        self.B = B
        self.cuts = self.ties = 0

    def __call__(self, w: Vector) -> Vector:
        order = np.argsort(-np.abs(w), kind="stable")
        if np.count_nonzero(w) > self.B:
            self.cuts += 1
            self.ties += abs(w[order[self.B - 1]]) == abs(w[order[self.B]])
        kept = np.zeros_like(w)
        kept[order[: self.B]] = w[order[: self.B]]
        return kept


class OFS:
    def __init__(self, d: int, k: int, eta: float = 0.2, lam: float = 0.01, decay: bool = False) -> None:
        self.w = np.zeros(d)
        self.truncate = Truncation(k)
        self.eta, self.lam, self.decay = eta, lam, decay

    def learn(self, x: Vector, y: int) -> float:
        f = dot(self.w, x)
        if self.decay:
            self.w = (1 - self.lam * self.eta) * self.w
        if y * f <= 1:
            v = self.w + self.eta * y * x
            length = np.linalg.norm(v)
            if length > 0:
                v = v * min(1.0, 1 / np.sqrt(self.lam) / length)
            self.w = self.truncate(v)
        return f


class PerceptronTruncated:
    def __init__(self, d: int, k: int) -> None:
        self.w = np.zeros(d)
        self.truncate = Truncation(k)

    def learn(self, x: Vector, y: int) -> float:
        f = dot(self.w, x)
        if y * f <= 0:
            self.w = self.truncate(self.w + y * x)
        return f


def mix64(z: int) -> int:
    z &= 2**64 - 1
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def random_bits(seed: int, instance: int, purpose: int, counter: int) -> int:
    golden = 0x9E3779B97F4A7C15
    z = mix64(seed + golden)
    for part in (instance, purpose, counter):
        z = mix64(z + part * golden)
    return z


class PerceptronRandom:
    """Which weights stay: first how many, then those with the smallest random numbers (as signed integers)."""

    def __init__(self, d: int, k: int, seed: int = 0) -> None:
        self.w = np.zeros(d)
        self.seen: set[int] = set()
        self.k, self.seed = k, seed
        self.instance = 0

    def learn(self, x: Vector, y: int) -> float:
        f = dot(self.w, x)
        self.instance += 1
        self.seen |= set(np.flatnonzero(x).tolist())
        if y * f <= 0:
            self.w = self.w + y * x
            if len(self.seen) > self.k:
                self.keep_some()
        return f

    def keep_some(self) -> None:
        there = np.flatnonzero(self.w).tolist()
        places = self.k
        for i in range(len(there)):
            u = (random_bits(self.seed, self.instance, 0, i) >> 11) / 2**53
            places -= u * (len(self.seen) - i) < places
        staying = self.k - places
        lot = {i: random_bits(self.seed, self.instance, 1, i) for i in there}
        there.sort(key=lambda i: lot[i] - 2**64 if lot[i] >= 2**63 else lot[i])
        self.w[there[staying:]] = 0
