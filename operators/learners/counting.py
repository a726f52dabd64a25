"""What learners share that must know how many features there have been: their keys, up to a limit; no algorithm."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.kernels.sparse.features_seen import Features, refill, table_for
from sluiceway.operators.kernels.sparse.slots import Rows
from sluiceway.operators.learners.linear import LinearLearner
from sluiceway.operators.parameters import count


class CountingLearner(LinearLearner):
    """A `LinearLearner` whose state also holds a 64-bit key for each feature of the labelled instances so far."""

    max_features: int = count(
        "how many features may be known: later ones are ignored, and counted", most=2**30, default=1_000_000
    )

    def _begin(self) -> None:
        super()._begin()
        self._seen = Features(
            keys=np.zeros(0, dtype=np.int64),
            table=table_for(0),
            known=np.zeros(0, dtype=np.int32),
        )

    @abstractmethod
    def _learn_counted(self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool) -> int:
        """As `_learn_rows`; or ~row, before anything of the row, if there is no room for what it can bring."""

    def metrics(self) -> dict[str, float]:
        return {"values_ignored": int(self._model.head["ignored"][0])}

    def state(self) -> dict[str, Any]:
        count, ignored = self._model.head[["features", "ignored"]].item()
        return super().state() | {
            "seen": self._seen.keys[:count].astype("<i8", copy=False).tobytes(),
            "values_ignored": ignored,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        seen = np.frombuffer(state["seen"], dtype="<i8")
        self._model.head["features"], self._model.head["ignored"] = len(seen), state["values_ignored"]
        self._seen = self._seen._replace(keys=seen.astype(np.int64))
        self._grow_seen(len(seen))

    def _bind(self, names: tuple[str, ...]) -> None:
        super()._bind(names)
        self._seen = self._seen._replace(known=np.zeros(len(names), dtype=np.int32))
        self._model.head["open"] = len(names)

    def _grow_seen(self, room: int) -> None:
        count = int(self._model.head["features"][0])
        keys = np.zeros(room, dtype=np.int64)
        keys[:count] = self._seen.keys[:count]
        table = table_for(room)
        refill(keys, count, table)
        self._seen = self._seen._replace(keys=keys, table=table)

    def _learn_rows(self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool) -> int:
        while True:
            row = self._learn_counted(rows, start, stop, scores, until_change)
            if row >= 0:
                return row
            start = ~row
            length = int(rows.indptr[start + 1] - rows.indptr[start])
            room = max(2 * len(self._seen.keys), int(self._model.head["features"][0]) + length)
            self._grow_seen(min(room, self.max_features))
