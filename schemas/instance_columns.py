"""One poll of instances as columns: the rows of all its streams, in the order of their offsets.

Rows are compressed and sparse. A feature is known by its `address`, a 64-bit hash of its name that is keyed by a secret
of the process (so nobody can choose names that collide, and it is never stored), and by its `key`, which orders
features and is the same everywhere and for ever. Its name itself stands in `text`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.name_hash import number_names


@dataclass(slots=True, eq=False, weakref_slot=True)
class Columns:
    """Arrays may be views of room that the decoder uses again for its next poll: they hold until then."""

    text: NDArray[np.uint8]
    """The letters that the positions below refer to, in UTF-8; eight bytes beyond the last are readable."""
    # by row
    streams: list[bytes]
    """The stream's name in UTF-8, never empty."""
    indptr: NDArray[np.int64]
    """Where a row's features begin; they end where the next row's begin."""
    y: NDArray[np.int8]
    """-1 or +1, or 1, 2, 3, ... for more than two classes; 0 = unlabelled."""
    ts: NDArray[np.int64]
    """Milliseconds; 0 = the record had none."""
    offset: NDArray[np.int64]
    """Where the row's record lies in its partition; the rows of an Arrow message share one."""
    next_offset: NDArray[np.int64]
    """Where reading goes on after it."""
    id_at: NDArray[np.int64]
    id_size: NDArray[np.int32]
    """0 = the record has no id."""
    label_only: NDArray[np.bool_]
    """The row carries no instance but the later label of an earlier one."""
    # by feature that is not zero
    address: NDArray[np.uint64]
    key: NDArray[np.int64]
    name_at: NDArray[np.int64]
    name_size: NDArray[np.int32]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.y)

    def batches(self) -> list[tuple[str, InstanceBatch]]:
        """A batch for each stream, in the order in which streams first appear; nothing in it is shared with this."""
        rows_of: dict[bytes, list[int]] = {}
        for row, stream in enumerate(self.streams):
            rows_of.setdefault(stream, []).append(row)
        letters = memoryview(self.text.data)
        return [
            (stream.decode(), self._batch(np.array(rows, dtype=np.int64), letters)) for stream, rows in rows_of.items()
        ]

    def _batch(self, rows: NDArray[np.int64], letters: memoryview) -> InstanceBatch:
        low = self.indptr[rows]
        sizes = self.indptr[rows + 1] - low
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(sizes, out=indptr[1:])
        features = np.repeat(low - indptr[:-1], sizes) + np.arange(indptr[-1])
        name_at, name_size = self.name_at[features], self.name_size[features]
        indices, first = number_names(self.text, self.address[features], name_at, name_size)
        name_at, name_size = name_at[first], name_size[first]
        named = zip(name_at.tolist(), name_size.tolist(), strict=True)
        names = (str(letters[at : at + size], "utf-8") for at, size in named)
        id_at, id_size, label_only = self.id_at[rows], self.id_size[rows], self.label_only[rows]
        ids: list[str | None] | None = None
        if id_size.any():
            places = zip(id_at.tolist(), id_size.tolist(), strict=True)
            ids = [str(letters[at : at + size], "utf-8") if size else None for at, size in places]
        return InstanceBatch(
            tuple(names),
            indptr,
            indices,
            self.values[features],
            self.y[rows],
            self.ts[rows],
            self.offset[rows],
            self.next_offset[rows],
            ids,
            label_only if label_only.any() else None,
        )


def take_rows(columns: Columns, rows: NDArray[np.int64]) -> Columns:
    """Some of the rows, in rising order; nothing but the letters is shared."""
    low = columns.indptr[rows]
    sizes = columns.indptr[rows + 1] - low
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(sizes, out=indptr[1:])
    features = np.repeat(low - indptr[:-1], sizes) + np.arange(indptr[-1])
    return replace(
        columns,
        streams=[columns.streams[row] for row in rows.tolist()],
        indptr=indptr,
        y=columns.y[rows],
        ts=columns.ts[rows],
        offset=columns.offset[rows],
        next_offset=columns.next_offset[rows],
        id_at=columns.id_at[rows],
        id_size=columns.id_size[rows],
        label_only=columns.label_only[rows],
        address=columns.address[features],
        key=columns.key[features],
        name_at=columns.name_at[features],
        name_size=columns.name_size[features],
        values=columns.values[features],
    )
