"""`[flow] memory`: what may stand there, and who gets how much."""

from __future__ import annotations

import pytest

from sluiceway.errors import SettingsError
from sluiceway.flows.memory import Memory, bytes_of, memory_of


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ("64MB", 64_000_000),
        ("1GB", 10**9),
        (" 1.5 gb", 1_500_000_000),
        ("1GiB", 2**30),
        ("2000kb", 2_000_000),
        ("1000000B", 10**6),
        ("1000000", 10**6),
        (1_000_000, 10**6),
    ],
)
def test_sizes(given: object, size: int) -> None:
    assert bytes_of(given) == size


@pytest.mark.parametrize("given", ["", "much", "MB", "64 horses", "-1MB", "1e9", True, 1.5, None, ["64MB"]])
def test_what_is_no_size(given: object) -> None:
    with pytest.raises(SettingsError) as refusal:
        bytes_of(given)
    assert str(refusal.value) == (
        f'flow.memory = {given!r}: it must be a size such as "64MB" or "1GB", or a number of bytes'
    )


@pytest.mark.parametrize("given", ["10KB", 0, -5, 999_999])
def test_too_little(given: object) -> None:
    with pytest.raises(SettingsError, match=r"flow\.memory = .*: it must be at least 1MB"):
        bytes_of(given)


def test_too_little_for_the_lanes_that_a_process_may_have() -> None:
    with pytest.raises(SettingsError, match=r"too little for 40 lanes, .*: give it at least 10MB"):
        Memory(9_000_000, 40)
    assert Memory(10_000_000, 40).cache == 10_000_000 // 8 // 40


def test_lanes_have_equal_parts_of_what_caches_leave() -> None:
    assert memory_of(None, 4) is None
    memory = memory_of(8_000_000, 4)
    assert memory is not None
    first = memory.part()
    assert first.size == 7_000_000
    others = [memory.part() for _ in range(3)]
    assert [part.size for part in (first, *others)] == [1_750_000] * 4
    first.close()
    first.close()
    assert [part.size for part in others] == [7_000_000 // 3] * 3
