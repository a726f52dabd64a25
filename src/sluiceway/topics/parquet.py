"""Instances and later labels as one Parquet file, a row each, as `produce` and `backtest --input` read them again.

Its columns are `stream`, `id`, `ts`, `x` and `y`; a later label has no `x`. A column has one type: features are told by
name in all records or by place in all, and labels are of one kind. Members that no flow reads as an instance's are left
behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson
from pydantic import ValidationError

from sluiceway.errors import SettingsError
from sluiceway.schemas.records import Rules, read_instance

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 4096
"""In a row group: few enough to hold as Python's objects, however many features they have."""
MORE_FEATURES_THAN_ANY = 2**31
KINDS = {bool: "truth values", int: "numbers", str: "text", dict: "by name", list: "by place"}


def refuse_without_arrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise SettingsError(
            "a capture into Parquet needs pyarrow (pip install sluiceway[arrow]); into a directory it goes without"
        ) from None


def instance_of(line: bytes) -> dict[str, Any] | None:
    """A line of a directory as a row; None if no flow takes it for an instance or a later label.

    >>> instance_of(b'{"stream": "mail", "id": 7, "x": {"free": 1}, "y": "spam", "more": true}')
    {'stream': 'mail', 'id': '7', 'ts': None, 'x': {'free': 1.0}, 'y': 'spam'}
    """
    record = orjson.loads(line)
    if record.get("x") is None and any(isinstance(record.get(name), list) for name in ("target", "values")):
        raise SettingsError(
            "a Parquet file has a row for each instance, and this topic holds columns: capture it into a directory"
        )
    rules = Rules([record.get("y")], max_features_per_instance=MORE_FEATURES_THAN_ANY, nulls=True)
    try:
        read = read_instance(record, rules, line=True)
    except ValidationError:
        return None
    told = read.model_dump()
    if type(told["y"]) is int and not -(2**63) <= told["y"] < 2**63:
        return None
    return {name: told.get(name) for name in ("stream", "id", "ts", "x", "y")}


class ParquetFile:
    """The file while it is written; what its columns hold is known before."""

    def __init__(self, path: Path, kinds: Kinds) -> None:
        from pyarrow import parquet

        self._kinds = kinds
        self._rows: list[dict[str, Any]] = []
        self._file = path.open("wb")
        self._writer = parquet.ParquetWriter(self._file, kinds.schema())

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        for row in rows:
            self._kinds.look(row)
            self._rows.append(row)
            if len(self._rows) == ROWS:
                self._write()

    def _write(self) -> None:
        import pyarrow as pa

        schema = self._kinds.schema()
        for row in self._rows:
            if isinstance(row["x"], dict):
                row["x"] = list(row["x"].items())
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema))
        self._rows.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._rows and error is None:
            self._write()
        self._writer.close()
        self._file.close()


class Kinds:
    """How features are told and of which kind labels are, as soon as a record says so."""

    def __init__(self) -> None:
        self._found: dict[str, type] = {}

    @property
    def known(self) -> bool:
        return len(self._found) == 2

    def look(self, row: dict[str, Any]) -> None:
        for name in ("x", "y"):
            value = row[name]
            if value is not None and self._found.setdefault(name, type(value)) is not type(value):
                what = {"x": "features", "y": "labels"}[name]
                one, other = KINDS[self._found[name]], KINDS[type(value)]
                raise SettingsError(
                    f"{what} are {one} and {other} in this window, and a column of Parquet has one type: capture it"
                    " into a directory"
                )

    def refuse_nothing(self) -> None:
        if not self._found:
            raise SettingsError(
                "no record of this window is an instance, and a Parquet file holds nothing else: capture it into a"
                " directory"
            )

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        of_labels = {bool: pa.bool_(), int: pa.int64(), str: pa.string()}
        by_place = self._found.get("x") is list
        features = pa.list_(pa.float64()) if by_place else pa.map_(pa.string(), pa.float64())
        labels = of_labels[self._found.get("y", int)]
        return pa.schema(
            {"stream": pa.string(), "id": pa.string(), "ts": pa.int64(), "x": features, "y": labels}
        )
