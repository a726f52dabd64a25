"""State records: what is cut comes together again, and what is damaged is not taken for a state."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluiceway.errors import FlowError
from sluiceway.schemas.state import StoredStream
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.state_records import (
    CommitRecord,
    OpenRecord,
    Place,
    RunRecord,
    assemble,
    chunks,
    is_state,
    whole_head,
)
from sluiceway.topics.store import Wanted, first_difference

NAMES = st.text(max_size=30)
NUMBERS = st.integers(0, 2**64 - 1)
FIRST = 12
"""Bytes before a first chunk."""


Stored = dict[str, tuple[int, bytes, dict[int, bytes]]]
"""By stream: its birth, its head, its pieces."""
STORED = st.dictionaries(
    NAMES,
    st.tuples(NUMBERS, st.binary(max_size=200), st.dictionaries(NUMBERS, st.binary(max_size=200), max_size=3)),
    max_size=4,
)
LIMITS = st.integers(FIRST + 1, 80)


def records(stored: Stored, limit: int) -> dict[bytes, bytes]:
    """By key, as a store writes them."""
    made: dict[bytes, bytes] = {}
    for stream, (birth, head, pieces) in stored.items():
        held: list[tuple[int | None, bytes]] = [(None, head), *pieces.items()]
        for piece, data in held:
            parts = chunks(data, birth, limit)
            made |= {Place(stream, piece).key(number): part for number, part in enumerate(parts)}
    return made


@given(STORED, LIMITS, st.randoms())
def test_what_is_cut_comes_together_again(stored: Stored, limit: int, random: Random) -> None:
    """In whatever order compaction leaves it."""
    made = records(stored, limit)
    assert all(map(is_state, made))
    assert max(map(len, made.values()), default=0) <= limit
    order = sorted(made)
    random.shuffle(order)
    streams, many = assemble({key: made[key] for key in order})
    assert streams == {
        stream: StoredStream(birth, head, pieces) for stream, (birth, head, pieces) in stored.items()
    }
    counts = Counter(Place(stream, piece) for stream, (_, _, pieces) in stored.items() for piece in (None, *pieces))
    assert set(many) <= set(counts)
    assert len(made) == len(counts) + sum(count - 1 for count in many.values())


@given(STORED.filter(bool), LIMITS, st.data())
def test_any_part_that_is_missing_is_noticed(stored: Stored, limit: int, draw: st.DataObject) -> None:
    """But for a state of one part, which looks as if it had been removed; a head's pieces tell of it even then."""
    made = records(stored, limit)
    stream = draw.draw(st.sampled_from(sorted(stored)))
    birth, head, pieces = stored[stream]
    piece = draw.draw(st.sampled_from([None, *pieces]))
    parts = len(list(chunks(head if piece is None else pieces[piece], birth, limit)))
    del made[Place(stream, piece).key(draw.draw(st.integers(0, parts - 1)))]
    if parts > 1 or (piece is None and pieces):
        with pytest.raises(FlowError, match="parts of it are missing"):
            assemble(made)
    else:
        streams, _ = assemble(made)
        assert stream not in streams if piece is None else piece not in streams[stream].pieces


@given(st.binary(max_size=FIRST - 1))
def test_a_first_chunk_that_is_none(data: bytes) -> None:
    with pytest.raises(FlowError, match="parts of it are missing"):
        assemble({Place("s", None).key(0): data})


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_any_record_is_a_state_or_a_sentence(key: bytes, value: bytes) -> None:
    with suppress(FlowError):  # any other error would be one
        assemble({key: value} if is_state(key) else {})


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


@given(NAMES, NUMBERS, st.binary(max_size=200))
def test_a_head_that_is_one_chunk_is_written_as_any_other(stream: str, birth: int, head: bytes) -> None:
    assert whole_head(stream, head, birth) == (Place(stream, None).key(0), *chunks(head, birth, FIRST + len(head) + 1))
