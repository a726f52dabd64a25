"""The dense learners' loop in a bank: the kernel that a single model has, a row at a time on whichever model the row
belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import filled_in, kernel, loop_kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.book import Book
from sluiceway.operators.bank.dense_rows import close_row, gather, scatter
from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, Poll, Scratch, model_view, open_row, row_view
from sluiceway.operators.kernels.dense.storage import Dense
from sluiceway.operators.kernels.sparse.slots import Model, Rows
from sluiceway.operators.learners.by_name import ByNameLearner
from sluiceway.operators.learners.dense import DenseLearner


def bank_loop(learner: type[DenseLearner]) -> Callable[..., int]:
    """That of a learner: it is the learner's kernel that is called, and weights that this wants by name are brought."""
    parts = {"_learn_rows": learner.KERNEL, "_before": _in_slots, "_after": _in_slots}
    if issubclass(learner, ByNameLearner):
        parts |= {"_before": gather, "_after": scatter}
    return loop_kernel(filled_in(_advance, f"advance_{learner.NAME.replace('-', '_')}", parts))


def _advance(
    row: int, poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, book: Book,
    scores: NDArray[np.float64], scaled: bool, every: int, on_change: bool, min_gap: int,
    k: int, keep: float, limit: int, rule: Any,
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
        _before(poll, arena, heads, scratch, d, row)
        _learn_rows(
            row_view(poll, scratch, row), 0, 1, model_view(poll, arena, heads, scratch, row), d,
            scores[row : row + 1], False, k, keep, limit, rule,
        )  # fmt: skip
        _after(poll, arena, heads, scratch, d, row)
        row += 1
        if close_row(
            poll, arena, heads, scratch, d, book, scores, row - 1, before, version, every, on_change, min_gap,
            k, keep, rule.untouched_above,
        ):  # fmt: skip
            scratch.signal[0] = 1
            return row
    return row


@kernel
def _in_slots(poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, row: int) -> None:
    """Where the weights stand all the time, and where they are wanted."""


def _before(poll: Poll, arena: Arena, heads: NDArray[Any], scratch: Scratch, d: Dense, row: int) -> None:
    raise NotImplementedError  # a placeholder: `filled_in` puts a learner's own there


_after = _before


def _learn_rows(
    rows: Rows, start: int, stop: int, m: Model, d: Dense, scores: NDArray[np.float64], until_change: bool,
    k: int, keep: float, limit: int, rule: Any,
) -> int:  # fmt: skip
    raise NotImplementedError  # a placeholder: `filled_in` puts a learner's own there
