"""The nearest point with a given margin inside a ball of the L1 norm.

    min ½‖w' - w‖²    s.t.  x . w' = t,  ‖w'‖₁ <= β

is S_θ(w + τ x), S the soft threshold. For each θ the margin rises with τ in straight pieces, so τ(θ) is a root found
by Newton's steps: the step from the right piece is exact. With it the L1 norm falls with θ, again in straight pieces
(the slope is (Σ aσ)²/Σ a² - n <= 0 over the n weights that are not 0), and its root is found in the same way. A
bracket is kept all along; a step that would leave it becomes a bisection.

Features of the row come as a = |x| and z = w turned to the side of x; of all others |w| is enough, in `rest`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel

_STEPS = 200
_NEWTON = 60
"""Steps before bisection alone goes on."""
_ROUNDING = 4.0 * 2.0**-52

Vector = NDArray[np.float64]


@kernel
def reach(a: Vector, z: Vector, theta: float, target: float, tau: float) -> float:
    """τ with Σ a S_θ(z + τ a) = target; the search starts at the τ given."""
    low, high = -np.inf, np.inf
    for step in range(_STEPS):
        got = size = slope = 0.0
        for i in range(len(a)):
            there = z[i] + tau * a[i]
            if abs(there) > theta:
                part = a[i] * (there - theta if there > 0.0 else there + theta)
                got += part
                size += abs(part)
                slope += a[i] * a[i]
        if abs(target - got) <= 2.0**-53 * (size + target):
            return tau
        if got < target:
            low = tau
        else:
            high = tau
        if slope > 0.0:
            nearer = tau + (target - got) / slope
        else:  # nothing there yet: no later than where one feature alone gives the margin
            nearer = np.inf
            for i in range(len(a)):
                if a[i] > 0.0:
                    nearer = min(nearer, (theta - z[i] + target / a[i]) / a[i])
        if not low < nearer < high or (step > _NEWTON and low > -np.inf and high < np.inf):
            nearer = low + 0.5 * (high - low)
        if nearer in (tau, low, high) or not np.isfinite(nearer):
            return tau
        tau = nearer
    return tau


@kernel
def _left(rest: Vector, first: int, last: int, theta: float) -> tuple[float, int]:
    """Σ max(rest - θ, 0) and how many are above 0: no branch to mispredict, four sums that need not wait."""
    a = b = c = d = 0.0
    alive = 0
    whole = first + (last - first) // 4 * 4
    for i in range(first, whole, 4):
        a += max(rest[i] - theta, 0.0)
        b += max(rest[i + 1] - theta, 0.0)
        c += max(rest[i + 2] - theta, 0.0)
        d += max(rest[i + 3] - theta, 0.0)
    for i in range(whole, last):
        a += max(rest[i] - theta, 0.0)
    for i in range(first, last):
        alive += rest[i] > theta
    return (a + b) + (c + d), alive


@kernel
def nearest(
    a: Vector, z: Vector, rest: Vector, first: int, last: int, target: float, beta: float
) -> tuple[float, float]:
    """(τ, θ); of `rest` only [first, last) counts."""
    low, high = 0.0, np.inf
    theta = tau = 0.0
    for step in range(_STEPS):
        tau = reach(a, z, theta, target, tau)
        norm = signs = squares = 0.0
        there = 0
        for i in range(len(a)):
            value = z[i] + tau * a[i]
            if abs(value) > theta:
                norm += abs(value) - theta
                signs += a[i] if value > 0.0 else -a[i]
                squares += a[i] * a[i]
                there += 1
        left, alive = _left(rest, first, last, theta)
        norm += left
        there += alive
        if (theta == 0.0 and norm <= beta) or abs(norm - beta) <= _ROUNDING * beta:
            break
        if norm > beta:
            low = theta
        else:
            high = theta
        slope = signs * signs / squares - there if squares > 0.0 else -float(there)
        nearer = 2.0 * theta + target  # where the norm stays until a feature with a larger |x| comes in
        if slope < -1e-12 * there:
            nearer = theta + (beta - norm) / slope
        if not low < nearer < high or (step > _NEWTON and high < np.inf):
            nearer = low + 0.5 * (high - low)
        if nearer in (theta, low, high) or not np.isfinite(nearer):
            break
        theta = nearer
    return tau, theta
