"""A dense learner's way through the rows of a batch: one for all of them, in which a learner fills in its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import filled_in, kernel
from sluiceway.operators.kernels.dense.storage import Dense, leave_out_newcomers, room_left
from sluiceway.operators.kernels.sparse.slots import Model, Rows


def dense_loop(
    name: str,
    score: Callable[..., float],
    learn: Callable[..., bool],
    selected_now: Callable[..., np.uint64],
    make_room: Callable[..., int] = room_left,
) -> Callable[..., int]:
    """The loop of the learner of that name. Its parts:

    - `score`: f = w . x of a row
    - `make_room`: for how many features that have no weight there is room
    - `learn`: what a labelled row changes, and whether it changed any weight
    - `selected_now`: a fingerprint of the features that are selected
    """
    parts = {"_score": score, "_make_room": make_room, "_learn": learn, "_selected_now": selected_now}
    return kernel(filled_in(_learn_rows, f"learn_rows_{name}", parts))


def _learn_rows(
    rows: Rows, start: int, stop: int, m: Model, d: Dense, scores: NDArray[np.float64], until_change: bool,
    k: int, keep: float, limit: int, rule: Any,
) -> int:  # fmt: skip
    before = _selected_now(m, d, k, keep) if until_change else np.uint64(0)
    for row in range(start, stop):
        f = _score(rows, row, m, d)
        scores[row] = f
        y = rows.y[row]
        if y == 0:
            continue
        m.head[0].version += 1
        leave_out_newcomers(rows, row, m, d, _make_room(rows, row, m, d, limit))
        if y * f > rule.untouched_above:
            continue
        changed = _learn(rows, row, m, d, y, f, rule)
        if changed and until_change and _selected_now(m, d, k, keep) != before:
            return row + 1
    return stop


def _score(rows: Rows, row: int, m: Model, d: Dense) -> float:
    raise NotImplementedError  # a placeholder: `filled_in` puts a learner's own there


def _make_room(rows: Rows, row: int, m: Model, d: Dense, limit: int) -> int:
    raise NotImplementedError  # a placeholder: `filled_in` puts a learner's own there


def _learn(rows: Rows, row: int, m: Model, d: Dense, y: int, f: float, rule: Any) -> bool:
    raise NotImplementedError  # a placeholder: `filled_in` puts a learner's own there


def _selected_now(m: Model, d: Dense, k: int, keep: float) -> np.uint64:
    raise NotImplementedError  # a placeholder: `filled_in` puts a learner's own there
