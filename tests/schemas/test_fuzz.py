"""A small part of `python -m benchmarks.agreement`: random records, read three ways."""

from __future__ import annotations

from benchmarks.agreement import differences


def test_however_records_are_read_they_say_the_same() -> None:
    found = differences(4000, seed=1)
    assert found.differences == 0
    assert found.refused > 1000
    assert 1000 < found.by_hand < 3000
