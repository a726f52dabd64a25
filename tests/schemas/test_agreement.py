"""Laws of the decoder: it accepts what the typed models accept, and neither company nor order of polls matters."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import DeadLetter
from sluiceway.schemas.records import Instance, LaterLabel, Rules, read_instance
from tests.schemas.polls import Row, batches_of, poll_of, rows_by_stream, rows_of

NAMES = ["free", "len", "caps"]
PLACES = list(map(str, range(10)))
RULES = [
    Rules(max_features_per_instance=6),
    Rules(classes=["ham", "spam"], feature_names=NAMES, max_features_per_instance=6),
    Rules(classes=[0, 1, True, "1"], max_features_per_instance=6),
    Rules(feature_names=NAMES, max_features_per_instance=6, nulls=True),
]

names = st.sampled_from(["a", "b", "0", "1", "free", "true", "ß", "\x00", "日本"]) | st.text(min_size=1, max_size=3)
numbers = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([0, 1, -1, 0.0, 1.0, -0.0, 1e308, 5e-324, 2**53 + 1])
)
oddities = (
    st.sampled_from([None, True, False, "", "1", "ham", [], {}, [[1]], {"a": {"b": [None]}}, 1.5, "e-1"])
    | st.recursive(st.none() | st.booleans(), lambda inner: st.lists(inner, max_size=2), max_leaves=20)
    | st.text(max_size=3)
)


def mostly(good: st.SearchStrategy[Any], bad: st.SearchStrategy[Any] = oddities) -> st.SearchStrategy[Any]:
    return st.integers(0, 11).flatmap(lambda chance: bad if chance == 0 else good)


values = st.one_of(numbers, numbers, numbers, mostly(numbers))
features = st.dictionaries(mostly(names, st.just("")), values, max_size=7) | st.lists(values, max_size=7)
labels = st.sampled_from([None, None, True, False, 1, 0, -1, "ham", "spam", "ham", "1", 1.0, 2])
rest = {
    "y": mostly(labels),
    "id": mostly(st.text(min_size=1, max_size=3) | st.integers(-(2**63), 2**64 - 1)),
    "ts": mostly(st.integers(0, 2**63 - 1), st.sampled_from([-1, 2**63 - 1, 2**63, 1.0, True, "0"])),
    "stream": mostly(st.sampled_from(["mail", "web"])),
    "extra": oddities,
}
records = st.one_of(
    st.fixed_dictionaries({"x": mostly(features)}, optional=rest),
    st.fixed_dictionaries({"x": features}, optional=rest),
    st.fixed_dictionaries({}, optional=rest),
)
literals = st.sampled_from(
    [
        *("1e999", "-1e999", "1e308", "1.7976931348623159e308", "1" + "0" * 308, "9" * 309, "1e-999"),
        *("NaN", "Infinity", "-0", "-0.0", "01", "1.", ".5", "1E5", "18446744073709551616", "-9223372036854775809"),
        *("true", "null", '"1"', "ham"),
    ]
)
texts = st.builds(
    lambda form, literal: form.replace("?", literal),
    st.sampled_from(['{"x":{"a":?}}', '{"x":[1,?]}', '{"x":{},"y":?}', '{"x":{},"ts":?}', '{"id":?,"y":1}', "?"]),
    literals,
)
messages = st.one_of(
    *[records.map(orjson.dumps)] * 9,
    texts.map(str.encode),
    st.binary(max_size=6),
    oddities.map(orjson.dumps),
)


def decoder_of(rules: Rules, stream: Any = "key") -> Decoder:
    return Decoder(
        1, stream, rules.classes, rules.feature_names, rules.max_features_per_instance, keep_nulls=rules.nulls
    )


def target_of(y: Any, rules: Rules) -> int:
    if y is None:
        return 0
    if rules.classes is None:
        return 1 if y == 1 else -1
    place = [(type(label), label) for label in rules.classes].index((type(y), y))
    return (-1, 1)[place] if len(rules.classes) == 2 else place + 1


def features_of(record: Instance, rules: Rules) -> Any:
    """Zeros left out; a null is NaN, here by its name."""
    given = record.x if isinstance(record.x, dict) else dict(zip(rules.feature_names or PLACES, record.x, strict=False))
    assert record.features(rules.feature_names) == {name: value for name, value in given.items() if value}
    return tuple((name, "nan" if value is None else value) for name, value in given.items() if value != 0)


def row_by_model(value: bytes, rules: Rules, *, line: bool) -> Row | None:
    """What the typed model makes of the message; None = refused."""
    try:
        record = read_instance(orjson.loads(value), rules, line=line)
    except (orjson.JSONDecodeError, ValidationError):
        return None
    x = features_of(record, rules) if isinstance(record, Instance) else ()
    y = target_of(record.y, rules)
    assert record.id is None or isinstance(record.id, str)
    return Row(0, 10, x, y, record.ts or 0, record.id, isinstance(record, LaterLabel))


def nulls_named(x: Any) -> Any:
    return tuple((name, "nan" if math.isnan(value) else value) for name, value in x)


@pytest.mark.parametrize("line", [False, True], ids=["message", "line"])
@pytest.mark.parametrize("rules", RULES, ids=["binary", "named", "multi-class", "nulls"])
@settings(max_examples=500, deadline=None)
@given(value=messages)
def test_decoder_and_models_accept_the_same_records(rules: Rules, line: bool, value: bytes) -> None:
    decoded = decoder_of(rules, "member" if line else "key").decode(poll_of([value]))
    expected = row_by_model(value, rules, line=line)
    rows = [row._replace(x=nulls_named(row.x)) for _, batch in batches_of(decoded) for row in rows_of(batch)]
    assert rows == ([] if expected is None else [expected])
    assert len(decoded.dead_letters) == (expected is None)


keys = st.sampled_from([b"mail", b"web", b"", None, b"\xff"])


@settings(max_examples=250, deadline=None)
@given(given_messages=st.lists(st.tuples(keys, st.none() | messages), max_size=12), data=st.data())
def test_where_a_poll_is_split_changes_nothing(
    given_messages: list[tuple[bytes | None, bytes | None]], data: st.DataObject
) -> None:
    """One decoder for all parts and a new one for each part give the rows and dead letters of the whole poll."""
    cut = sorted(data.draw(st.lists(st.integers(0, len(given_messages)), max_size=4)))
    whole = decoder_of(RULES[0]).decode(_poll(given_messages, 0))
    for shared in (decoder_of(RULES[0]), None):
        rows: dict[str, list[Row]] = {}
        dead_letters: list[DeadLetter] = []
        raw: dict[int, tuple[bytes | None, bytes | None]] = {}
        for low, high in zip([0, *cut], [*cut, len(given_messages)], strict=True):
            part = (shared or decoder_of(RULES[0])).decode(_poll(given_messages[low:high], 10 * low))
            dead_letters += part.dead_letters
            raw |= part.raw
            for stream, more in rows_by_stream(part).items():
                rows.setdefault(stream, []).extend(more)
        assert list(rows.items()) == list(rows_by_stream(whole).items())
        assert dead_letters == whole.dead_letters
        assert raw == whole.raw


@settings(max_examples=250, deadline=None)
@given(given_messages=st.lists(st.tuples(keys, st.none() | messages), max_size=12))
def test_refused_records_leave_nothing_behind(given_messages: list[tuple[bytes | None, bytes | None]]) -> None:
    """The batches are, names included, those of a poll that never had them."""
    whole = decoder_of(RULES[0]).decode(_poll(given_messages, 0))
    refused = {letter.offset // 10 for letter in whole.dead_letters}
    poll = _poll(given_messages, 0)
    for at in sorted(refused, reverse=True):
        for column in (poll.keys, poll.values, poll.offsets, poll.next_offsets):
            del column[at]
    clean = decoder_of(RULES[0]).decode(poll)
    assert clean.dead_letters == []
    assert rows_by_stream(clean) == rows_by_stream(whole)
    assert [batch.names for _, batch in batches_of(clean)] == [batch.names for _, batch in batches_of(whole)]


def _poll(chosen: list[tuple[bytes | None, bytes | None]], first: int) -> Any:
    return poll_of([value for _, value in chosen], [key for key, _ in chosen], first=first)
