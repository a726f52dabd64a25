"""Columnar batches: what operators learn from. numpy only, validated when built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

UNLABELLED = 0
MAX_FEATURES_PER_INSTANCE = 100_000
MOST_CLASSES = 127

Label = str | int | bool
"""As a record has it."""

BINARY_LABELS: Mapping[tuple[type, object], int] = {
    (bool, True): 1,
    (bool, False): -1,
    (int, 1): 1,
    (int, -1): -1,
    (int, 0): -1,
}
"""What a record's binary label is in a batch, by type and value: 1.0 equals 1 in Python but is not a label."""


@dataclass(frozen=True, slots=True, eq=False)
class InstanceBatch:
    """Instances of one stream, in order, as compressed sparse rows over a batch-local list of names.

    Build it with `from_arrays`, `from_csr` or `from_records`, which validate; the constructor itself trusts its
    caller (the decoder, which has validated record by record).

    Two batches that share the very same `names` tuple let an operator keep its mapping from names to slots.
    """

    names: tuple[str, ...]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    y: NDArray[np.int8]
    """-1 or +1, or 1, 2, 3, ... for more than two classes; 0 = unlabelled."""
    ts: NDArray[np.int64]
    """Milliseconds; 0 = the record had none."""
    offset: NDArray[np.int64]
    """Where each row's record lies in its partition."""
    next_offset: NDArray[np.int64]
    """Where reading goes on after it."""
    ids: Sequence[str | None] | None = None
    label_only: NDArray[np.bool_] | None = None
    """Rows that carry no instance but the later label of an earlier one; None = no such row."""

    def __len__(self) -> int:
        return len(self.y)

    @classmethod
    def from_csr(
        cls,
        indptr: ArrayLike,
        indices: ArrayLike,
        values: ArrayLike,
        y: ArrayLike | None = None,
        *,
        names: Sequence[str],
        ids: Sequence[str | None] | None = None,
    ) -> Self:
        """Rows `indices[indptr[i]:indptr[i+1]]` into `names`; `y` as the member says (None: all unlabelled).

        Booleans are labels too: False is -1.
        """
        names = names if isinstance(names, tuple) else tuple(map(_plain, names))
        indptr_ = np.ascontiguousarray(indptr, dtype=np.int64)
        indices_ = np.ascontiguousarray(indices, dtype=np.int32)
        values_ = np.ascontiguousarray(values, dtype=np.float64)
        rows = len(indptr_) - 1
        if rows < 0 or indptr_[0] != 0 or indptr_[-1] != len(indices_) or np.any(np.diff(indptr_) < 0):
            raise ValueError("indptr must rise from 0 to the number of non-zeros")
        if len(values_) != len(indices_):
            raise ValueError(f"indices and values differ in length: {len(indices_)} and {len(values_)}")
        if len(indices_) and (indices_.min() < 0 or indices_.max() >= len(names)):
            raise ValueError(f"indices must lie in [0, {len(names)}): the length of names")
        _refuse_bad_names(names)
        _refuse_non_finite(values_, indices_, indptr_, names)
        _refuse_repeats(indptr_, indices_, names)
        if ids is not None and len(ids) != rows:
            raise ValueError(f"{len(ids)} ids for {rows} rows")
        zeros = np.zeros(rows, dtype=np.int64)
        order = np.arange(rows, dtype=np.int64)
        return cls(names, indptr_, indices_, values_, _labels(y, rows), zeros, order, order + 1, ids)

    @classmethod
    def from_arrays(cls, X: ArrayLike, y: ArrayLike | None = None, names: Sequence[str] | None = None) -> Self:
        """A dense table, a row an instance; zeros are absent. Names default to a DataFrame's own, or "0", "1", ..."""
        if names is None and hasattr(X, "columns"):
            names = tuple(map(str, X.columns))
        table = np.asarray(X, dtype=np.float64)
        if table.ndim != 2:
            raise ValueError(f"X must be a table of rows and columns, not of {table.ndim} dimensions")
        if names is None:
            names = tuple(map(str, range(table.shape[1])))
        elif len(names) != table.shape[1]:
            raise ValueError(f"{len(names)} names for {table.shape[1]} columns")
        present = table != 0
        indptr = np.concatenate(([0], np.cumsum(present.sum(axis=1))))
        return cls.from_csr(indptr, np.nonzero(present)[1], table[present], y, names=names)

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]]) -> Self:
        """Records as on an `instances` topic, already parsed: `{"x": {...}, "y": ..., "id": ...}`.

        As there, a label of 0 or false is the negative class, None is unlabelled, and zeros are absent features.
        """
        index: dict[str, int] = {}
        indptr, indices, values, y, ids = [0], [], [], [], []
        for record in records:
            for name, value in record["x"].items():
                if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                    raise ValueError(f"feature {name!r} is {value!r}, not a number")
                if value != 0:
                    indices.append(index.setdefault(name, len(index)))
                    values.append(float(value))
            indptr.append(len(indices))
            y.append(_target(record.get("y")))
            ids.append(record.get("id"))
        return cls.from_csr(indptr, indices, values, y, names=tuple(index), ids=ids)

    def slice(self, start: int, stop: int) -> InstanceBatch:
        """Rows [start, stop) as a batch of their own over the same names; arrays are shared, not copied."""
        low, high = self.indptr[start], self.indptr[stop]
        return InstanceBatch(
            self.names,
            self.indptr[start : stop + 1] - low,
            self.indices[low:high],
            self.values[low:high],
            self.y[start:stop],
            self.ts[start:stop],
            self.offset[start:stop],
            self.next_offset[start:stop],
            None if self.ids is None else self.ids[start:stop],
            None if self.label_only is None else self.label_only[start:stop],
        )


