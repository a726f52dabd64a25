from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sluiceway import SelectionMask, Snapshot
from tests.client.snapshots import value

NAMES = ["len", "money", "free", "to"]


def snapshot(*features: str) -> Snapshot:
    return Snapshot.model_validate_json(value(10, features=features))


def test_a_mapping_keeps_its_order_and_its_values() -> None:
    mask = SelectionMask(snapshot("free", "money"))
    x = {"len": 120, "money": 0, "free": 0.5}
    assert list(mask.apply(x).items()) == [("money", 0), ("free", 0.5)]
    assert x == {"len": 120, "money": 0, "free": 0.5}
    assert "free" in mask
    assert "len" not in mask
    assert len(mask) == 2
    assert mask.features == ("free", "money")


def test_arrays_keep_their_columns_in_order() -> None:
    mask = SelectionMask(snapshot("free", "money", "never seen"))
    np.testing.assert_array_equal(mask.apply([1.0, 2.0, 3.0, 4.0], NAMES), [2.0, 3.0])
    table = np.arange(8, dtype=np.float32).reshape(2, 4)
    kept = mask.apply(table, names=NAMES)
    np.testing.assert_array_equal(kept, [[1, 2], [5, 6]])
    assert kept.dtype == np.float32
    assert mask.kept(NAMES) == ["money", "free"]


def test_columns_without_names_are_numbers_as_in_records() -> None:
    np.testing.assert_array_equal(SelectionMask(snapshot("2", "0")).apply([7, 8, 9]), [7, 9])


def test_nothing_selected() -> None:
    mask = SelectionMask(snapshot())
    assert mask.apply({"a": 1.0}) == {}
    assert mask.apply(np.ones((3, 2)), names=["a", "b"]).shape == (3, 0)


def test_a_cut_snapshot_says_so() -> None:
    whole = snapshot("free", "money")
    assert SelectionMask(whole).complete
    assert not SelectionMask(whole.model_copy(update={"n_selected": 3})).complete


def test_mistakes() -> None:
    mask = SelectionMask(["a"])
    with pytest.raises(ValueError, match="2 names for 3 columns"):
        mask.apply([1, 2, 3], names=["a", "b"])
    with pytest.raises(ValueError, match="not 3"):
        mask.apply(np.ones((1, 1, 1)))
    with pytest.raises(TypeError, match="a dict has its own"):
        mask.apply({"a": 1}, names=["a"])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="not one text"):
        SelectionMask("a")


TABLE: dict[str, Any] = {"len": [120, 80], "money": [0.0, 1.0], "free": [0.5, 0.0]}


@pytest.mark.parametrize("table", [pd.DataFrame(TABLE), pl.DataFrame(TABLE), pl.LazyFrame(TABLE), pa.table(TABLE)])
def test_tables_are_known_by_their_columns(table: Any) -> None:
    kept = SelectionMask(snapshot("free", "money", "never seen")).apply(table)
    assert type(kept) is type(table)
    whole = kept.collect() if isinstance(kept, pl.LazyFrame) else kept
    as_dict = whole.to_pydict() if isinstance(whole, pa.Table) else whole.to_dict()
    assert list(as_dict) == ["money", "free"]
    with pytest.raises(ValueError, match=r"\('FREE'\) is among the names given \('len', 'money', 'free'\)"):
        SelectionMask(["FREE"]).apply(table)
    with pytest.raises(TypeError, match="has its own"):
        SelectionMask(["free"]).apply(table, names=["a", "b", "c"])


def test_a_series_is_an_instance() -> None:
    row = pd.DataFrame(TABLE).iloc[0]
    kept = SelectionMask(["free", "money"]).apply(row)
    assert kept.to_dict() == {"money": 0.0, "free": 0.5}
    numbered = SelectionMask(["2", "0"]).apply(pd.Series([7, 8, 9]))
    assert numbered.to_dict() == {0: 7, 2: 9}
    np.testing.assert_array_equal(SelectionMask(["b"]).apply(pl.Series([1.0, 2.0]), names=["a", "b"]), [2.0])


def test_columns_need_not_be_texts_and_may_repeat() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=[0, 1, 1])
    assert SelectionMask(["1"]).apply(frame).to_numpy().tolist() == [[2, 3]]


def test_names_that_fit_to_nothing_are_refused() -> None:
    mask = SelectionMask(["free", "money", "hi", "you"])
    with pytest.raises(ValueError, match=r"\('free', 'money', 'hi' and 1 more\) is among the names given \('0', '1'\)"):
        mask.apply(np.ones((3, 2)))
    assert mask.apply({"len": 3}) == {}, "an instance in which all selected features are 0"
    assert SelectionMask([]).apply(pd.DataFrame(TABLE)).shape == (2, 0)
