"""The regularised large-margin learners on dense vectors, eagerly, from the text of the papers.

Each `learn` returns the score made before learning. `L1Constrained` solves Problem 3.10 by bisection on both
multipliers, and `solved` asks a general solver for any of the problems: neither shares a thought with the kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from .oracles import Vector, dot

MARGIN = {"error": 0.0, "hinge": 1.0}


def soft(w: Vector, theta: float) -> Vector:
    return np.sign(w) * np.maximum(np.abs(w) - theta, 0.0)


class PassiveAggressive:
    def __init__(self, d: int, variant: int = 0, C: float = 1.0, trigger: str = "error") -> None:
        self.w = np.zeros(d)
        self.variant, self.C, self.margin = variant, C, MARGIN[trigger]

    def learn(self, x: Vector, y: int) -> float:
        f = dot(self.w, x)
        if y * f <= self.margin and x.any():
            loss, squares = 1 - y * f, float(x @ x)
            tau = {0: loss / squares, 1: min(self.C, loss / squares), 2: loss / (squares + 1 / (2 * self.C))}
            self.w = self.w + tau[self.variant] * y * x
        return f


class ObjectiveRegularised:
    """Lemma 3.1."""

    def __init__(self, d: int, alpha: float = 0.01, trigger: str = "error") -> None:
        self.w = np.zeros(d)
        self.alpha, self.margin = alpha, MARGIN[trigger]

    def learn(self, x: Vector, y: int) -> float:
        f = dot(self.w, x)
        if y * f <= self.margin and x.any():
            tau = (1 - y * f + self.alpha) / float(x @ x)
            self.w = (self.w + tau * y * x) / (1 + self.alpha)
        return f


class L2Constrained:
    """Lemma 3.2."""

    def __init__(self, d: int, beta: float = 10.0, trigger: str = "error") -> None:
        self.w = np.zeros(d)
        self.beta, self.margin = beta, MARGIN[trigger]

    def learn(self, x: Vector, y: int) -> float:
        f = dot(self.w, x)
        if y * f <= self.margin and x.any():
            squares = float(x @ x)
            if self.beta**2 * squares <= 1:
                self.w = self.beta * y * x / np.sqrt(squares)
                return f
            inside = (float(self.w @ self.w) * squares - f * f) / (self.beta**2 * squares - 1)
            Z = max(1.0, np.sqrt(max(inside, 0.0)))
            tau = (Z - y * f) / squares
            self.w = (self.w + tau * y * x) / Z
        return f


class L1Constrained:
    """Problem 3.10: the soft threshold of w + τ y x, both multipliers found as roots."""

    def __init__(self, d: int, beta: float = 100.0, trigger: str = "error") -> None:
        self.w = np.zeros(d)
        self.beta, self.margin = beta, MARGIN[trigger]

    def learn(self, x: Vector, y: int) -> float:
        f = dot(self.w, x)
        if y * f <= self.margin and x.any():
            self.w = l1_step(self.w, x, y, self.beta)
        return f


def l1_step(w: Vector, x: Vector, y: int, beta: float) -> Vector:
    top = int(np.argmax(np.abs(x)))
    if beta * abs(x[top]) <= 1:
        vertex = np.zeros_like(w)
        vertex[top] = beta * y * np.sign(x[top])
        return vertex
    point = w + (1 - y * float(w @ x)) / float(x @ x) * y * x
    if np.abs(point).sum() <= beta:
        return point

    def at(theta: float) -> Vector:
        def margin(tau: float) -> float:
            return y * float(x @ soft(w + tau * y * x, theta)) - 1

        return soft(w + root_of(margin) * y * x, theta)

    theta = -root_of(lambda negative: np.abs(at(-negative)).sum() - beta)
    return at(theta)


def root_of(rising: Callable[[float], float]) -> float:
    """The root of a function that does not fall, between ends that are moved out until it lies there."""
    low, high = -1.0, 1.0
    while rising(low) > 0:
        low *= 2
    while rising(high) < 0:
        high *= 2
    return float(brentq(rising, low, high, xtol=1e-15, rtol=1e-15))


class Norma:
    def __init__(self, d: int, eta: float = 0.1, lam: float = 0.001, rho: float = 1.0) -> None:
        self.w = np.zeros(d)
        self.eta, self.lam, self.rho = eta, lam, rho

    def learn(self, x: Vector, y: int) -> float:
        f = dot(self.w, x)
        self.w = (1 - self.eta * self.lam) * self.w
        if y * f <= self.rho:
            self.w = self.w + self.eta * y * x
        return f


class Fobos:
    def __init__(
        self, d: int, eta: float = 1.0, lam: float = 0.001, schedule: str = "sqrt", trigger: str = "hinge"
    ) -> None:
        self.w = np.zeros(d)
        self.eta, self.lam, self.schedule, self.margin = eta, lam, schedule, MARGIN[trigger]
        self.t = 0

    def learn(self, x: Vector, y: int) -> float:
        f = dot(self.w, x)
        self.t += 1
        eta = self.eta / np.sqrt(self.t) if self.schedule == "sqrt" else self.eta
        half = self.w + eta * y * x if y * f <= self.margin else self.w
        self.w = soft(half, eta * self.lam)
        return f


def solved(w: Vector, x: Vector, y: int, *, alpha: float = 0.0, l2: float = 0.0, l1: float = 0.0) -> Vector:
    """The problem handed to SLSQP: w' = p - n with p, n >= 0, so that the L1 norm is smooth."""
    d = len(w)

    def whole(v: Vector) -> Vector:
        return np.asarray(v[:d] - v[d:])

    def objective(v: Vector) -> float:
        u = whole(v)
        return float(0.5 * ((u - w) ** 2).sum() + 0.5 * alpha * (u**2).sum())

    def gradient(v: Vector) -> NDArray[np.float64]:
        u = whole(v)
        g = (u - w) + alpha * u
        return np.concatenate((g, -g))

    constraints: list[Any] = [{"type": "ineq", "fun": lambda v: y * float(whole(v) @ x) - 1}]
    if l2:
        constraints.append({"type": "ineq", "fun": lambda v: l2**2 - float(whole(v) @ whole(v))})
    if l1:
        constraints.append({"type": "ineq", "fun": lambda v: l1 - float(v.sum())})
    start = np.concatenate((np.maximum(w, 0), np.maximum(-w, 0)))
    found: Any = minimize(
        objective,
        start,
        jac=gradient,
        bounds=[(0, None)] * (2 * d),
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return whole(found.x)
