"""Reading a topic of columns: what is accepted, what is refused and why, and that the typed models agree."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sluiceway.schemas.columns import ColumnRecord, SparseColumn
from sluiceway.schemas.decode_columns import ColumnDecoder, TargetType
from sluiceway.schemas.records import Column, Rules, Target, Verdict, read_column
from tests.columns.lanes import columns
from tests.schemas.polls import poll_of
from tests.schemas.test_agreement import mostly, numbers, oddities
from tests.stages.lanes import message

REFUSED: dict[str, tuple[bytes | None, str, str]] = {
    "no value": (None, "tombstone", "no value"),
    "no bytes": (b"", "empty", "empty"),
    "not UTF-8": (b'{"name": "\xff"}', "not-utf8", "byte 10"),
    "no JSON": (b"{", "not-json", "not JSON"),
    "NaN": (b'{"name": "a", "values": [NaN]}', "not-json", "not JSON"),
    "no object": (b"[1, 2]", "not-an-object", "an array"),
    "too large": (b'{"name": "a", "values": [1, 1e999]}', "bad-column", "values holds a number too large"),
    "target too large": (b'{"target": [1, -1e999]}', "bad-column", "target holds a number too large"),
    "ts": (b'{"name": "a", "values": [1], "ts": -1}', "bad-ts", "ts is -1"),
    "no name": (b'{"values": [1]}', "bad-column", "name is null"),
    "empty name": (b'{"name": "", "values": [1]}', "bad-column", "neither a target nor a column"),
    "name of a number": (b'{"name": 7, "values": [1]}', "bad-column", "name is 7"),
    "no values": (b'{"name": "a"}', "bad-column", "the values are null, not an array"),
    "object of values": (b'{"name": "a", "values": {"0": 1}}', "bad-column", "the values are an object"),
    "text": (b'{"name": "a", "values": [1, "2"]}', "bad-column", 'holds the string "2"'),
    "null": (b'{"name": "a", "values": [1, null]}', "bad-column", "holds null"),
    "boolean": (b'{"name": "a", "values": [1, true]}', "bad-column", "holds a boolean"),
    "no size": (b'{"name": "a", "at": [0], "values": [1]}', "bad-column", "size is null"),
    "bad size": (b'{"name": "a", "size": 1.5, "values": [1]}', "bad-column", "size is 1.5"),
    "size beyond all": (b'{"name": "a", "size": 9223372036854775808, "values": [1]}', "bad-column", "size is 9"),
    "fractional row": (b'{"name": "a", "size": 3, "at": [0.5], "values": [1]}', "bad-column", "at is not an array"),
    "row outside": (b'{"name": "a", "size": 3, "at": [3], "values": [1]}', "bad-column", r"outside \[0, 3\)"),
    "negative row": (b'{"name": "a", "size": 3, "at": [-1], "values": [1]}', "bad-column", r"outside \[0, 3\)"),
    "row beyond all": (
        b'{"name": "a", "size": 3, "at": [9223372036854775808], "values": [1]}', "bad-column", r"outside \[0, 3\)",
    ),
    "row twice": (b'{"name": "a", "size": 3, "at": [1, 1], "values": [1, 2]}', "bad-column", "a row twice"),
    "rows without values": (b'{"name": "a", "size": 3, "at": [1], "values": []}', "bad-column", "1 rows for 0 values"),
    "target of fractions": (b'{"target": [1.5, 2]}', "bad-column", "not an array of classes"),
    "target of nulls": (b'{"target": [null]}', "bad-column", "not an array of classes"),
    "target of one": (b'{"target": 1}', "bad-column", "not an array of classes"),
}  # fmt: skip


def records_of(values: list[bytes | None], target_type: TargetType = "class") -> list[ColumnRecord]:
    batch = ColumnDecoder(1, target_type=target_type).decode(poll_of(values))
    assert not batch.dead_letters
    [(_, records)] = batch.streams
    return list(records)


@pytest.mark.parametrize(("value", "error_class", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(value: bytes | None, error_class: str, words: str) -> None:
    batch = ColumnDecoder(1).decode(poll_of([value], [b"k"]))
    assert batch.streams == []
    [letter] = batch.dead_letters
    assert (letter.offset, letter.key, letter.value, letter.stage) == (0, b"k", value, "decode")
    assert letter.error_class == error_class
    assert re.search(words, letter.message), letter.message


def test_streams_are_named_by_key_member_or_partition() -> None:
    values = [orjson.dumps({"target": [1], "stream": name}) for name in ("a", "b", "")]
    by_member = ColumnDecoder(4, "member").decode(poll_of(values, lane=2))
    assert [stream for stream, _ in by_member.streams] == ["a", "b"]
    assert [letter.error_class for letter in by_member.dead_letters] == ["bad-stream"]
    by_key = ColumnDecoder(4).decode(poll_of(values, [b"x", None, b"\xff"], lane=2))
    assert [stream for stream, _ in by_key.streams] == ["x", "default-2"]
    assert [letter.error_class for letter in by_key.dead_letters] == ["bad-key"]
    by_partition = ColumnDecoder(4, "partition").decode(poll_of(values, lane=2))
    assert [(stream, len(records)) for stream, records in by_partition.streams] == [("partition-2", 3)]


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ([1, -1, 7], [1, -1, 7]),
        (["b", "a", "b"], [0, 1, 0]),
        ([True, False, True], [0, 1, 0]),
        ([1, True, "1"], [0, 1, 2]),
        ([2**60, 2**60 + 1], [0, 1]),
    ],
)
def test_classes_become_numbers(target: list[Any], wanted: list[float]) -> None:
    [record] = records_of([orjson.dumps({"target": target})])
    assert record.name is None
    assert np.asarray(record.values).tolist() == wanted


def test_a_target_of_numbers() -> None:
    [record] = records_of([b'{"target": [1.5, 2], "ts": 9}'], "number")
    assert np.asarray(record.values).tolist() == [1.5, 2.0]
    assert record.ts == 9


def test_a_sparse_column_is_the_dense_one() -> None:
    dense, sparse = records_of(
        [b'{"name": "a", "values": [0, 5, 0, 2]}', b'{"name": "a", "size": 4, "at": [3, 1], "values": [2, 5]}']
    )
    assert isinstance(sparse.values, SparseColumn)
    assert sparse.values.dense("a").tolist() == np.asarray(dense.values).tolist()


rows = st.integers(0, 5) | st.integers(0, 2**64 - 1)
members = {
    "size": mostly(st.integers(0, 6), st.sampled_from([-1, 2**63, 2**63 - 1, 1.0, True, None])),
    "at": mostly(st.lists(mostly(rows, st.sampled_from([-1, 1.0, True])), max_size=3)),
    "ts": mostly(st.integers(0, 2**63 - 1), st.sampled_from([-1, 2**63, 1.0, True, "0"])),
    "stream": mostly(st.sampled_from(["mail", "web"])),
    "extra": oddities,
}
classes = st.sampled_from([0, 1, -1, "ham", "", True, False, 2**53 + 1]) | mostly(numbers)
values = st.lists(mostly(numbers), max_size=4)
records = st.one_of(
    st.fixed_dictionaries({"target": mostly(st.lists(classes, max_size=4))}, optional=members),
    st.fixed_dictionaries({"name": mostly(st.text(max_size=3)), "values": mostly(values)}, optional=members),
    st.fixed_dictionaries({"name": st.just("a"), "values": values, "size": st.just(6), "at": members["at"]}),
    st.fixed_dictionaries({}, optional={**members, "target": oddities, "name": oddities, "values": oddities}),
)
values_of_messages = st.one_of(*[records.map(orjson.dumps)] * 9, oddities.map(orjson.dumps), st.binary(max_size=4))


@pytest.mark.parametrize("line", [False, True], ids=["message", "line"])
@pytest.mark.parametrize("target_type", ["class", "number"])
@settings(max_examples=400, deadline=None)
@given(value=values_of_messages)
def test_decoder_and_models_accept_the_same(target_type: TargetType, line: bool, value: bytes) -> None:
    decoder = ColumnDecoder(1, "member" if line else "key", target_type)
    decoded = decoder.decode(poll_of([value]))
    try:
        model = read_column(orjson.loads(value), Rules(target_type=target_type), line=line)
    except (orjson.JSONDecodeError, ValidationError):
        assert decoded.streams == []
        assert len(decoded.dead_letters) == 1
        return
    assert decoded.dead_letters == []
    [(_, [record])] = decoded.streams
    assert record.ts == (model.ts or 0)
    if isinstance(model, Target):
        assert record.name is None
        assert len(record.values) == len(model.target)
    else:
        assert isinstance(model, Column)
        assert record.name == model.name
        given_values = record.values.values if isinstance(record.values, SparseColumn) else record.values
        assert np.asarray(given_values).tolist() == model.values
        assert isinstance(record.values, SparseColumn) == (model.at is not None)


def test_verdicts_fit_their_model() -> None:
    sent = [{"target": [0, 0, 1, 1]}, {"name": "a", "values": [0, 0, 1, 1]}, {"name": "b", "values": [0, 0, 2, 2]}]
    kind = columns("saola", {"measure": "symmetric-uncertainty"})
    given_verdicts = kind.whole([message("s", record) for record in sent]).verdicts
    assert len(given_verdicts) == 2
    for record in given_verdicts:
        assert record.value is not None
        verdict = Verdict.model_validate_json(record.value)
        assert verdict.model_dump(mode="json") == orjson.loads(record.value)
        with pytest.raises(ValidationError):
            Verdict.model_validate({**orjson.loads(record.value), "colour": "red"})
