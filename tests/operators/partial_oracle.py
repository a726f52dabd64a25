"""Learning with partial input on dense vectors, as algorithm 4 of the OFS paper has it, and for nothing else.

Column i is the feature named str(i). The d features to draw from are those of the instances before, numbered in
order of arrival, within an instance by their names.
"""

from __future__ import annotations

import numpy as np

from .oracles import Truncation, Vector, dot, random_bits


class Partial:
    def __init__(self, d: int, k: int, seed: int) -> None:
        self.w = np.zeros(d)
        self.features: list[int] = []
        self.k, self.seed, self.t = k, seed, 0
        self.truncate = Truncation(k)
        self.cuts = 0

    def uniform(self, purpose: int, counter: int) -> float:
        return (random_bits(self.seed, self.t, purpose, counter) >> 11) / 2**53

    def random_set(self) -> set[int]:
        """Floyd's: for each of the last k numbers, a number up to it, or itself if that is taken."""
        d = len(self.features)
        numbers: set[int] = set()
        for last in range(max(d - self.k, 0), d):
            number = int(self.uniform(3, last) * (last + 1))
            numbers.add(last if number in numbers else number)
        return {self.features[number] for number in numbers}

    def see(self, x: Vector) -> None:
        self.features += [i for i in np.flatnonzero(x).tolist() if i not in self.features]

    def cut(self, w: Vector) -> Vector:
        self.cuts += int(np.count_nonzero(w) > self.k)
        return self.truncate(w)


class OFSPartial(Partial):
    def __init__(
        self,
        d: int,
        k: int,
        epsilon: float = 0.2,
        eta: float = 0.2,
        radius: float = 10.0,
        margin: int = 1,
        input: str = "greedy",  # noqa: A002
        seed: int = 0,
    ) -> None:
        super().__init__(d, k, seed)
        self.epsilon, self.eta, self.R, self.m, self.input = epsilon, eta, radius, margin, input

    def wanted(self) -> set[int]:
        if self.input == "random" or self.uniform(2, 0) < self.epsilon:
            return self.random_set()
        return set(np.flatnonzero(self.w).tolist())

    def learn(self, x: Vector, y: int) -> float:
        self.t += 1
        C = self.wanted()
        d = len(self.features)
        seen = np.array([value if i in C else 0.0 for i, value in enumerate(x.tolist())])
        f = dot(self.w, seen)
        self.see(x)
        if y * f <= self.m and d > 0:
            chance = min(self.k / d, 1.0) * self.epsilon + (self.w != 0) * (1 - self.epsilon)
            estimate = seen if self.input == "random" else seen / chance
            w = self.w + y * self.eta * estimate
            length = np.linalg.norm(w)
            if length > 0:
                w = min(1.0, self.R / length) * w
            self.w = self.cut(w)
        return f


class PerceptronPartial(Partial):
    def __init__(self, d: int, k: int, selection: str = "largest", seed: int = 0) -> None:
        super().__init__(d, k, seed)
        self.selection = selection

    def learn(self, x: Vector, y: int) -> float:
        self.t += 1
        C = self.random_set()
        d = len(self.features)
        seen = np.array([value if i in C else 0.0 for i, value in enumerate(x.tolist())])
        f = dot(self.w, seen)
        self.see(x)
        if y * f <= 0:
            w = self.w + y * seen
            if self.selection == "largest":
                self.w = self.cut(w)
            else:
                self.w = self.keep_some(w, d) if d > self.k else w
        return f

    def keep_some(self, w: Vector, d: int) -> Vector:
        there = np.flatnonzero(w).tolist()
        places = self.k
        for i in range(len(there)):
            places -= self.uniform(0, i) * (d - i) < places
        lot = {i: random_bits(self.seed, self.t, 1, i) for i in there}
        there.sort(key=lambda i: lot[i] - 2**64 if lot[i] >= 2**63 else lot[i])
        w[there[self.k - places :]] = 0
        return w
