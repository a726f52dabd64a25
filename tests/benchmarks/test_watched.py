"""What the benchmark of being watched says of its target."""

from __future__ import annotations

from benchmarks.watched import target


def test_a_target_that_is_met_and_one_that_is_not() -> None:
    assert target([0.005, 0.0018, 0.01]) == "below 1% of CPU: met, 0.50%; the rounds say 0.18% to 1.00%"
    assert target([0.03, 0.001, 0.04]).startswith("below 1% of CPU: NOT met, 3.00%; ")
