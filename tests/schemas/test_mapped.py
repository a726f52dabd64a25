"""Records of other shapes: what a map finds in them, and that compiled code and the rules in Python find the same."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.schemas import decode
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.read_rows import ODD, Desk
from sluiceway.schemas.record_map import RecordMap
from tests.schemas.polls import poll_of, rows_by_stream
from tests.schemas.test_read_rows import SPACES, bits_of_json, content, left_over, spelt

MAPS = [
    RecordMap(),
    RecordMap(label="label", texts="one-hot"),
    RecordMap(label="a.y", features="a", texts="ignore", id="a.id", stream="s"),
    RecordMap(label="a.b.y", features="a.b", include=("x", "b*"), exclude=("*.y", "b.id"), time_unit="s"),
    RecordMap(label="b", time="a.ts", time_unit="us", exclude=("a.x",), texts="one-hot", stream="id", id="a.id"),
    RecordMap(label="y", features="x"),
    RecordMap(label="a.0", features="a.b", time_unit="ns"),
]
NAMES = ["a", "b", "x", "y", "id", "ts", "s", "label", "a.b", "a.y", "b.x", "ä", "0", "", "b=1"]
times = st.sampled_from(
    ["2025-11-16T10:00:00Z", "2025-02-29 10:00:00", "2024-02-29T23:59:59.98765+01:30", "1970-01-01T00:00:00+00:01"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 1.0, -0.0, 0.5, 2, 1e300, 10**19, "1", "-1.0", "True", "x", "", "ü", 'q"', "M"])
    | times
    | st.integers(0, 2**62)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)
mapped_records = st.dictionaries(st.sampled_from(NAMES), values, max_size=6) | values
mapped_written = st.builds(spelt, mapped_records, st.sampled_from(SPACES), st.booleans())


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """Some bytes left out, repeated or replaced; often a member twice."""
    value = draw(mapped_written)
    at, stop = sorted(draw(st.tuples(*[st.integers(0, len(value))] * 2)))
    if draw(st.booleans()) and value.startswith(b"{") and len(value) > 2:
        other = draw(mapped_written.filter(lambda other: other.startswith(b"{") and len(other) > 2))
        return value[:-1] + b"," + other[1:]
    insert = draw(bits_of_json.map(str.encode) | st.just(value[at:stop] * 2))
    return value[:at] + insert + value[min(stop, at + 4) :]


@contextmanager
def all_by_hand() -> Iterator[None]:
    def read_nothing(desk: Any, plan: Any, stop: int) -> int:
        return ODD if desk[Desk.NEXT_RECORD] < stop else 0

    with patch.object(decode, "read_mapped", read_nothing):
        yield


@settings(max_examples=1500, deadline=None)
@given(
    values=st.lists(mapped_written | spoilt(), min_size=1, max_size=6),
    record_map=st.sampled_from(MAPS),
    classes=st.sampled_from([None, ["M", "x"], ["0", "1"], ["false", "true"]]),
    feature_names=st.sampled_from([None, ["p", "q"]]),
    keep_nulls=st.booleans(),
)
def test_compiled_code_and_the_rules_say_the_same(
    values: list[bytes], record_map: RecordMap, classes: Any, feature_names: Any, keep_nulls: bool
) -> None:
    """Dead letters with their reasons, names and their order, values to the bit; from poll to poll."""
    options: Any = {"classes": classes, "feature_names": feature_names, "max_features_per_instance": 5}
    options["keep_nulls"] = keep_nulls
    reading, parsing = (Decoder(1, record_map=record_map, **options) for _ in range(2))
    for _ in range(2):
        ours = content(reading.decode(poll_of(list(values))))
        with all_by_hand():
            assert content(parsing.decode(poll_of(list(values)))) == ours


def of(record: Any, record_map: RecordMap, **options: Any) -> tuple[dict[str, float], int, int, str | None]:
    """What one record says, however it is read."""
    value = record if isinstance(record, bytes) else orjson.dumps(record)
    read = Decoder(1, record_map=record_map, **options).decode(poll_of([value]))
    with all_by_hand():
        by_hand = Decoder(1, record_map=record_map, **options).decode(poll_of([value]))
    assert content(read) == content(by_hand)
    assert not read.dead_letters, read.dead_letters[0].message
    [[row]] = rows_by_stream(read).values()
    return dict(row.x), row.y, row.ts, row.id


def refusal(record: Any, record_map: RecordMap, **options: Any) -> tuple[str, str]:
    value = record if isinstance(record, bytes) else orjson.dumps(record)
    [letter] = Decoder(1, record_map=record_map, **options).decode(poll_of([value])).dead_letters
    return letter.error_class, letter.message


def test_a_flat_record_needs_its_label_named_and_no_more() -> None:
    record = {"id": 17, "radius": 14.2, "texture": 0, "smooth": None, "checked": True, "diagnosis": "M"}
    said = of(record, RecordMap(label="diagnosis"), classes=["B", "M"])
    assert said == ({"radius": 14.2, "checked": 1.0}, 1, 0, "17")


def test_a_null_is_kept_where_it_says_something() -> None:
    record = {"id": 17, "radius": None, "texture": 0, "label": 1}
    x, *_ = of(record, RecordMap(label="label"), keep_nulls=True)
    assert list(x) == ["radius"]
    assert math.isnan(x["radius"])
    x, *_ = of(record, RecordMap(label="label"), keep_nulls=True, keep_zeros=True)
    assert list(x) == ["radius", "texture"]


def test_a_change_of_a_database_as_debezium_and_connect_write_it() -> None:
    after = {"id": 4, "amount": 12.5, "geo": {"lat": 1, "lon": -2}, "city": "Paris", "note": "x", "fraud": 0}
    record = {"schema": {"type": "struct"}, "payload": {"before": None, "after": after, "op": "c", "ts_ms": 99}}
    given = RecordMap(
        label="payload.after.fraud", id="payload.after.id", time="payload.ts_ms", features="payload.after",
        exclude=("note",), texts="one-hot",
    )  # fmt: skip
    x = {"amount": 12.5, "geo.lat": 1.0, "geo.lon": -2.0, "city=Paris": 1.0}
    assert of(record, given) == (x, -1, 99, "4")


@pytest.mark.parametrize(
    ("label", "classes", "target"),
    [
        (1.0, None, 1), ("1", None, 1), ("-1", None, -1), ("0", None, -1), ("True", None, 1), (False, None, -1),
        (1, ["0", "1"], 1), (True, ["false", "true"], 1), ("M", ["B", "M"], 1), (0.0, ["0", "1"], -1),
    ],
)  # fmt: skip
def test_labels_of_a_plain_meaning(label: Any, classes: Any, target: int) -> None:
    value = orjson.dumps({"a": 1, "y": label})
    decoder = Decoder(1, classes=classes, record_map=RecordMap())
    assert left_over([value], decoder) == []
    assert of(value, RecordMap(), classes=classes)[1] == target


def test_a_label_that_is_none_is_refused_with_those_accepted() -> None:
    assert refusal({"a": 1, "grade": 2}, RecordMap(label="grade")) == (
        "bad-label",
        "the label grade is 2; accepted are true, false, 1, 0, -1; input.classes names others",
    )
    assert "the string \"high\"; accepted are \"low\", \"mid\"" in refusal(
        {"a": 1, "grade": "high"}, RecordMap(label="grade"), classes=["low", "mid"]
    )[1]  # fmt: skip


@pytest.mark.parametrize(
    ("time", "unit", "ts"),
    [
        (1763251200, "s", 1763251200000), (1763251200.25, "s", 1763251200250), (1763251200123, "ms", 1763251200123),
        (1763251200123456, "us", 1763251200123), (1763251200123456789, "ns", 1763251200123),
        ("2025-11-16T00:00:00Z", "s", 1763251200000), ("2025-11-16T01:00:00.1239+01:00", "ms", 1763251200123),
        ("2025-11-16", "ms", 1763251200000), ("2024-02-29 12:00:00", "ms", 1709208000000),
    ],
)  # fmt: skip
def test_times(time: Any, unit: Any, ts: int) -> None:
    assert of({"a": 1, "when": time}, RecordMap(time="when", time_unit=unit))[2] == ts


def test_a_time_that_is_none_is_refused() -> None:
    for time in ("2025-02-30T00:00:00Z", "yesterday", -1, True, "1969-12-31T23:59:59Z", 10**40):
        value = json.dumps({"a": 1, "when": time}).encode()
        assert refusal(value, RecordMap(time="when"))[0] == "bad-ts", time


def test_a_path_that_is_not_there_is_said_with_what_is() -> None:
    record = {"payload": {"after": {"amount": 1}}, "op": "c"}
    error, message = refusal(record, RecordMap(features="payload.aftre"))
    assert error == "missing-x"
    assert "there is no payload.aftre" in message
    assert message.endswith("the record has payload, op, payload.after, payload.after.amount")


def test_texts_are_refused_with_advice_unless_told() -> None:
    error, message = refusal({"city": "Paris", "y": 1}, RecordMap())
    assert error == "bad-feature"
    assert "input.map.texts" in message
    assert of({"city": "Paris", "a": 1}, RecordMap(texts="ignore"))[0] == {"a": 1.0}


def test_later_labels_come_through_a_map() -> None:
    given = RecordMap(label="after.fraud", id="after.id", features="after")
    value = orjson.dumps({"after": None, "id": 3})
    assert refusal(value, given)[0] == "missing-x"
    flat = Decoder(1, record_map=RecordMap(label="fraud"))
    values = [b'{"id":"a","amount":3}', b'{"id":"a","fraud":true}', b'{"id":"a","fraud":1,"amount":null}']
    batch = flat.decode(poll_of(values))
    assert batch.columns is not None
    assert batch.columns.label_only.tolist() == [False, True, True]


def test_a_stream_may_be_a_member() -> None:
    decoder = Decoder(4, "member", record_map=RecordMap(stream="who.id"))
    values: list[bytes | None] = [b'{"who":{"id":7},"a":1}', b'{"who":{"id":"x"},"a":1}', b'{"who":{"id":-3},"a":1}']
    assert [*rows_by_stream(decoder.decode(poll_of(values)))] == ["7", "x", "-3"]


def test_names_that_are_the_same_once_they_are_joined_are_refused() -> None:
    error, message = refusal({"a.b": 1, "a": {"b": 2}}, RecordMap())
    assert (error, "twice" in message) == ("bad-feature", True)


def test_arrays_have_places() -> None:
    assert of({"v": [1, 0, {"w": 3}], "y": 1}, RecordMap())[0] == {"v.0": 1.0, "v.2.w": 3.0}
    values: list[bytes | None] = [b'{"v":[1,0,2],"y":1}'] * 3
    decoder = Decoder(1, record_map=RecordMap(features="v"))
    decoder.decode(poll_of(values))
    assert left_over(values, decoder) == []
    assert of(values[0], RecordMap(features="v"), feature_names=["p", "q", "r"])[0] == {"p": 1.0, "r": 2.0}


def test_usual_records_are_read_by_compiled_code() -> None:
    x = b'"amount":1.5,"geo":{"lat":1,"tags":[1,2]},"ok":true,"no":null,"city":"Paris"'
    after = b"{" + x + b',"fraud":"1","at":"2025-11-16T00:00:00Z"}'
    given = RecordMap(label="payload.after.fraud", time="payload.after.at", features="payload.after", texts="one-hot")
    values: list[bytes | None] = [b'{"schema":{"a":[1,{}]},"payload":{"after":' + after + b',"before":null}}'] * 3
    assert left_over(values, Decoder(1, record_map=given)) == []


def test_many_names_and_large_records_find_room() -> None:
    rng = random.Random(3)
    records: list[bytes | None] = [
        orjson.dumps({"o": {f"n{rng.randrange(10**6)}": 1 for _ in range(rng.choice([3, 40, 3000]))}, "y": 1})
        for _ in range(60)
    ]
    reading, parsing = Decoder(1, record_map=RecordMap()), Decoder(1, record_map=RecordMap())
    assert left_over(records, reading) == []
    with all_by_hand():
        by_hand = content(parsing.decode(poll_of(records)))
    assert content(reading.decode(poll_of(records))) == by_hand


def test_what_is_read_is_what_the_same_record_in_native_form_says() -> None:
    rng = random.Random(5)
    natively, mapped = [], []
    for at in range(300):
        x = {f"f{rng.randrange(50)}": round(rng.gauss(0, 1), 3) for _ in range(10)}
        y = rng.random() < 0.5
        natively.append(orjson.dumps({"id": f"e{at}", "ts": at, "x": x, "y": y}))
        mapped.append(orjson.dumps({"meta": {"id": f"e{at}", "at": at}, "data": {**x, "label": y}}))
    given = RecordMap(label="data.label", id="meta.id", time="meta.at", features="data")
    one = content(Decoder(1).decode(poll_of(natively)))
    other = content(Decoder(1, record_map=given).decode(poll_of(mapped)))
    assert one == other


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"label": ""}, "label = '' is no path"),
        ({"label": "a", "id": "a"}, "both 'a'"),
        ({"label": "a.b", "id": "a"}, "lies in id = 'a'"),
        ({"features": "y"}, "both 'y'"),
        ({"features": "y.x"}, "lies in label = 'y'"),
        ({"exclude": ("",)}, "is empty"),
    ],
)
def test_maps_that_cannot_be(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RecordMap(**given)
