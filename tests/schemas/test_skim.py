"""What is skimmed from a poll is what a parser finds there, however a record is written or spoilt."""

from __future__ import annotations

import json
import random
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.schemas import decode
from sluiceway.schemas.decode import WORTH_SKIMMING, Decoder
from sluiceway.schemas.lane import RawPoll
from sluiceway.schemas.records import Rules
from sluiceway.schemas.refusal import NamedBy
from sluiceway.schemas.skim import Skimmed, Skimmer
from tests.schemas.polls import Row, poll_of, rows_of
from tests.schemas.test_agreement import records, row_by_model

RULES = Rules(max_features_per_instance=6)
SPACES = ["", " ", "\n", "\t", "\r", "  \n "]


def spelt(record: Any, space: str, escaped: bool) -> bytes:
    """As other writers than orjson would."""
    return json.dumps(record, separators=(f"{space},{space}", f"{space}:{space}"), ensure_ascii=escaped).encode()


written = st.builds(spelt, records, st.sampled_from(SPACES), st.booleans())
bits_of_json = st.sampled_from(
    [*'{}[]",:\\ \n0-.ex', '"x"', '"x":{}', '"x":', '"x":[1],', '\\"', "\\u0078", "null", "\x00"]
)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A record with some bytes of it left out, repeated or replaced."""
    value = draw(written)
    for _ in range(draw(st.integers(1, 3))):
        at, stop = sorted(draw(st.tuples(*[st.integers(0, len(value))] * 2)))
        stop = min(stop, at + draw(st.integers(0, 4)))
        insert = draw(bits_of_json.map(str.encode) | st.binary(max_size=2) | st.just(value[at:stop] * 2))
        value = value[:at] + insert + value[stop:]
    return value


def decoded(decoder: Decoder, value: bytes, company: bytes) -> list[Row] | None:
    """The rows of a record that stands between others in its poll; None = refused."""
    others = [company] * WORTH_SKIMMING
    batch = decoder.decode(poll_of([*others, value, *others], first=-10 * len(others)))
    rows = [row for _, rows in batch.streams for row in rows_of(rows) if row.offset == 0]
    assert len(rows) + len([letter for letter in batch.dead_letters if letter.offset == 0]) == 1
    return rows or None


@settings(max_examples=1500, deadline=None)
@given(value=written | spoilt(), company=written)
def test_skimming_accepts_what_the_models_accept(value: bytes, company: bytes) -> None:
    """Also once the decoder knows the names, when nothing but compiled code reads `x`."""
    expected = row_by_model(value, RULES, line=False)
    decoder = Decoder(1, max_features_per_instance=RULES.max_features_per_instance)
    for _ in range(2):
        assert decoded(decoder, value, company) == (None if expected is None else [expected])


@settings(max_examples=300, deadline=None)
@given(values=st.lists(written | spoilt() | st.none(), max_size=12), by=st.sampled_from(["key", "member"]))
def test_a_poll_is_decoded_as_if_every_record_were_parsed(values: list[bytes | None], by: NamedBy) -> None:
    """Dead letters with their reasons, names and their order, values to the bit; from poll to poll."""
    skimming, parsing = Decoder(1, by), Decoder(1, by)
    for _ in range(2):
        with patch.object(decode, "WORTH_SKIMMING", 1):
            ours = skimming.decode(poll_of(values))
        with patch.object(decode, "WORTH_SKIMMING", len(values) + 1):
            plain = parsing.decode(poll_of(values))
        assert (ours.dead_letters, ours.raw) == (plain.dead_letters, plain.raw)
        assert [stream for stream, _ in ours.streams] == [stream for stream, _ in plain.streams]
        for (_, one), (_, other) in zip(ours.streams, plain.streams, strict=True):
            assert one.names == other.names
            assert rows_of(one) == rows_of(other)
            assert one.values.tobytes() == other.values.tobytes()


def among_enough(*values: bytes) -> RawPoll:
    """A poll with these first that is worth skimming."""
    return poll_of([*values, *[b'{"x":{}}'] * WORTH_SKIMMING])


def skimmed(values: list[bytes | None]) -> Skimmed:
    return Skimmer(100).skim(values)


@pytest.mark.parametrize(
    "value",
    [
        b'{"x":{"a":1,"b":-2.5e3},"y":1}',
        b' { "y" : null , "x" : { "a" : 1 , "b" : -2500 } } ',
        b'{"id":"\\"x\\":{","meta":{"x":[{"x":7}]},"x":{"a":1,"b":-2500.0}}',
    ],
)
def test_x_is_found(value: bytes) -> None:
    found = skimmed([value])
    [begin], [end], [size] = found.within()
    assert orjson.loads(value[begin:end]) == {"a": 1, "b": -2500}
    assert (size, found.values[:2].tolist()) == (2, [1, -2500])


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"{", b"{}", b"[]", b"7", b'{"x"', b'{"x":', b'{"x":{', b'{"x":{"a"', b'{"x":{"a":', b'{"x":{"a":1'),
        *(b'{"x":{"a":1}', b'{"x":[1,]}', b'{"x":[,1]}', b'{"x":{"a":1,}}', b'{"x":7}', b'{"x":null}', b'{"y":1}'),
        *(b'{"x":{"a":true}}', b'{"x":{"":1}}', b'{"x":{"a\\n":1}}', b'{"x":{"a":1},"x":{"a":1}}'),
        b'{"\\u0078":{"a":1}}',
    ],
)
def test_what_is_not_as_usual_is_left_to_the_parser(value: bytes) -> None:
    assert skimmed([value]).begin.tolist() == [-1]


def test_a_name_with_a_raw_control_character_is_not_taken_for_the_one_with_an_escape() -> None:
    decoder = Decoder(1)
    for _ in range(2):
        batch = decoder.decode(among_enough(b'{"x":{"\\u0001":1}}', b'{"x":{"\x01":1}}'))
        assert [letter.error_class for letter in batch.dead_letters] == ["not-json"]


def test_a_known_name_twice_counts_once_and_the_last_value_holds() -> None:
    decoder = Decoder(1)
    poll = among_enough(b'{"x":{"a":1,"b":2}}', b'{"x":{"b":5,"a":1,"b":7}}', b'{"x":{"a":1,"a":2}}')
    for _ in range(2):
        [(_, batch)] = decoder.decode(poll).streams
        assert [row.x for row in rows_of(batch)[:3]] == [(("a", 1), ("b", 2)), (("b", 7), ("a", 1)), (("a", 2),)]


def test_too_many_features_are_refused_also_where_all_their_names_are_known() -> None:
    decoder = Decoder(1, max_features_per_instance=2)
    poll = among_enough(b'{"x":{"a":1,"b":2}}', b'{"x":{"c":3}}', b'{"x":{"a":1,"b":2,"c":3}}', b'{"x":[1,2,3]}')
    for _ in range(2):
        assert [letter.offset for letter in decoder.decode(poll).dead_letters] == [20, 30]


def test_a_name_that_is_not_utf8_is_refused_after_all() -> None:
    decoder = Decoder(1)
    poll = among_enough(b'{"x":{"a":1},"id":"1"}', b'{"x":{"\xff":1},"id":"2"}', b'{"x":{"a":3},"id":"3"}')
    decoded_ = decoder.decode(poll)
    assert [(letter.offset, letter.error_class) for letter in decoded_.dead_letters] == [(10, "not-utf8")]
    [(_, batch)] = decoded_.streams
    first, second, *_ = rows_of(batch)
    assert (first.offset, first.id, first.x) == (0, "1", (("a", 1.0),))
    assert (second.offset, second.id, second.x) == (20, "3", (("a", 3.0),))


def test_the_reason_is_the_one_that_a_parser_meets_first() -> None:
    poll = among_enough(b'{"x":{"\xff":1},"ts":-1}', b'{"x":{"a":1},"ts":-1}')
    assert [letter.error_class for letter in Decoder(1).decode(poll).dead_letters] == ["not-utf8", "bad-ts"]


def test_a_hundred_thousand_numbers_are_those_of_python() -> None:
    """So many that the rare cases of rounding are among them."""
    rng = random.Random(0)
    texts = [repr(rng.gauss(0, 1)) for _ in range(50_000)]
    texts += [f"{rng.randrange(10**17, 10**19)}e{rng.randint(-300, 280)}" for _ in range(50_000)]
    found = Skimmer(len(texts)).skim([f'{{"x":[{",".join(texts)}]}}'.encode()])
    assert found.values[: len(texts)].tolist() == list(map(float, texts))


def test_room_grows_with_the_poll_and_goes_when_it_is_no_longer_needed() -> None:
    skimmer = Skimmer(100_000)
    small = b'{"x":{"a":1}}'
    large = orjson.dumps({"x": {f"name-{number}": number for number in range(50_000)}})
    found = skimmer.skim([small, large, small])
    assert found.first.tolist()[:4] == [0, 1, 50_001, 50_002]
    assert found.values[1:50_001].tolist() == list(range(50_000))
    skimmer.skim([large] * 40)
    held = len(skimmer.skim([small]).text)
    assert held < len(large)
