"""State records: what is cut comes together again, and what is damaged is not taken for a state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluiceway.errors import FlowError
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.state_records import (
    CommitRecord,
    OpenRecord,
    Place,
    RunRecord,
    assemble,
    chunks,
    head_key,
    piece_key,
    place_of,
)
from sluiceway.topics.store import Wanted, first_difference

NAMES = st.text(max_size=30)
NUMBERS = st.integers(0, 2**64 - 1)
FIRST = 12
"""Bytes before a first chunk."""


@given(st.binary(max_size=300), NUMBERS, st.integers(FIRST + 1, 80), st.dictionaries(st.integers(0, 40), st.binary()))
def test_a_state_in_chunks(data: bytes, birth: int, limit: int, leftovers: dict[int, bytes]) -> None:
    """Chunks of a larger state that was there before, beyond the last, are passed over."""
    made = list(chunks(data, birth, limit))
    assert max(map(len, made)) <= limit
    parts = {**{number: part for number, part in leftovers.items() if number >= len(made)}, **dict(enumerate(made))}
    assert assemble(parts) == (data, birth, len(made))


@given(st.binary(min_size=100, max_size=300), st.integers(FIRST + 1, 60), st.data())
def test_a_chunk_that_is_missing(data: bytes, limit: int, draw: st.DataObject) -> None:
    parts = dict(enumerate(chunks(data, 1, limit)))
    del parts[draw.draw(st.sampled_from(sorted(parts)))]
    with pytest.raises(FlowError, match="chunks are missing"):
        assemble(parts)


@given(st.binary(max_size=FIRST - 1))
def test_a_first_chunk_that_is_none(data: bytes) -> None:
    with pytest.raises(FlowError, match="chunks are missing"):
        assemble({0: data})


@given(NAMES, NUMBERS, st.integers(0, 2**32 - 1))
def test_keys(stream: str, piece: int, chunk: int) -> None:
    assert place_of(head_key(stream, chunk)) == Place(stream, None, chunk)
    assert place_of(piece_key(stream, piece, chunk)) == Place(stream, piece, chunk)


@given(st.binary(max_size=20))
def test_any_key_is_a_place_or_none(key: bytes) -> None:
    place = place_of(key)
    if place is not None:
        made = head_key if place.piece is None else lambda stream, chunk: piece_key(stream, place.piece or 0, chunk)
        assert made(place.stream, place.chunk) == key


RUN = RunRecord(3, Bounds((0, 5), (7, None), "end"))
COMMIT = CommitRecord({"instances": 5}, True, 3, "end", {"flow": "f"}, {"dir:/x": 7}, 1)
OPENED = OpenRecord("f", "m", "host", 7, 1, "why")


def test_records_come_back_as_they_were() -> None:
    assert RunRecord.load(RUN.dump()) == RUN
    assert CommitRecord.load(COMMIT.dump()) == COMMIT
    assert OpenRecord.load(OPENED.dump()) == OPENED
    assert COMMIT.ends(3)
    assert COMMIT.ends(2)
    assert not COMMIT.ends(4)


@pytest.mark.parametrize("record", [RUN, COMMIT, OPENED], ids=["run", "commit", "open"])
def test_records_that_are_none(record: RunRecord | CommitRecord | OpenRecord) -> None:
    name = type(record).__name__.removesuffix("Record").lower()
    whole = record.dump()
    for value in (None, b"", b"[]", b"{}", b'{"v": 1}', b'"v"', b"7", whole[:-3]):
        with pytest.raises(FlowError, match=f"its {name} record is damaged, or not Sluiceway's"):
            type(record).load(value)
    with pytest.raises(FlowError, match=f"its {name} record has version 9, this program knows 1"):
        type(record).load(whole.replace(b'"v":1', b'"v":9'))
    if not isinstance(record, RunRecord):
        with pytest.raises(FlowError, match=f"its {name} record is damaged"):
            type(record).load(whole[:-1] + b',"more":1}')


# -- which run a process has come for ----------------------------------------------------------------------------------


def bounds(*stops: int | None, setting: str | None = "end") -> Bounds:
    return Bounds((0,) * len(stops), stops, setting)


def test_a_run_is_gone_on_with_or_followed() -> None:
    resolved: list[RunRecord | None] = []

    def resolve(before: RunRecord | None) -> Bounds:
        resolved.append(before)
        return bounds(9, 9)

    wanted = Wanted(2, 2, "end", resolve)
    assert not wanted.accepts(None)
    assert not wanted.accepts(RunRecord(1, bounds(5, 5)))  # it ended before
    assert not wanted.accepts(RunRecord(2, bounds(5, None, setting=None)))  # another stop
    assert not wanted.accepts(RunRecord(2, bounds(5)))  # partitions were added
    assert wanted.accepts(RunRecord(2, bounds(5, 5)))
    assert wanted.accepts(RunRecord(3, bounds(5, 5)))  # somebody was told --again meanwhile
    assert wanted.begin(None) == RunRecord(2, bounds(9, 9))
    assert wanted.begin(RunRecord(4, bounds(5, 5))).number == 5
    assert resolved == [None, RunRecord(4, bounds(5, 5))]
    assert Wanted(1, 2, "end", resolve).begin(None).number == 1


def test_the_first_difference() -> None:
    assert first_difference({"a": 1, "b": 2}, {"b": 2, "a": 1}) is None
    assert first_difference({"a": 1}, {"a": 2}) == ("a", 1, 2)
    assert first_difference({"a": 1, "old": 3}, {"a": 1}) == ("old", 3, None)
    assert first_difference({}, {"new": 3}) == ("new", None, 3)
