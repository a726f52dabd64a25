"""What records mean, whatever the order in which partitions are read and wherever a service was interrupted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway import SplitStreamError
from sluiceway.client import StreamName, Subscription, _Mark, _Streams
from sluiceway.topics.feeds import Entry
from tests.client.snapshots import key, value

History = Sequence[int | None]
"""The versions of one stream in one partition; None is a tombstone."""
TOMBSTONE = None


class ListFeed:
    """Entries from a list, some at a time; the topic ended after the first `held` of them."""

    def __init__(self, entries: Sequence[Entry], held: int, at_once: int = 1) -> None:
        self._entries = list(entries)
        self._held = held
        self._at_once = at_once
        self._given = 0

    @property
    def caught_up(self) -> bool:
        return self._given >= self._held

    @property
    def ended(self) -> bool:
        return self._given == len(self._entries)

    @property
    def reachable(self) -> bool:
        return True

    def poll(self, seconds: float) -> Sequence[Entry]:
        begin, self._given = self._given, min(self._given + self._at_once, len(self._entries))
        return self._entries[begin : self._given]

    def close(self) -> None:
        pass


def partition(number: int, history: History) -> list[Entry]:
    return [
        Entry(number, offset, key(), None if version is None else value(version))
        for offset, version in enumerate(history)
    ]


def interleaved(one: Sequence[Entry], other: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Every order in which two partitions can be read."""
    length = len(one) + len(other)
    for places in itertools.combinations(range(length), len(one)):
        first, second = iter(one), iter(other)
        yield [next(first) if place in places else next(second) for place in range(length)]


def subscription(
    entries: Sequence[Entry],
    held: int,
    start: str,
    after: dict[tuple[str, str], str] | None = None,
    at_once: int = 1,
    retired: Callable[[StreamName, int], object] | None = None,
) -> Subscription:
    marks = {name: _Mark.parse(mark) for name, mark in (after or {}).items()}
    streams = _Streams("t", None, None, marks)  # type: ignore[arg-type]
    return Subscription(ListFeed(entries, held, at_once), streams, start == "current", None, None, retired)


@pytest.mark.parametrize("start", ["beginning", "current"])
@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([10, 20], [7], "split"),
        ([10, 20, TOMBSTONE], [7, TOMBSTONE], []),
        ([10, 20], [7, 8, TOMBSTONE], [20]),
        ([10, 20, TOMBSTONE], [7, 8], [8]),
        ([10, TOMBSTONE, 30], [7, TOMBSTONE], [30]),
        ([10, TOMBSTONE, 30], [7, TOMBSTONE, 9], "split"),
    ],
)
def test_what_stands_in_a_topic_is_judged_when_it_has_been_read(
    one: History, other: History, expected: list[int] | str, start: str
) -> None:
    """By where the stream is alive then: `retire` mends a split at once, before any compaction."""
    for entries in interleaved(partition(0, one), partition(1, other)):
        reading = subscription(entries, len(entries), start)
        if expected == "split":
            with pytest.raises(SplitStreamError, match="spam/mail stand in the partitions 0 and 1"):
                list(reading)
        elif start == "current":
            assert [snapshot.version for snapshot in reading] == expected
        else:
            found = [snapshot.version for snapshot in reading]
            assert sorted(found) == sorted(version for version in (*one, *other) if version is not None)


def test_a_split_that_comes_is_told_at_once() -> None:
    entries = [*partition(0, [10]), *partition(1, [7]), *partition(0, [20])]
    reading = subscription(entries, 1, "beginning")
    assert next(reading).version == 10
    with pytest.raises(SplitStreamError):
        next(reading)


@pytest.mark.parametrize("at_once", [1, 3, 9])
def test_a_retirement_is_told_between_the_snapshots_around_it(at_once: int) -> None:
    happened: list[object] = []
    entries = [*partition(0, [10, TOMBSTONE, TOMBSTONE, 20, 30]), *partition(1, [7, TOMBSTONE])]
    reading = subscription(entries, len(entries), "beginning", None, at_once, lambda *ended: happened.append(ended))
    for snapshot in reading:
        happened.append((snapshot.version, reading.partition))
    name = StreamName("spam", "mail")
    assert happened == [(10, 0), (name, 0), (20, 0), (30, 0), (7, 1), (name, 1)]


def test_it_has_caught_up_when_all_that_stood_there_has_been_handed_out() -> None:
    reading = subscription(partition(0, [10, 20, 30]), 2, "beginning")
    assert [(next(reading).version, reading.caught_up) for _ in range(3)] == [(10, False), (20, False), (30, True)]


def test_what_was_handled_before_and_after_a_retirement() -> None:
    history = partition(0, [10_000, 12_000, TOMBSTONE, 1000, 2000, 3000])
    everything = subscription(history, 6, "beginning")
    marks = []
    for _ in everything:
        marks.append(dict(everything.marks))
    for start in ("beginning", "current"):
        assert list(subscription(history, 6, start, marks[-1])) == []
    of_before = subscription(history, 6, "beginning", marks[1])
    assert [snapshot.version for snapshot in of_before] == [1000, 2000, 3000]
    of_after = subscription(history, 6, "beginning", marks[2])
    assert [snapshot.version for snapshot in of_after] == [2000, 3000]
    assert [snapshot.version for snapshot in subscription(history, 6, "current", marks[1])] == [3000]


def test_what_comes_again_after_the_handled_one_was_compacted_away() -> None:
    """Then only its version tells that the repeats are no news."""
    history = partition(0, [20, 30, 20, 30, 40])
    reading = subscription(history, 5, "beginning")
    next(reading), next(reading)
    for left in (history[2:], history[3:]):
        again = subscription(left, len(left), "beginning", dict(reading.marks))
        assert [snapshot.version for snapshot in again] == [40]


@st.composite
def histories(draw: st.DrawFn) -> list[int | None]:
    """Lives of a stream, one after the other, each with the repeats that crashes leave."""
    history: list[int | None] = []
    for _ in range(draw(st.integers(1, 3))):
        versions = sorted(draw(st.sets(st.integers(1, 9), min_size=1, max_size=5)))
        for end in range(1, len(versions) + 1):
            again = draw(st.integers(0, end - 1)) if draw(st.booleans()) else end - 1
            history.extend(versions[again:end])
        history.append(TOMBSTONE)
    return history[:-1] if draw(st.booleans()) else history


@settings(max_examples=200, deadline=None)
@given(history=histories(), data=st.data())
def test_going_on_from_marks_equals_never_having_stopped(history: History, data: st.DataObject) -> None:
    entries = partition(0, history)
    whole = [snapshot.version for snapshot in subscription(entries, len(entries), "beginning")]
    stop = data.draw(st.integers(0, len(whole)))
    first = subscription(entries, len(entries), "beginning")
    assert [next(first).version for _ in range(stop)] == whole[:stop]
    at_once = data.draw(st.integers(1, 4))
    second = subscription(entries, len(entries), "beginning", dict(first.marks), at_once)
    assert [snapshot.version for snapshot in second] == whole[stop:]
    newest = [] if history[-1] is TOMBSTONE or stop == len(whole) else whole[-1:]
    current = subscription(entries, len(entries), "current", dict(first.marks), at_once)
    assert [snapshot.version for snapshot in current] == newest
