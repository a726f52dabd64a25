"""STSD on dense vectors, step by step as its paper's algorithms 1 to 3 have it, and for nothing else.

Column i is the feature named str(i). A feature is in the space from the first instance in which it is not 0.
"""

from __future__ import annotations

import math

import numpy as np

from .oracles import Vector, dot, random_bits


class STSD:
    def __init__(
        self,
        d: int,
        proportion: float = 0.5,
        variant: int = 1,
        C: float = 0.1,
        lam: float = 30.0,
        selection: str = "largest",
        update: str = "pa",
        seed: int = 0,
    ) -> None:
        self.w = np.zeros(d)
        self.space = np.zeros(d, dtype=bool)
        self.B, self.variant, self.C, self.lam = proportion, variant, C, lam
        self.selection, self.update, self.seed = selection, update, seed
        self.t = self.cuts = self.ties = 0

    def learn(self, x: Vector, y: int) -> float:
        self.t += 1
        f = dot(self.w, x)
        self.space |= x != 0
        loss = max(0.0, 1 - y * f)
        square = float(x @ x)
        if self.update == "perceptron":
            tau = 1.0 if y * f <= 0 else 0.0
        elif not x.any():
            tau = 0.0
        elif self.variant == 0:
            tau = loss / square
        elif self.variant == 1:
            tau = min(self.C, loss / square)
        else:
            tau = loss / (square + 1 / (2 * self.C))
        if tau > 0:
            w_bar = self.w + tau * y * x
            length = np.abs(w_bar).sum()
            w_check = min(1.0, self.lam / length) * w_bar if length > 0 else w_bar
            self.w = self.truncate(w_check)
        return f

    def truncate(self, w: Vector) -> Vector:
        d = int(self.space.sum())
        kept = max(1, math.floor(self.B * d + 1e-9))
        if self.selection == "all":
            return w
        if self.selection == "random":
            return self.keep_some(w, kept, d) if d > kept else w
        order = np.argsort(-np.abs(w), kind="stable")
        if np.count_nonzero(w) > kept:
            self.cuts += 1
            self.ties += bool(abs(w[order[kept - 1]]) == abs(w[order[kept]]))
        w[order[kept:]] = 0
        return w

    def keep_some(self, w: Vector, kept: int, d: int) -> Vector:
        there = np.flatnonzero(w).tolist()
        places = kept
        for i in range(len(there)):
            u = (random_bits(self.seed, self.t, 0, i) >> 11) / 2**53
            places -= u * (d - i) < places
        lot = {i: random_bits(self.seed, self.t, 1, i) for i in there}
        there.sort(key=lambda i: lot[i] - 2**64 if lot[i] >= 2**63 else lot[i])
        w[there[kept - places :]] = 0
        return w
