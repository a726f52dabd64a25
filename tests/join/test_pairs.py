"""What waits and what belongs together, against the oracle: in any interleaving, batch and restart."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sluiceway.operators.stages.pairs import GIVEN_UP, INSTANCES, LABELS, SIDES, Half, Late, Limit, Pairs, Side
from sluiceway.schemas.state import PIECE, StreamState, pack, unpack
from tests.join.oracle import Given, Name, expected, interleaved, records

SEEDS = range(20)
KEPT = Limit(longest=150)
"""Of 300 records: some are given up, and none of those is forgotten, so that the n-th belongs to the n-th for ever."""


class Stored:
    """Pairs with their store, for restarts from what was committed."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.pairs = Pairs(limit)
        self.head = b""
        self.pieces: dict[int, bytes] = {}

    def commit(self) -> None:
        change = self.pairs.changes()
        self.head = pack(change.head)
        assert not self.pieces.keys() & change.added.keys()
        self.pieces |= {number: pack(piece, PIECE) for number, piece in change.added.items()}
        for number in change.dropped:
            del self.pieces[number]

    def restart(self) -> None:
        self.commit()
        pieces = {number: unpack(piece, PIECE) for number, piece in self.pieces.items()}
        self.pairs = Pairs(self.limit)
        self.pairs.restore(StreamState(unpack(self.head), pieces))

    def contents(self) -> list[Any]:
        """All that is there to go on from: places in order, whatever the numbers of their pieces."""
        self.commit()
        pieces = [unpack(piece, PIECE) for piece in self.pieces.values()]
        return [unpack(self.head)["newest"], sorted(pieces)]


def half(side: int, given: Given, offset: int, time: int = 0) -> Half:
    return Half(SIDES[side], *given.name, time, offset, None, given.content.encode())


def pair(found: Half, other: Half) -> tuple[Name, tuple[str, str]]:
    instance, label = (found, other) if found.side == INSTANCES else (other, found)
    assert (instance.side, label.side) == (INSTANCES, LABELS)
    return (found.stream, found.id), (instance.value.decode(), label.value.decode())


@pytest.mark.parametrize("seed", SEEDS)
def test_any_interleaving_gives_the_same_pairs(seed: int) -> None:
    instances, labels = records(300, seed=seed)
    wanted = expected(instances, labels)
    draw = random.Random(seed)
    stored = Stored(Limit())
    labelled: dict[Name, list[tuple[str, str]]] = {}
    for offset, (side, given) in enumerate(interleaved(instances, labels, seed=seed)):
        one = half(side, given, offset)
        other = stored.pairs.take(one)
        assert not isinstance(other, Late)
        if other is not None:
            name, both = pair(one, other)
            labelled.setdefault(name, []).append(both)
        if draw.random() < 0.05:
            stored.restart() if draw.random() < 0.5 else stored.commit()
    assert labelled == wanted.labelled
    for side, rest in ((INSTANCES, wanted.alone), (LABELS, wanted.orphans)):
        assert stored.pairs.waiting(side) == sum(map(len, rest.values()))
    stored.commit()
    assert len(stored.pieces) == sum(stored.pairs.waiting(side) for side in SIDES)


@pytest.mark.parametrize("limit", [Limit(most=10), Limit(longest=40), Limit(15, 60), Limit(most=0), KEPT])
@pytest.mark.parametrize("seed", SEEDS)
def test_with_a_limit_each_is_paired_or_given_up(seed: int, limit: Limit) -> None:
    """Never both, never neither; what is given up late does not change which belong together."""
    instances, labels = records(300, seed=seed)
    numbers = [{given.content: number for number, given in enumerate(side)} for side in (instances, labels)]
    by_name = [{given.content: given.name for given in side} for side in (instances, labels)]
    place = [_places(instances), _places(labels)]
    draw = random.Random(f"limit {seed}")
    stored = Stored(limit)
    paired: list[set[str]] = [set(), set()]
    given_up: list[set[str]] = [set(), set()]
    late: list[set[str]] = [set(), set()]
    for offset, (side, given) in enumerate(interleaved(instances, labels, seed=seed)):
        one = half(side, given, offset, time=numbers[side][given.content])
        other = stored.pairs.take(one)
        if other is GIVEN_UP:
            late[side].add(given.content)
        elif isinstance(other, Half):
            _, both = pair(one, other)
            assert by_name[0][both[0]] == by_name[1][both[1]]
            if limit == KEPT:
                assert place[0][both[0]] == place[1][both[1]]
            for where, content in zip(paired, both, strict=True):
                assert content not in where
                where.add(content)
        if draw.random() < 0.3:
            which: Side = draw.choice(SIDES)
            due = stored.pairs.due(which)
            if due is not None:
                given_up[which] |= {one.value.decode() for one in stored.pairs.give_up(which, due)}
        if draw.random() < 0.05:
            stored.restart()
    stored.limit = Limit(most=0)
    stored.restart()  # whatever waits is due
    for which in SIDES:
        due = stored.pairs.due(which)
        given_up[which] |= {one.value.decode() for one in stored.pairs.give_up(which, due or 0)}
        sets = (paired[which], given_up[which], late[which])
        assert sum(map(len, sets)) == len(numbers[which]) == len(set[str]().union(*sets))
    assert not stored.pairs.waiting(INSTANCES)
    assert not stored.pairs.waiting(LABELS)


def _places(given: list[Given]) -> dict[str, int]:
    """The how manieth of its name each is."""
    counts: dict[Name, int] = {}
    places = {}
    for name, content in given:
        places[content] = counts[name] = counts.get(name, 0) + 1
    return places


def test_nothing_is_given_up_that_was_not_due_when_asked() -> None:
    pairs = Pairs(Limit(most=2))
    for number in range(4):
        assert pairs.take(half(INSTANCES, Given(("s", str(number)), f"i{number}"), number)) is None
    asked = pairs.due(INSTANCES)
    assert asked is not None
    pairs.take(half(INSTANCES, Given(("s", "4"), "i4"), 4))
    assert [one.id for one in pairs.give_up(INSTANCES, asked)] == ["0", "1"]
    assert pairs.waiting(INSTANCES) == 3


def test_a_label_that_is_late_is_not_taken_for_the_next_one() -> None:
    pairs = Pairs(Limit(most=1))
    name = ("s", "a")
    pairs.take(half(INSTANCES, Given(name, "first"), 0))
    pairs.take(half(INSTANCES, Given(name, "second"), 1))
    due = pairs.due(INSTANCES)
    assert due is not None
    assert [one.value for one in pairs.give_up(INSTANCES, due)] == [b"first"]
    assert pairs.take(half(LABELS, Given(name, "of the first"), 0)) is GIVEN_UP
    found = pairs.take(half(LABELS, Given(name, "of the second"), 1))
    assert isinstance(found, Half)
    assert found.value == b"second"


def test_what_was_given_up_is_forgotten_in_the_end() -> None:
    """As many again as may wait: a lane's state is bounded by its limit."""
    stored = Stored(Limit(most=5))
    for number in range(200):
        stored.pairs.take(half(INSTANCES, Given(("s", str(number)), f"i{number}"), number))
        due = stored.pairs.due(INSTANCES)
        if due is not None:
            stored.pairs.give_up(INSTANCES, due)
        stored.commit()
        assert len(stored.pieces) <= 10
    before = stored.contents()
    stored.restart()
    assert stored.contents() == before
