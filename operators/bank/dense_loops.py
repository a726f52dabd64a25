"""The dense learners' loops in a bank: each calls the kernel that a single model has, a row at a time.

They differ in the kernel and its parameters alone. They are written out because a compiled function that is handed
over as an argument could not be kept on disk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import loop_kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.book import Book
from sluiceway.operators.bank.dense_rows import close_row, gather, scatter
from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, Poll, Scratch, model_view, open_row, row_view
from sluiceway.operators.kernels.dense.storage import Dense
from sluiceway.operators.learners import fobos, norma, pa, pa_l1, pa_l2, pa_objective


@loop_kernel
def advance_pa(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    k: int, keep: float, limit: int, margin: float, variant: int, C: float,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        if not open_row(poll, arena, heads, scratch, row, limit, scaled):
            return ~row
        gather(poll, arena, heads, scratch, d, row)
        pa.learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row), d,
            scores[row : row + 1], False, k, keep, limit, margin, variant, C,
        )  # fmt: skip
        scatter(poll, arena, heads, scratch, d, row)
        row += 1
        if close_row(
            poll, arena, heads, scratch, d, book, scores, row - 1, before, version, every, on_change, min_gap,
            k, keep, margin,
        ):  # fmt: skip
            scratch.signal[0] = 1
            return row
    return row


@loop_kernel
def advance_pa_objective(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    k: int, keep: float, limit: int, margin: float, alpha: float,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        if not open_row(poll, arena, heads, scratch, row, limit, scaled):
            return ~row
        gather(poll, arena, heads, scratch, d, row)
        pa_objective.learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row), d,
            scores[row : row + 1], False, k, keep, limit, margin, alpha,
        )  # fmt: skip
        scatter(poll, arena, heads, scratch, d, row)
        row += 1
        if close_row(
            poll, arena, heads, scratch, d, book, scores, row - 1, before, version, every, on_change, min_gap,
            k, keep, margin,
        ):  # fmt: skip
            scratch.signal[0] = 1
            return row
    return row


@loop_kernel
def advance_pa_l1(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    k: int, keep: float, limit: int, margin: float, beta: float,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        if not open_row(poll, arena, heads, scratch, row, limit, scaled):
            return ~row
        pa_l1.learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row), d,
            scores[row : row + 1], False, k, keep, limit, margin, beta,
        )  # fmt: skip
        row += 1
        if close_row(
            poll, arena, heads, scratch, d, book, scores, row - 1, before, version, every, on_change, min_gap,
            k, keep, margin,
        ):  # fmt: skip
            scratch.signal[0] = 1
            return row
    return row


@loop_kernel
def advance_pa_l2(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    k: int, keep: float, limit: int, margin: float, beta: float,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        if not open_row(poll, arena, heads, scratch, row, limit, scaled):
            return ~row
        gather(poll, arena, heads, scratch, d, row)
        pa_l2.learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row), d,
            scores[row : row + 1], False, k, keep, limit, margin, beta,
        )  # fmt: skip
        scatter(poll, arena, heads, scratch, d, row)
        row += 1
        if close_row(
            poll, arena, heads, scratch, d, book, scores, row - 1, before, version, every, on_change, min_gap,
            k, keep, margin,
        ):  # fmt: skip
            scratch.signal[0] = 1
            return row
    return row


@loop_kernel
def advance_norma(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    k: int, keep: float, limit: int, eta: float, shrinking: float, rho: float,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        if not open_row(poll, arena, heads, scratch, row, limit, scaled):
            return ~row
        gather(poll, arena, heads, scratch, d, row)
        norma.learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row), d,
            scores[row : row + 1], False, k, keep, limit, eta, shrinking, rho,
        )  # fmt: skip
        scatter(poll, arena, heads, scratch, d, row)
        row += 1
        if close_row(
            poll, arena, heads, scratch, d, book, scores, row - 1, before, version, every, on_change, min_gap,
            k, keep, np.inf,
        ):  # fmt: skip
            scratch.signal[0] = 1
            return row
    return row


@loop_kernel
def advance_fobos(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    k: int, keep: float, limit: int, margin: float, eta: float, lam: float, falling: bool,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        if not open_row(poll, arena, heads, scratch, row, limit, scaled):
            return ~row
        fobos.learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row), d,
            scores[row : row + 1], False, k, keep, limit, margin, eta, lam, falling,
        )  # fmt: skip
        row += 1
        if close_row(
            poll, arena, heads, scratch, d, book, scores, row - 1, before, version, every, on_change, min_gap,
            k, keep, np.inf,
        ):  # fmt: skip
            scratch.signal[0] = 1
            return row
    return row
