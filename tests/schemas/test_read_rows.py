"""What compiled code reads is what a parser finds there, however a record is written or spoilt."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.schemas import decode
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.lane import LaneBatch
from sluiceway.schemas.read_rows import MOST_EXPECTED, MOST_LETTERS, ODD, Desk
from sluiceway.schemas.records import Rules
from sluiceway.schemas.refusal import NamedBy
from tests.schemas.polls import Row, batches_of, poll_of, rows_by_stream, rows_of
from tests.schemas.test_agreement import RULES as MANY_RULES
from tests.schemas.test_agreement import decoder_of, records, row_by_model

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


@contextmanager
def all_by_hand() -> Iterator[None]:
    """Compiled code takes no record for a usual one."""

    def read_nothing(desk: Any, stop: int) -> int:
        return ODD if desk[Desk.NEXT_RECORD] < stop else 0

    with patch.object(decode, "read_rows", read_nothing):
        yield


def left_over(values: list[bytes | None], decoder: Decoder | None = None) -> list[int]:
    """The records that compiled code leaves to the parser."""
    decoder = decoder or Decoder(1)
    with patch.object(decoder, "_add_json", wraps=decoder._add_json) as by_hand:
        decoder.decode(poll_of(values))
    return [call.args[1] for call in by_hand.call_args_list]


def decoded(decoder: Decoder, value: bytes, company: bytes) -> list[Row] | None:
    """The rows of a record that stands between others in its poll; None = refused."""
    batch = decoder.decode(poll_of([company, value, company], first=-10))
    rows = [row for _, rows in batches_of(batch) for row in rows_of(rows) if row.offset == 0]
    assert len(rows) + len([letter for letter in batch.dead_letters if letter.offset == 0]) == 1
    return rows or None


@settings(max_examples=1500, deadline=None)
@given(value=written | spoilt(), company=written)
def test_what_is_read_is_what_the_models_accept(value: bytes, company: bytes) -> None:
    """Also once the decoder knows the names of arrays."""
    expected = row_by_model(value, RULES, line=False)
    decoder = Decoder(1, max_features_per_instance=RULES.max_features_per_instance)
    for _ in range(2):
        assert decoded(decoder, value, company) == (None if expected is None else [expected])


def content(read: LaneBatch) -> Any:
    """All that a poll says, by value, apart from where in the text it stands."""
    columns = read.columns
    assert columns is not None
    arrays = (columns.indptr, columns.y, columns.ts, columns.offset, columns.next_offset, columns.label_only)
    ids = spelt_at(columns, columns.id_at * (columns.id_size > 0), columns.id_size)
    names = spelt_at(columns, columns.name_at, columns.name_size)
    features = (columns.address, columns.key, columns.values.view(np.int64))
    return (
        read.dead_letters,
        read.raw,
        columns.streams,
        [array.tolist() for array in (*arrays, *features)],
        ids,
        names,
    )


def spelt_at(columns: Columns, at: Any, size: Any) -> list[str]:
    return [columns.text[a : a + s].tobytes().decode() for a, s in zip(at.tolist(), size.tolist(), strict=True)]


@settings(max_examples=500, deadline=None)
@given(
    values=st.lists(written | spoilt() | st.none(), max_size=12),
    by=st.sampled_from(["key", "member", "partition"]),
    rules=st.sampled_from(MANY_RULES),
)
def test_a_poll_is_decoded_as_if_every_record_were_parsed(
    values: list[bytes | None], by: NamedBy, rules: Rules
) -> None:
    """Dead letters with their reasons, names and their order, values to the bit; from poll to poll."""
    reading, parsing = decoder_of(rules, by), decoder_of(rules, by)
    for _ in range(2):
        ours = content(reading.decode(poll_of(values)))
        with all_by_hand():
            assert content(parsing.decode(poll_of(values))) == ours


@pytest.mark.parametrize(
    "value",
    [
        b'{"x":{"a":1,"b":-2.5e3},"y":1}',
        b' { "y" : null , "x" : { "a" : 1 , "b" : -2500 } } ',
        b'{"note":"\\"x\\":{","meta":{"x":[{"x":7}, [], {}, true, null]},"x":{"a":1,"b":-2500.0}, "more": "\xc3\xbc"}',
        b'{"ts":5,"id":17,"x":{"a":1,"b":-2500,"c":0}}',
        b'{"id":null,"ts":null,"stream":7,"x":{"a":1,"b":-25e2}}',
    ],
)
def test_usual_records_are_read(value: bytes) -> None:
    assert left_over([value]) == []
    [rows] = rows_by_stream(Decoder(1).decode(poll_of([value]))).values()
    assert [dict(row.x) for row in rows] == [{"a": 1, "b": -2500}]


def test_nulls_are_read_where_they_are_kept() -> None:
    value = b'{"x":{"a":null,"b": null ,"c":0,"d":1},"y":1}'
    for keeps_zeros, there in ((False, ["a", "b", "d"]), (True, ["a", "b", "c", "d"])):
        decoder = Decoder(1, keep_nulls=True, keep_zeros=keeps_zeros)
        assert left_over([value, b'{"x":[1,null]}', b'{"x":[null,1]}'], decoder) == [1]  # names of arrays come anew
        [(_, batch)] = batches_of(decoder.decode(poll_of([value, b'{"x":[1,null]}'])))
        assert list(batch.names) == [*there, "0", "1"]
        assert np.isnan(batch.values).tolist() == [name in ("a", "b", "1") for name in batch.names]
    assert left_over([value]) == [0]
    [letter] = Decoder(1, keep_nulls=True).decode(poll_of([b'{"x":{"a":null,"b":"1"}}'])).dead_letters
    assert letter.message == 'feature "b" is the string "1", not a finite number: [input.map] takes texts'


def test_later_labels_and_streams_are_read() -> None:
    values: list[bytes | None] = [b'{"id":"\xc3\xa9","y":true}', b'{"stream":"s\xc3\xb8k","x":{},"y":0}']
    decoder = Decoder(1, "member")
    assert left_over(values, decoder) == []
    read = rows_by_stream(decoder.decode(poll_of(values)))
    assert read == {
        "default": [Row(0, 10, (), 1, 0, "é", True)],
        "søk": [Row(10, 20, (), -1, 0, None, False)],
    }


def test_classes_are_read() -> None:
    labels = (b"1", b"10", b'"h\xc3\xa4m"', b"true", b"null", b"100")
    values: list[bytes | None] = [b'{"x":{},"y":%b}' % y for y in labels]
    decoder = Decoder(1, classes=[1, 10, "häm", True])
    assert left_over(values, decoder) == [5]
    read = decoder.decode(poll_of(values))
    assert [row.y for row in rows_by_stream(read)["mail"]] == [1, 2, 3, 4, 0]
    assert [letter.error_class for letter in read.dead_letters] == ["bad-label"]


def test_arrays_are_read_once_their_length_is_known() -> None:
    decoder = Decoder(1)
    values: list[bytes | None] = [b'{"x":[1,0,2]}', b'{"x":[3, 4]}', b'{"x":[]}', b'{"x":[0,5,6]}']
    assert left_over(values, decoder) == [0]
    assert left_over(values, decoder) == []
    expected = [(("0", 1), ("2", 2)), (("0", 3), ("1", 4)), (), (("1", 5), ("2", 6))]
    assert [row.x for row in rows_by_stream(decoder.decode(poll_of(values)))["mail"]] == expected


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"{", b"{}", b"[]", b"7", b'{"x"', b'{"x":', b'{"x":{', b'{"x":{"a"', b'{"x":{"a":', b'{"x":{"a":1'),
        *(b'{"x":{"a":1}', b'{"x":[1,]}', b'{"x":[,1]}', b'{"x":{"a":1,}}', b'{"x":7}', b'{"x":null}', b'{"y":1}'),
        *(b'{"x":{"a":true}}', b'{"x":{"":1}}', b'{"x":{"a\\n":1}}', b'{"x":{"a":1},"x":{"a":1}}'),
        *(b'{"\\u0078":{"a":1}}', b'{"x":{}}\0', b'{"x":{}}}', b'{"x":{},"id":""}', b'{"x":{},"y":2}'),
        b'{"x":{},"ts":01}',
        *(b'{"x":{"\xff":1}}', b'{"x":{"\xed\xa0\x80":1}}', b'{"x":{"\xc0\x80":1}}', b'{"x":{"\xf4\x90\x80\x80":1}}'),
        *(b'{"x":{},"n":"\xe2\x82"}', b'{"x":{},"n":[1,]}', b'{"x":{},"n":{"a":}}', b'{"x":{},"n":nul}'),
        b'{"x":{},"n":[}}',
    ],
)
def test_what_is_not_as_usual_is_left_to_the_parser(value: bytes) -> None:
    assert left_over([b'{"x":{}}', value, b'{"x":{}}']) == [1]


def test_a_name_with_a_raw_control_character_is_not_taken_for_the_one_with_an_escape() -> None:
    batch = Decoder(1).decode(poll_of([b'{"x":{"\\u0001":1}}', b'{"x":{"\x01":1}}']))
    assert [letter.error_class for letter in batch.dead_letters] == ["not-json"]


def test_a_name_twice_counts_once_and_the_last_value_holds() -> None:
    poll = poll_of(
        [b'{"x":{"a":1,"b":2}}', b'{"x":{"b":5,"a":1,"b":7}}', b'{"x":{"a":1,"a":2}}', b'{"x":{"a":1,"b":3,"a":0}}']
    )
    [(_, batch)] = batches_of(Decoder(1).decode(poll))
    expected = [(("a", 1), ("b", 2)), (("b", 7), ("a", 1)), (("a", 2),), (("b", 3),)]
    assert [row.x for row in rows_of(batch)] == expected


def test_too_many_features_are_refused() -> None:
    decoder = Decoder(1, max_features_per_instance=2)
    poll = poll_of([b'{"x":{"a":1,"b":2}}', b'{"x":{"a":1,"b":2,"c":0}}', b'{"x":[1,2,3]}', b'{"x":[1,2]}'])
    for _ in range(2):
        assert [letter.offset for letter in decoder.decode(poll).dead_letters] == [10, 20]


def test_the_reason_is_the_one_that_a_parser_meets_first() -> None:
    poll = poll_of([b'{"x":{"\xff":1},"ts":-1}', b'{"x":{"a":1},"ts":-1}', b'{"x":7}'], [b"a", b"\xff", b"\xff"])
    assert [letter.error_class for letter in Decoder(1).decode(poll).dead_letters] == ["not-utf8", "bad-ts", "bad-key"]


def test_a_hundred_thousand_numbers_are_those_of_python() -> None:
    """So many that the rare cases of rounding are among them."""
    rng = random.Random(0)
    texts = [repr(rng.gauss(0, 1)) for _ in range(50_000)]
    texts += [f"{rng.randrange(10**17, 10**19)}e{rng.randint(-300, 280)}" for _ in range(50_000)]
    rows = (",".join(texts[at : at + 100]) for at in range(0, 100_000, 100))
    values: list[bytes | None] = [f'{{"x":[{row}]}}'.encode() for row in rows]
    read = Decoder(1).decode(poll_of(values)).columns
    assert read is not None
    assert read.values.tolist() == list(map(float, texts))


def test_two_names_of_one_address_stay_two() -> None:
    """Addresses are 64 bits wide, so that it takes a bad hash to see it."""
    values: list[bytes | None] = [b'{"x":{"a":1,"b":2}}', b'{"x":{"b":3}}']
    decoder = Decoder(1)
    decoder._room.desk[[Desk.SECRET_1, Desk.SECRET_2]] = 0
    assert left_over(values, decoder) == [0]
    read = decoder.decode(poll_of(values)).columns
    assert read is not None
    assert spelt_at(read, read.name_at, read.name_size) == ["a", "b", "b"]
    assert read.values.tolist() == [1, 2, 3]


@st.composite
def much_alike(draw: st.DrawFn) -> list[bytes | None]:
    """Records with the same names in the same order, but for some that are left out, come anew, or change places."""
    names = draw(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), min_size=1, unique=True))
    made: list[bytes | None] = []
    for _ in range(draw(st.integers(1, 12))):
        here = [name for name in names if draw(st.integers(0, 9)) > 0]
        if draw(st.integers(0, 3)) == 0:
            here = draw(st.permutations(here)) + draw(st.lists(st.sampled_from([*names, "new", "neu"]), max_size=2))
        members = ",".join(f"{orjson.dumps(name).decode()}:{draw(st.integers(-1, 1))}" for name in here)
        made.append(f'{{"x":{{{members}}},"y":1}}'.encode())
    return made


@settings(max_examples=300, deadline=None)
@given(polls=st.lists(much_alike(), max_size=3))
def test_names_are_read_alike_whether_they_were_expected_or_not(polls: list[list[bytes | None]]) -> None:
    """The decoder knows the names of the records before; each time that a name comes twice is noticed."""
    reading, parsing = Decoder(1), Decoder(1)
    for values in polls:
        ours = content(reading.decode(poll_of(values)))
        with all_by_hand():
            assert content(parsing.decode(poll_of(values))) == ours


def test_more_names_than_can_be_expected_are_read() -> None:
    """Too many, and of too many letters."""
    many = {f"feature-{number}": 1 for number in range(MOST_EXPECTED + 10)}
    long = {f"{number}".rjust(MOST_LETTERS // 8, "x"): 1 for number in range(20)}
    decoder, by_hand = Decoder(1), Decoder(1)
    values: list[bytes | None] = [orjson.dumps({"x": x}) for x in (many, many, long, long, long, many)]
    assert left_over(values, decoder) == []
    ours = content(decoder.decode(poll_of(values)))
    with all_by_hand():
        assert content(by_hand.decode(poll_of(values))) == ours


def test_nothing_is_read_beyond_the_end_of_the_last_record() -> None:
    """Where a long name is expected, and the text of the poll ends."""
    decoder = Decoder(1)
    decoder.decode(poll_of([orjson.dumps({"x": {"a" * 60_000: 1}})]))
    for value in (b'{"x":{"a', b'{"x":{"', b'{"x":{"' + b"a" * 50):
        assert left_over([value], decoder) == [0]
