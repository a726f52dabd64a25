"""The models of column records and verdicts accept what the decoder accepts and what the encoder gives."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from sluiceway.schemas import encode
from sluiceway.schemas.decode_columns import ColumnDecoder
from sluiceway.schemas.lane import RawPoll
from sluiceway.schemas.records import Column, Target, Verdict

GOOD: list[tuple[type[Target | Column], dict[str, Any]]] = [
    (Target, {"target": [1, -1, 1]}),
    (Target, {"target": ["ham", "spam"], "ts": 5}),
    (Column, {"name": "a", "values": [1, 0.5]}),
    (Column, {"name": "a", "size": 3, "at": [0, 2], "values": [1, 2], "unknown": "kept out"}),
]
BAD: list[tuple[type[Target | Column], dict[str, Any]]] = [
    (Target, {"target": "no array"}),
    (Target, {"target": [None]}),
    (Column, {"name": "", "values": [1]}),
    (Column, {"values": [1]}),
    (Column, {"name": "a", "values": ["x"]}),
    (Column, {"name": "a", "values": [True]}),
    (Column, {"name": "a", "values": [1], "at": [0.5], "size": 2}),
    (Column, {"name": "a", "values": [1], "ts": -1}),
]


def refused(record: dict[str, Any]) -> bool:
    poll = RawPoll(0, 0, 1, False, [b"s"], [orjson.dumps(record)], [0], [1])
    return bool(ColumnDecoder(1).decode(poll).dead_letters)


@pytest.mark.parametrize(("model", "record"), GOOD)
def test_accepted_by_both(model: type[Target | Column], record: dict[str, Any]) -> None:
    assert not refused(record)
    model.model_validate(record)


@pytest.mark.parametrize(("model", "record"), BAD)
def test_refused_by_both(model: type[Target | Column], record: dict[str, Any]) -> None:
    assert refused(record)
    with pytest.raises(ValidationError):
        model.model_validate(record)


def test_verdicts() -> None:
    made = encode.verdict(
        offset=7,
        flow="genes",
        stream="s",
        version=3,
        generation=0,
        feature="a",
        kept=True,
        reason="selected",
        by=(),
        removed={"b": ["a"]},
        returned=[],
        partition=0,
    )
    assert made.value is not None
    read = Verdict.model_validate_json(made.value)
    assert read.removed == {"b": ("a",)}
    assert orjson.loads(read.model_dump_json()) == orjson.loads(made.value)
