"""What the benchmark of being watched says of its target."""

from __future__ import annotations

from benchmarks.watched import target


def test_a_target_that_is_met_and_one_that_is_not() -> None:
    bare = [100.0, 110.0, 90.0]
    assert target({"bare": bare, "on": [100.5, 110.2, 90.9]}) == (
        "below 1% of CPU: met, +0.50%; the rounds say +0.18% to +1.00%"
    )
    assert target({"bare": bare, "on": [103.0, 110.0, 92.7]}).startswith("below 1% of CPU: NOT met, +3.00%; ")
