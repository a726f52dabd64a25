"""What came out against what should have: byte for byte, in order, nothing missing, nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple


class Out(NamedTuple):
    """A record as a reader sees it; of a directory topic, the line alone."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Output = Mapping[str, Mapping[int, Sequence[Out]]]
"""By what it carries (selections, predictions, dead_letters) and partition."""


def count(output: Output) -> int:
    return sum(len(records) for partitions in output.values() for records in partitions.values())


def differences(expected: Output, found: Output) -> list[str]:
    """A sentence for each partition that is not the same."""
    wrong = []
    for carries, partitions in expected.items():
        for partition, records in partitions.items():
            got = found[carries][partition]
            if list(got) != list(records):
                wrong.append(f"{carries} {partition}: {_described(records, got)}")
    return wrong


def prefix_differences(expected: Output, found: Output) -> list[str]:
    """As `differences`, for output that is not complete yet."""
    cut = {
        carries: {partition: records[: len(found[carries][partition])] for partition, records in partitions.items()}
        for carries, partitions in expected.items()
    }
    return differences(cut, found)


class Wrong(NamedTuple):
    """How many records are."""

    missing: int
    repeated: int
    strange: int

    def __str__(self) -> str:
        return f"{self.missing:,} missing, {self.repeated:,} repeated, {self.strange:,} that never should have been"


def count_wrong(expected: Output, found: Output) -> Wrong:
    """In all partitions together; what is out of order counts as right here."""
    each = [
        _wrong(records, found[carries][partition])
        for carries, partitions in expected.items()
        for partition, records in partitions.items()
    ]
    return Wrong(*map(sum, zip(*each, strict=True)))


def _wrong(expected: Sequence[Hashable], got: Sequence[Hashable]) -> Wrong:
    wanted, have = Counter(expected), Counter(got)
    missing, extra = wanted - have, have - wanted
    repeated = sum(number for record, number in extra.items() if record in wanted)
    return Wrong(missing.total(), repeated, extra.total() - repeated)


def _described(expected: Sequence[Hashable], got: Sequence[Hashable]) -> str:
    pairs = enumerate(zip(expected, got, strict=False))
    first = next((at for at, (wants, has) in pairs if wants != has), min(len(expected), len(got)))
    shown = "\n  ".join(
        f"{name} {records[first] if first < len(records) else 'nothing'}"
        for name, records in (("expected", expected), ("found", got))
    )
    return (
        f"{len(got)} records instead of {len(expected)}: {_wrong(expected, got)};"
        f" the first difference is at {first}:\n  {shown}"
    )


def rewinds(expected: Sequence[Out], got: Sequence[Out]) -> int:
    """How often an at-least-once partition goes back and repeats; anything but exact repeats is an error."""
    place = {record: at for at, record in enumerate(expected)}
    assert len(place) == len(expected), "the reference repeats itself"
    back, last = 0, -1
    for record in got:
        assert record in place, f"a record that never should have been: {record}"
        at = place[record]
        if at != last + 1:
            assert at <= last, f"{at - last - 1} records are missing before {record}"
            back += 1
        last = at
    assert last == len(expected) - 1, f"{len(expected) - 1 - last} records are missing at the end"
    return back
