"""The labelled instances of a window: sparse rows over the names that they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, vstack

from sluiceway.operators.kernels.keys import feature_keys
from sluiceway.schemas.batch import InstanceBatch

_FLOATS, _INTEGERS = np.dtype("<f8"), np.dtype("<i8")


class WindowRows:
    """Oldest first. A column has a name only if a row uses it; columns stand in the order of their first use."""

    def __init__(self) -> None:
        self.y = np.empty(0)
        self._rows = csr_array((0, 0))
        self._names: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.y)

    def append(self, batch: InstanceBatch, taken: NDArray[np.int64]) -> None:
        """These rows of a batch."""
        rows = csr_array((batch.values, batch.indices, batch.indptr), shape=(len(batch), len(batch.names)))[taken]
        rows.eliminate_zeros()
        place = np.zeros(len(batch.names), dtype=np.int64)
        for at in _in_order_of_use(rows).tolist():
            place[at] = self._names.setdefault(batch.names[at], len(self._names))
        width = len(self._names)
        renamed = csr_array((rows.data, place[rows.indices], rows.indptr), shape=(len(taken), width))
        held = csr_array((self._rows.data, self._rows.indices, self._rows.indptr), shape=(len(self), width))
        self._rows = csr_array(vstack([held, renamed]))
        self.y = np.concatenate([self.y, batch.y[taken].astype(np.float64)])

    def forget(self, count: int) -> None:
        """Drop the oldest rows, and the names that no other row uses."""
        self._rows, names = self._compact(count)
        self._names = {name: at for at, name in enumerate(names)}
        self.y = self.y[count:]

    def names(self) -> list[str]:
        """Those in use, by feature key."""
        names = list(self._names)
        return [names[at] for at in np.argsort(feature_keys(names), kind="stable").tolist()]

    def columns(self) -> csc_array:
        """The rows turned into columns, for `dense`."""
        return csc_array(self._rows)

    def dense(self, columns: csc_array, names: Sequence[str]) -> NDArray[np.float64]:
        """A table with a row for each of the names."""
        table: NDArray[np.float64] = columns[:, [self._names[name] for name in names]].toarray().T.copy()
        return table

    def block(self, start: int = 0) -> dict[str, Any]:
        """The rows from `start` on in builtins and bytes, with the names that they use."""
        rows, names = self._compact(start)
        return {
            "names": names,
            "indptr": rows.indptr.astype(_INTEGERS).tobytes(),
            "indices": rows.indices.astype(_INTEGERS).tobytes(),
            "values": rows.data.astype(_FLOATS).tobytes(),
            "y": self.y[start:].astype(_FLOATS).tobytes(),
        }

    @classmethod
    def from_blocks(cls, blocks: Iterable[Mapping[str, Any]]) -> Self:
        """The rows of all blocks, one after the other."""
        made = cls()
        indices, values, y = [np.empty(0, dtype=np.int64)], [np.empty(0)], [np.empty(0)]
        lengths: list[NDArray[Any]] = [np.zeros(1, dtype=np.int64)]
        for block in blocks:
            place = [made._names.setdefault(name, len(made._names)) for name in block["names"]]
            indices.append(np.array(place, dtype=np.int64)[np.frombuffer(block["indices"], dtype=_INTEGERS)])
            values.append(np.frombuffer(block["values"], dtype=_FLOATS))
            lengths.append(np.diff(np.frombuffer(block["indptr"], dtype=_INTEGERS)))
            y.append(np.frombuffer(block["y"], dtype=_FLOATS))
        made.y = np.concatenate(y)
        made._rows = csr_array(
            (np.concatenate(values), np.concatenate(indices), np.cumsum(np.concatenate(lengths))),
            shape=(len(made.y), len(made._names)),
        )
        return made

    def _compact(self, start: int) -> tuple[csr_array, list[str]]:
        """The rows from `start` on over the names that they use alone, and those names."""
        rows = self._rows[start:]
        used = _in_order_of_use(rows)
        place = np.zeros(len(self._names), dtype=np.int64)
        place[used] = np.arange(len(used))
        by_place = list(self._names)
        compact = csr_array((rows.data, place[rows.indices], rows.indptr), shape=(rows.shape[0], len(used)))
        return compact, [by_place[at] for at in used.tolist()]


def _in_order_of_use(rows: csr_array) -> NDArray[Any]:
    """The columns that have a value, each where its first one stands."""
    used, first = np.unique(rows.indices, return_index=True)
    return used[np.argsort(first)]
