"""The decoder, example by example: what it makes of good records, and what it says of bad ones."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.lane import LaneBatch
from sluiceway.schemas.refusal import ERROR_CLASSES, MESSAGE_LENGTH
from tests.schemas.polls import Row, batches_of, poll_of, poll_of_records, rows_by_stream, rows_of

GOOD = b'{"id":"e-1","ts":5,"x":{"free":0.31,"len":120},"y":1}'


def only_batch(decoded: LaneBatch) -> InstanceBatch:
    assert decoded.dead_letters == []
    ((_, batch),) = batches_of(decoded)
    assert isinstance(batch, InstanceBatch)
    return batch


def columns_of(decoded: LaneBatch) -> Columns:
    assert decoded.columns is not None
    return decoded.columns


def row_of(record: Any, decoder: Decoder | None = None) -> Row:
    (row,) = rows_of(only_batch((decoder or Decoder(1)).decode(poll_of_records([record]))))
    return row


# What good records become


def test_a_poll_becomes_columns() -> None:
    batch = only_batch(
        Decoder(1).decode(
            poll_of_records(
                [
                    {"id": "e-1", "ts": 7, "x": {"b": 2, "a": -0.5}, "y": True},
                    {"x": {"c": 1.5, "b": 3}},
                    {"x": {}, "y": 0},
                    {"id": "e-1", "y": -1},
                ]
            )
        )
    )
    assert batch.names == ("b", "a", "c")
    expected: dict[str, NDArray[Any]] = {
        "indptr": np.array([0, 2, 4, 4, 4], np.int64),
        "indices": np.array([0, 1, 2, 0], np.int32),
        "values": np.array([2, -0.5, 1.5, 3], np.float64),
        "y": np.array([1, 0, -1, -1], np.int8),
        "ts": np.array([7, 0, 0, 0], np.int64),
        "offset": np.array([0, 10, 20, 30], np.int64),
        "next_offset": np.array([10, 20, 30, 40], np.int64),
        "label_only": np.array([False, False, False, True]),
    }
    for name, array in expected.items():
        got = getattr(batch, name)
        assert got.dtype == array.dtype, name
        np.testing.assert_array_equal(got, array, err_msg=name)
    assert batch.ids == ["e-1", None, None, "e-1"]


def test_what_no_record_has_is_none() -> None:
    batch = only_batch(Decoder(1).decode(poll_of_records([{"x": {"a": 1}}, {"x": [2]}])))
    assert batch.ids is None
    assert batch.label_only is None


def test_later_labels_hand_on_their_bytes() -> None:
    label = b'{"id":"e-1", "y":1}'
    decoded = Decoder(1).decode(
        poll_of([GOOD, label, b'{"id":"e-1","y":7}', label], [b"a", b"b", b"a", None])
    )
    assert decoded.raw == {10: (b"b", label), 30: (None, label)}
    assert [letter.offset for letter in decoded.dead_letters] == [20]


def test_the_envelope_of_a_poll_is_kept() -> None:
    poll = poll_of([GOOD], first=70, lane=3)
    poll.end = True
    decoded = Decoder(4).decode(poll)
    assert (decoded.lane, decoded.start, decoded.stop, decoded.end) == (3, 70, 80, True)


def test_an_empty_poll_decodes_to_nothing() -> None:
    decoded = Decoder(1).decode(poll_of([]))
    assert (batches_of(decoded), decoded.dead_letters) == ([], [])


@pytest.mark.parametrize(("y", "target"), [(True, 1), (False, -1), (1, 1), (-1, -1), (0, -1), (None, 0)])
def test_binary_labels(y: object, target: int) -> None:
    assert row_of({"x": {"a": 1}, "y": y}).y == target


def test_two_classes_are_negative_then_positive() -> None:
    decoder = Decoder(1, classes=["ham", "spam"])
    assert [row_of({"x": {}, "y": y}, decoder).y for y in ("ham", "spam", None)] == [-1, 1, 0]
    assert decoder.label_names == ("ham", "spam")


def test_more_classes_count_from_one() -> None:
    decoder = Decoder(1, classes=[0, 1, "two", True])
    assert [row_of({"x": {}, "y": y}, decoder).y for y in (0, 1, "two", True, None)] == [1, 2, 3, 4, 0]


def test_array_features_are_numbered_or_named() -> None:
    assert row_of({"x": [1, 0.5]}).x == (("0", 1.0), ("1", 0.5))
    named = Decoder(1, feature_names=["free", "len", "caps"])
    assert row_of({"x": [1, 0.5]}, named).x == (("free", 1.0), ("len", 0.5))
    assert row_of({"x": {"other": 3}}, named).x == (("other", 3.0),)


def test_arrays_and_objects_share_their_names() -> None:
    records = [{"x": {"1": 5, "0": 4}}, {"x": [6, 7, 8]}, {"x": [9]}, {"x": {"2": 1}}]
    batch = only_batch(Decoder(1).decode(poll_of_records(records)))
    assert [dict(row.x) for row in rows_of(batch)] == [
        {"1": 5, "0": 4},
        {"0": 6, "1": 7, "2": 8},
        {"0": 9},
        {"2": 1},
    ]
    assert sorted(batch.names) == ["0", "1", "2"]


def test_zeros_say_nothing_and_do_not_enter() -> None:
    records = [{"x": {"a": 0, "b": 1}}, {"x": [0.0, -0.0, 2]}, {"x": {"a": 0}}, {"x": {"a": 3, "b": 0}}]
    rows = rows_of(only_batch(Decoder(1).decode(poll_of_records(records))))
    assert [row.x for row in rows] == [(("b", 1.0),), (("2", 2.0),), (), (("a", 3.0),)]


def test_null_members_are_absent_and_unknown_ones_ignored() -> None:
    row = row_of({"id": None, "ts": None, "x": {"a": 1}, "y": None, "stream": 4, "more": [{}]})
    assert row == Row(0, 10, (("a", 1.0),), 0, 0, None, False)
    assert row_of({"id": "e", "y": 1, "x": None}).label_only


def test_of_repeated_members_the_last_counts() -> None:
    decoded = Decoder(1).decode(poll_of([b'{"x":{"a":"?","a":2},"y":7,"y":1}']))
    (row,) = rows_of(only_batch(decoded))
    assert (row.x, row.y) == ((("a", 2.0),), 1)


def test_an_integer_id_becomes_text() -> None:
    assert row_of({"id": 1842, "x": {}}).id == "1842"


def test_numbers_go_as_far_as_float64() -> None:
    value = b'{"x":[1.7976931348623157e308,-5e-324,18446744073709551615,123456789012345678901234567890]}'
    (row,) = rows_of(only_batch(Decoder(1).decode(poll_of([value]))))
    assert [number for _, number in row.x] == [1.7976931348623157e308, -5e-324, 2.0**64, 1.2345678901234568e29]


# Streams


def test_keys_name_streams_in_order_of_first_appearance() -> None:
    values = [orjson.dumps({"x": {"a": at + 1}}) for at in range(5)]
    keys = ["søk".encode(), b"mail", None, b"mail", b""]
    decoded = Decoder(1).decode(poll_of(values, keys))
    assert [stream for stream, _ in batches_of(decoded)] == ["søk", "mail", "default"]
    assert {stream: [row.offset for row in rows] for stream, rows in rows_by_stream(decoded).items()} == {
        "søk": [0],
        "mail": [10, 30],
        "default": [20, 40],
    }


def test_a_refused_record_does_not_count_as_first_appearance() -> None:
    decoded = Decoder(1).decode(poll_of([b'{"x":7}', GOOD, GOOD], [b"late", b"early", b"late"]))
    assert [stream for stream, _ in batches_of(decoded)] == ["early", "late"]


def test_a_stream_of_refused_records_only_has_no_batch() -> None:
    decoded = Decoder(1).decode(poll_of([b'{"x":7}', GOOD], [b"bad", b"good"]))
    assert [stream for stream, _ in batches_of(decoded)] == ["good"]


def test_without_a_key_the_partition_tells() -> None:
    decoded = Decoder(4).decode(poll_of([GOOD, GOOD], [None, b""], lane=2))
    assert [stream for stream, _ in batches_of(decoded)] == ["default-2"]


def test_a_stream_a_partition() -> None:
    decoder = Decoder(4, stream="partition")
    decoded = decoder.decode(poll_of([GOOD, GOOD, GOOD], [None, b"mail", b"\xff"], lane=2))
    assert {stream: len(batch) for stream, batch in batches_of(decoded)} == {"partition-2": 3}


def test_a_member_names_the_stream() -> None:
    records: list[dict[str, Any]] = [
        {"stream": "web", "x": {}},
        {"x": {}},
        {"stream": None, "x": {}},
        {"stream": "web", "x": {}},
    ]
    decoded = Decoder(2, stream="member").decode(poll_of_records(records, keys=[None] * 4, lane=1))
    assert {stream: len(batch) for stream, batch in batches_of(decoded)} == {"web": 2, "default-1": 2}


# What bad records become

BAD: list[tuple[str, bytes | None, str]] = [
    ("tombstone", None, "no value"),
    ("empty", b"", "empty"),
    ("not-utf8", b'{"x":{"\xff":1}}', "byte 7"),
    ("not-json", b"free money", "not JSON"),
    ("not-json", b'{"x":{"a":1}', "not JSON"),
    ("not-json", b'{"x":{"a":NaN}}', "not JSON"),
    ("not-json", b'{"x":{"a":-Infinity}}', "not JSON"),
    ("not-json", b'{"x":{"a":1},"y":1e999}', "not JSON"),
    ("not-json", b"[" * 5000, "not JSON"),
    ("not-json", b'{"x":{"\\ud800":1}}', "not JSON"),
    ("not-an-object", b'[{"x":{}}]', "an array"),
    ("not-an-object", b'"x"', 'the string "x"'),
    ("not-an-object", b"null", "null"),
    ("missing-x", b"{}", "no x"),
    ("missing-x", b'{"id":"e-1"}', "no x"),
    ("missing-x", b'{"id":"e-1","y":null}', "no x"),
    ("missing-x", b'{"y":"ham"}', "no x"),
    ("bad-x", b'{"x":7}', "x is 7"),
    ("bad-x", b'{"x":"a"}', 'x is the string "a"'),
    ("bad-x", b'{"x":true}', "x is true"),
    ("bad-x", b'{"x":[1,2,3,4]}', "4 values for 3 feature_names"),
    ("bad-feature", b'{"x":{"a":1,"b":true}}', 'feature "b" is true'),
    ("bad-feature", b'{"x":{"a":1,"b":false}}', 'feature "b" is false'),
    ("bad-feature", b'{"x":{"a":null}}', 'feature "a" is null'),
    ("bad-feature", b'{"x":{"a":1,"b":"2"}}', 'feature "b" is the string "2"'),
    ("bad-feature", b'{"x":{"a":{"b":1}}}', 'feature "a" is an object'),
    ("bad-feature", b'{"x":{"a":[1]}}', 'feature "a" is an array'),
    ("bad-feature", b'{"x":{"":1}}', "name is empty"),
    ("bad-feature", b'{"x":{"a":1,"b":1e999}}', 'feature "b" is too large'),
    ("bad-feature", b'{"x":[1,-1e999]}', 'feature "len" is too large'),
    ("bad-feature", b'{"x":{"a":1' + b"0" * 400 + b"}}", 'feature "a" is too large'),
    ("bad-feature", b'{"x":[1,true]}', 'feature "len" is true'),
    ("bad-feature", b'{"x":[1,2,null]}', 'feature "caps" is null'),
    ("too-many-features", b'{"x":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}}', "6 features, more than the 5"),
    ("too-many-features", b'{"x":[1,2,3,4,5,6]}', "6 features, more than the 5"),
    ("bad-label", b'{"x":{},"y":1}', 'the label y is 1; accepted are "ham", "spam"'),
    ("bad-label", b'{"x":{},"y":"eggs"}', 'the string "eggs"'),
    ("bad-label", b'{"x":{},"y":["ham"]}', "an array"),
    ("bad-label", b'{"x":{},"y":{}}', "an object"),
    ("bad-label", b'{"id":"e-1","y":2}', "2"),
    ("bad-id", b'{"id":true,"x":{}}', "id is true"),
    ("bad-id", b'{"id":1.5,"x":{}}', "id is 1.5"),
    ("bad-id", b'{"id":"","x":{}}', 'id is the string ""'),
    ("bad-id", b'{"id":["a"],"y":"ham"}', "id is an array"),
    ("bad-ts", b'{"ts":-1,"x":{}}', "ts is -1"),
    ("bad-ts", b'{"ts":1.0,"x":{}}', "ts is 1.0"),
    ("bad-ts", b'{"ts":true,"x":{}}', "ts is true"),
    ("bad-ts", b'{"ts":"2026-01-01","x":{}}', "2026-01-01"),
    ("bad-ts", b'{"ts":9223372036854775808,"x":{}}', "9223372036854775808"),
]


def named_decoder() -> Decoder:
    return Decoder(
        1,
        classes=["ham", "spam"],
        feature_names=["free", "len", "caps"],
        max_features_per_instance=5,
    )


@pytest.mark.parametrize(("error_class", "value", "part"), BAD, ids=[f"{c}-{i}" for i, (c, _, _) in enumerate(BAD)])
def test_a_bad_record_becomes_a_dead_letter(error_class: str, value: bytes | None, part: str) -> None:
    before = b'{"id":"e-1","ts":5,"x":{"a":0.31,"b":120},"y":"spam"}'
    after = b'{"x":[3,4],"y":"ham"}'
    decoded = named_decoder().decode(poll_of([before, value, after, before]))
    (letter,) = decoded.dead_letters
    assert (letter.offset, letter.key, letter.value) == (10, b"mail", value)
    assert (letter.error_class, letter.stage) == (error_class, "decode")
    assert part in letter.message
    alone = named_decoder().decode(poll_of([before, after, before]))
    neighbours = [row._replace(offset=0, next_offset=0) for row in rows_by_stream(decoded)["mail"]]
    assert neighbours == [row._replace(offset=0, next_offset=0) for row in rows_by_stream(alone)["mail"]]
    assert [row.offset for row in rows_by_stream(decoded)["mail"]] == [0, 20, 30]
    assert batches_of(decoded)[0][1].names == batches_of(alone)[0][1].names


@pytest.mark.parametrize("value", [b"1.0", b"2", b'"1"', b"-1.0", b"[]", b"0.0"])
def test_binary_labels_are_booleans_and_integers_only(value: bytes) -> None:
    decoded = Decoder(1).decode(poll_of([b'{"x":{},"y":%b}' % value]))
    (letter,) = decoded.dead_letters
    assert letter.error_class == "bad-label"
    told = letter.message.removesuffix(", and [input.map] takes what plainly means one")
    assert told.endswith("accepted are true, false, 1, 0, -1; input.classes names others")
    assert (told != letter.message) == (value not in (b"2", b"[]"))


@pytest.mark.parametrize("y", [True, 1.0, "1"])
def test_a_label_has_the_type_of_its_class(y: object) -> None:
    decoded = Decoder(1, classes=[0, 1]).decode(poll_of_records([{"x": {}, "y": y}]))
    assert [letter.error_class for letter in decoded.dead_letters] == ["bad-label"]


def test_a_key_that_is_not_utf8_is_a_dead_letter() -> None:
    decoded = Decoder(1).decode(poll_of([GOOD, GOOD, GOOD], [b"mail", b"\xff\xfe", b"mail"]))
    (letter,) = decoded.dead_letters
    assert (letter.offset, letter.key, letter.value, letter.error_class) == (10, b"\xff\xfe", GOOD, "bad-key")
    assert [row.offset for row in rows_by_stream(decoded)["mail"]] == [0, 20]


@pytest.mark.parametrize("member", ["", 3, True, ["mail"]])
def test_a_member_that_names_no_stream_is_a_dead_letter(member: object) -> None:
    decoded = Decoder(1, stream="member").decode(poll_of_records([{"stream": member, "x": {}}]))
    assert [letter.error_class for letter in decoded.dead_letters] == ["bad-stream"]


def test_every_error_class_is_tested_and_documented() -> None:
    elsewhere = {"bad-column", "bad-arrow", "bad-schema", "orphan-label", "late-label", "unlabelled"}
    assert {error_class for error_class, _, _ in BAD} | {"bad-key", "bad-stream"} | elsewhere == set(ERROR_CLASSES)


@pytest.mark.parametrize(
    "value",
    [
        b"\xff" * 1_000_000,
        b"a" * 1_000_000,
        b'{"x":{"' + b"n" * 1_000_000 + b'":null}}',
        b'{"x":{"a":"' + b"v" * 1_000_000 + b'"}}',
        b'{"x":{},"y":"' + b"l" * 1_000_000 + b'"}',
        b'{"x":{},"id":[' + b"1," * 500_000 + b"1]}",
    ],
)
def test_messages_stay_short(value: bytes) -> None:
    (letter,) = Decoder(1).decode(poll_of([value])).dead_letters
    assert len(letter.message) <= MESSAGE_LENGTH
    assert letter.value is value


def test_messages_can_always_be_written() -> None:
    """A lone surrogate, which a JSON text may spell but UTF-8 cannot, does not reach the message."""
    (letter,) = Decoder(1).decode(poll_of([b'{"x":{"\\ud800":1e999}}'])).dead_letters
    assert letter.error_class == "bad-feature"
    assert letter.message.encode()


def test_many_classes_are_cut_in_the_message() -> None:
    decoder = Decoder(1, classes=[f"class-{i}" for i in range(100)])
    (letter,) = decoder.decode(poll_of([b'{"x":{},"y":1}'])).dead_letters
    assert len(letter.message) == MESSAGE_LENGTH


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"partitions": 0}, "partition"),
        ({"stream": "topic"}, "stream"),
        ({"max_features_per_instance": 0}, "max_features_per_instance"),
        ({"classes": ["ham"]}, "classes"),
        ({"classes": ["ham", "ham"]}, "repeat"),
        ({"classes": ["ham", 1.5]}, "1.5"),
        ({"classes": list(range(128))}, "127"),
        ({"feature_names": ["a", ""]}, "feature_names"),
        ({"feature_names": ["a", 1]}, "feature_names"),
        ({"feature_names": ["a", "a"]}, "repeat"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(options: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        Decoder(**{"partitions": 1, **options})


# From poll to poll


def test_streams_do_not_share_names() -> None:
    decoded = Decoder(1).decode(poll_of([b'{"x":{"a":1}}', b'{"x":{"b":1}}'], [b"one", b"two"]))
    assert {stream: batch.names for stream, batch in batches_of(decoded)} == {"one": ("a",), "two": ("b",)}


def test_batches_stay_as_they_were() -> None:
    """Columns hold until the next poll, batches made of them for ever."""
    decoder = Decoder(1)
    first = only_batch(decoder.decode(poll_of_records([{"x": {"a": 1}, "id": "e"}])))
    rows = rows_of(first)
    decoder.decode(poll_of_records([{"x": {"b": 2, "a": 7}, "id": "f"}]))
    assert rows_of(first) == rows


def test_room_is_used_again_and_goes_when_it_is_no_longer_needed() -> None:
    decoder = Decoder(1)
    small = poll_of([b'{"x":{"a":1}}'])
    first = columns_of(decoder.decode(small))
    assert np.shares_memory(first.values, columns_of(decoder.decode(small)).values)
    wide = {"x": {f"name-{number}": number for number in range(1, 90_001)}}
    large = columns_of(decoder.decode(poll_of_records([wide] * 12)))
    assert large.indptr.tolist() == [*range(0, 12 * 90_000 + 1, 90_000)]
    assert large.values.reshape(12, -1).tolist() == [[*range(1, 90_001)]] * 12
    held = columns_of(decoder.decode(small)).values.base
    assert held is not None
    assert held.nbytes > 8_000_000
    held = columns_of(decoder.decode(small)).values.base
    assert held is not None
    assert held.nbytes < 100_000


def test_the_hot_path_imports_without_pydantic() -> None:
    program = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import sluiceway.schemas.decode, sluiceway.schemas.encode\n"
        "ours = {name for name in sys.modules if name.startswith('sluiceway.')}\n"
        "theirs = ('sluiceway.schemas', 'sluiceway.compiling', 'sluiceway.kernel_')\n"
        "assert all(name.startswith(theirs) for name in ours), ours\n"
        "assert not {'bytewax', 'confluent_kafka'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})
