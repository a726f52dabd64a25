"""Feature selection as a game, a comparator of the large-margin paper: we choose k features, an opponent answers.

    max_u min_v u'Mv    over 0 <= u, v <= 1,  Σu = Σv = k

is a linear programme, by the dual of the opponent's side:

    max  k s - Σt    s.t.  s - t_j <= (M'u)_j,  t >= 0,  0 <= u <= 1,  Σu = k
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from benchmarks.comparators.information import Levels, largest, pair_gain


def strategy(M: NDArray[np.float64], k: int) -> tuple[NDArray[np.float64], float]:
    """(u, the value of the game)."""
    d = len(M)
    cost = np.concatenate((np.zeros(d), np.ones(d), [-float(k)]))  # of (u, t, s)
    answers = np.hstack((-M.T, -np.eye(d), np.ones((d, 1))))
    total = np.concatenate((np.ones(d), np.zeros(d + 1)))[None, :]
    found: Any = linprog(
        cost,
        A_ub=answers,
        b_ub=np.zeros(d),
        A_eq=total,
        b_eq=[float(k)],
        bounds=[(0, 1)] * d + [(0, None)] * d + [(None, None)],
        method="highs",
    )
    if found.status != 0:
        raise ArithmeticError(f"the linear programme was not solved: {found.message}")
    return np.asarray(found.x[:d]), -float(found.fun)


def by_game(X: Levels, y: Levels, k: int) -> list[int]:
    """The k largest of the strategy for M = what each pair of features says of the class."""
    u, _ = strategy(pair_gain(X, y), k)
    return largest(u, k)