def _target(label: Any) -> int:
    plain = label.item() if isinstance(label, np.generic) else label
    if plain is None:
        return UNLABELLED
    try:
        return BINARY_LABELS[type(plain), plain]
    except (KeyError, TypeError):
        raise ValueError(f"label {label!r} is not true, false, 1, 0 or -1") from None


def _labels(y: ArrayLike | None, rows: int) -> NDArray[np.int8]:
    if y is None:
        return np.zeros(rows, dtype=np.int8)
    given = np.asarray(y)
    if given.shape != (rows,):
        raise ValueError(f"{given.shape} labels for {rows} rows")
    if given.dtype == np.bool_:
        return np.where(given, 1, -1).astype(np.int8)
    with np.errstate(invalid="ignore"):
        whole = given.astype(np.int8) if given.dtype.kind in "biuf" else np.zeros(rows, dtype=np.int8)
    wrong = (whole != given) | (whole < -1)
    if wrong.any():
        raise ValueError(
            f"label {given[wrong].tolist()[0]!r} is not -1, +1 or 0 (unlabelled), nor a class, 1 to {MOST_CLASSES}"
        )
    if rows and whole.min() < 0 and whole.max() > 1:
        raise ValueError(f"labels are -1 and +1, or classes from 1 on: {whole.max()} does not go with -1")
    return whole


def _plain(name: str) -> str:
    """Of numpy's texts too."""
    return str(name) if isinstance(name, str) else name


def _refuse_bad_names(names: tuple[str, ...]) -> None:
    if any(type(name) is not str for name in names):
        raise ValueError("feature names must be strings")
    if "" in names:
        raise ValueError("a feature name is empty")
    if len(set(names)) != len(names):
        raise ValueError("names must not repeat")


def _refuse_non_finite(
    values: NDArray[np.float64], indices: NDArray[np.int32], indptr: NDArray[np.int64], names: tuple[str, ...]
) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        at = int(np.argmin(finite))
        row = int(np.searchsorted(indptr, at, side="right")) - 1
        raise ValueError(f"feature {names[indices[at]]!r} is {values[at]} in row {row}: values must be finite")


def _refuse_repeats(indptr: NDArray[np.int64], indices: NDArray[np.int32], names: tuple[str, ...]) -> None:
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    cells = np.sort(rows * max(len(names), 1) + indices)
    repeated = np.flatnonzero(cells[1:] == cells[:-1])
    if len(repeated):
        row, feature = divmod(int(cells[repeated[0]]), len(names))
        raise ValueError(f"feature {names[feature]!r} stands twice in row {row}")
