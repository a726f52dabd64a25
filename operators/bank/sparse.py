"""OFS in a bank: the kernel that a single model has, a row at a time on whichever model the row belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.bank import Bank, Emission
from sluiceway.operators.bank.book import Book
from sluiceway.operators.bank.rows import (
    LABEL_OF_NOTHING,
    Poll,
    Scratch,
    all_moved,
    count_row,
    model_view,
    open_row,
    row_view,
    settle,
    unbind,
)
from sluiceway.operators.learners.ofs import OFS, learn_rows


@kernel
def advance_ofs(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    k: int, eta: float, radius: float, shrink: float,
) -> int:  # fmt: skip
    while row < len(poll.y):
        at = poll.model[row]
        before, version = heads[at].active, heads[at].version
        if poll.kind[row] == LABEL_OF_NOTHING:
            scores[row] = 0.0
            row += 1
            continue
        if not open_row(poll, arena, heads, scratch, row, k, scaled):
            return ~row
        learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row),
            scores[row : row + 1], False, k, eta, radius, shrink,
        )  # fmt: skip
        if heads[at].moves > 0:
            settle(poll, arena, heads, scratch, book, row, before, all_moved(heads, at, scratch))
        unbind(poll, arena, heads, scratch, row, before)
        row += 1
        if count_row(poll, heads, scores, row - 1, version, every, on_change, min_gap):
            scratch.signal[0] = 1
            return row
    return row


class BankedOFS:
    """What a bank needs of OFS: its parameters and its loop."""

    def __init__(self, model: OFS) -> None:
        given = model.params
        self._k, self._eta = given["k"], given["eta"]
        self._radius = 1.0 / float(np.sqrt(given["lam"]))
        self._shrink = 1.0 - given["lam"] * given["eta"] if given["decay"] else 1.0

    @property
    def slots_at_most(self) -> int:
        return int(self._k)

    def advance_bank(self, bank: Bank, row: int, poll: Poll, scores: NDArray[np.float64], emit: Emission) -> int:
        return advance_ofs(
            row, poll, bank.arena, bank.heads, bank.scratch, bank.book, scores, bank.scaled,
            emit.every, emit.on_change, emit.min_gap, self._k, self._eta, self._radius, self._shrink,
        )  # fmt: skip
