"""Batches built by hand: validated at once, and the same as those of the decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.decode import Decoder
from tests.schemas.polls import batches_of, poll_of_records, rows_of


def test_records_become_the_rows_of_the_decoder() -> None:
    records: list[dict[str, Any]] = [
        {"x": {"a": 1.5, "b": 0, "c": -2}, "y": 0, "id": "e-1"},
        {"x": {"c": 3}, "y": True},
        {"x": {}, "y": False},
        {"x": {"a": 1}},
        {"x": {"b": 4}, "y": -1},
    ]
    ((_, decoded),) = batches_of(Decoder(1).decode(poll_of_records(records)))
    built = rows_of(InstanceBatch.from_records(records))
    assert [(row.x, row.y, row.id) for row in built] == [(row.x, row.y, row.id) for row in rows_of(decoded)]


@pytest.mark.parametrize(
    ("record", "part"),
    [
        ({"x": {"a": True}}, "feature 'a'"),
        ({"x": {"a": "1"}}, "feature 'a'"),
        ({"x": {"a": float("nan")}}, "feature 'a'"),
        ({"x": {"a": float("inf")}}, "feature 'a'"),
        ({"x": {"": 1}}, "name is empty"),
        ({"x": {"a": 1}, "y": 1.0}, "label 1.0"),
        ({"x": {"a": 1}, "y": 2}, "label 2"),
        ({"x": {"a": 1}, "y": []}, "label"),
    ],
)
def test_bad_records_are_refused(record: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        InstanceBatch.from_records([record])


def test_a_table_drops_its_zeros() -> None:
    batch = InstanceBatch.from_arrays([[0.0, 1.5], [2.0, 0.0], [0.0, 0.0]], [1, -1, 0])
    assert [row.x for row in rows_of(batch)] == [(("1", 1.5),), (("0", 2.0),), ()]
    assert batch.y.tolist() == [1, -1, 0]


def test_numpy_labels_are_labels() -> None:
    records: list[dict[str, Any]] = [{"x": {}, "y": y} for y in (np.int64(-1), np.int8(1), np.bool_(False))]
    assert InstanceBatch.from_records(records).y.tolist() == [-1, 1, -1]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (([0, 1], [0, 1], [1.0, 2.0]), "indptr"),
        (([0, 2], [0, 1], [1.0]), "differ in length"),
        (([0, 1], [2], [1.0]), "indices must lie"),
        (([0, 2], [1, 1], [1.0, 2.0]), "twice in row 0"),
        (([0, 1], [1], [np.nan]), "'b' is nan in row 0"),
        (([0, 1], [1], [1.0], [-2]), "label -2 is not -1, "),
        (([0, 1], [1], [1.0], [128]), "label 128 is not -1, .* nor a class, 1 to 127"),
        (([0, 1, 1], [1], [1.0], [-1, 2]), "2 does not go with -1"),
    ],
)
def test_bad_rows_are_refused(arguments: tuple[Any, ...], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        InstanceBatch.from_csr(*arguments, names=("a", "b"))


def test_a_slice_is_its_rows() -> None:
    records = [{"x": {"a": 1, "b": 2}, "y": 1}, {"x": {}, "y": 0}, {"x": {"b": 3}, "id": "e"}, {"id": "e", "y": 1}]
    ((_, batch),) = batches_of(Decoder(1).decode(poll_of_records(records)))
    for start in range(5):
        for stop in range(start, 5):
            part = batch.slice(start, stop)
            assert part.names is batch.names
            assert rows_of(part) == rows_of(batch)[start:stop]
