"""What lanes that are given the same polls share of them is what each would have found by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sluiceway.operators.bank.bank import needs_of
from sluiceway.operators.stages.shared_rows import SharedRows
from tests.operators.test_bank import columns


def test_what_a_poll_needs_is_told_of_the_poll_that_was_looked_at_alone() -> None:
    _, _, poll = columns(np.random.default_rng(1))
    shared = SharedRows()
    shared.look(poll)
    units = shared.units(poll)
    assert units is not None
    assert shared.needs(poll) == shared.needs(units) == needs_of(poll) == needs_of(units)
    assert shared.needs(replace(poll)) is None
    assert shared.units(poll) is units
    shared.look(None)
    assert shared.needs(poll) is None
    assert shared.needs(units) is None


def test_a_poll_is_plain_unless_a_row_is_a_later_label_or_may_wait_for_one() -> None:
    _, _, poll = columns(np.random.default_rng(2))
    poll = replace(poll, y=np.ones_like(poll.y), id_size=np.ones_like(poll.id_size))
    some = np.arange(len(poll)) == 3
    unlabelled = replace(poll, y=np.where(some, 0, poll.y).astype(poll.y.dtype))
    shared = SharedRows()
    for given, plain in (
        (poll, True),
        (unlabelled, False),
        (replace(unlabelled, id_size=np.zeros_like(poll.id_size)), True),
        (replace(poll, label_only=some), False),
    ):
        shared.look(given)
        assert shared.is_plain(given) == plain
        assert not shared.is_plain(replace(given))
