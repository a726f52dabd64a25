"""The perceptron on randomly kept features: the baseline that any selection must beat.

Wang, Zhao, Hoi, Jin: "Online Feature Selection and Its Applications", IEEE TKDE 26(3), 2014 (RAND).

    f = w . x
    if y f <= 0:    w <- w + y x, then 0 outside a fresh uniformly random set of B of the d features

| symbol | here | what |
|---|---|---|
| B | `k` | how many weights may differ from 0 |
| d | `seen.counts[SEEN]` | how many features labelled instances have had so far, this one included |
| w | `weight` | weights |

The random set is never made: how many of the n non-zero weights it holds is hypergeometric, and which ones is
decided by a random number for each feature key. Both come from (seed, instance number), so the order of
features does not matter and the generator has no state. The keys seen are state: at `max_features` of them,
new features are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.kernels.compile import kernel
from sluiceway.operators.kernels.random import draw, stream_of, uniform
from sluiceway.operators.kernels.seen import insert, refill, table_for
from sluiceway.operators.kernels.slots import ACTIVE, VERSION, Model, Rows, score_row, settle, step_row
from sluiceway.operators.kernels.truncation import nth_smallest
from sluiceway.operators.learners.linear import LinearLearner, whole_number

SEEN, IGNORED = 0, 1
HOW_MANY, WHICH = 0, 1
ANY_KEY = np.iinfo(np.int64).max


class Seen(NamedTuple):
    """The features there have been."""

    counts: NDArray[np.int64]
    """[SEEN], [IGNORED]: distinct features, and non-zero values left out beyond `max_features`."""
    keys: NDArray[np.int64]
    table: NDArray[np.int32]
    known: NDArray[np.int8]
    """By index in the batch's names: 1 seen, -1 left out, 0 not looked up yet."""


@kernel
def last_key_admitted(rows: Rows, row: int, m: Model, seen: Seen, limit: int) -> int:
    """If the row brings more new features than the limit allows, those with the smallest keys come first."""
    first, end = rows.indptr[row], rows.indptr[row + 1]
    room = limit - seen.counts[SEEN]
    if room >= end - first or room == 0:
        return ANY_KEY
    n = 0
    for j in range(first, end):
        key = m.name_key[rows.indices[j]]
        if rows.values[j] != 0.0 and insert(seen.keys, seen.counts[SEEN], seen.table, key, 0) < 0:
            m.ordering[n] = key
            n += 1
    return nth_smallest(m.ordering, n, room) if n > room else ANY_KEY


@kernel
def look(rows: Rows, row: int, m: Model, seen: Seen, limit: int) -> None:
    """Count the features of the row; those beyond the limit are to be left out of the step."""
    first = rows.indptr[row]
    last_key = last_key_admitted(rows, row, m, seen, limit)
    for j in range(first, rows.indptr[row + 1]):
        name = rows.indices[j]
        if rows.values[j] == 0.0:
            continue
        if seen.known[name] == 0:
            admitted = limit if m.name_key[name] <= last_key else 0
            count = insert(seen.keys, seen.counts[SEEN], seen.table, m.name_key[name], admitted)
            seen.known[name] = 1 if count >= 0 else -1
            seen.counts[SEEN] = max(seen.counts[SEEN], count)
        if seen.known[name] < 0:
            seen.counts[IGNORED] += 1
            m.touched[j - first] = -1


@kernel
def thin_out(m: Model, entrants: int, k: int, d: int, seed: int) -> None:
    """Keep each non-zero weight if a uniformly random set of k of the d features holds it."""
    active = m.counts[ACTIVE]
    which = stream_of(seed, m.counts[VERSION], WHICH)
    n = 0
    for slot in range(1, active + 1):
        if m.weight[slot] != 0.0:
            m.ordering[n] = np.int64(draw(which, m.key[slot]))
            n += 1
    for e in range(entrants):
        m.ordering[n] = np.int64(draw(which, m.name_key[m.entrant_name[e]]))
        n += 1
    how_many = stream_of(seed, m.counts[VERSION], HOW_MANY)
    staying = 0
    for i in range(n):  # hypergeometric: each in turn meets k - staying places left among d - i
        staying += uniform(draw(how_many, i)) * (d - i) < k - staying
    last = nth_smallest(m.ordering, n, staying) if staying > 0 else np.int64(0)
    for slot in range(1, active + 1):
        if m.weight[slot] != 0.0:
            if staying > 0 and np.int64(draw(which, m.key[slot])) <= last:
                staying -= 1
            else:
                m.weight[slot] = 0.0
    for e in range(entrants):
        if staying > 0 and np.int64(draw(which, m.name_key[m.entrant_name[e]])) <= last:
            staying -= 1
        else:
            m.entrant[e] = 0.0


@kernel
def learn_rows(
    rows: Rows, start: int, stop: int, m: Model, scores: NDArray[np.float64], until_change: bool,
    k: int, seed: int, seen: Seen, limit: int,
) -> int:  # fmt: skip
    """The next row to do; ~row if that row could bring more features than there is room for."""
    for row in range(start, stop):
        f = score_row(rows, row, m)
        scores[row] = f
        y = rows.y[row]
        if y == 0:
            continue
        if min(limit, seen.counts[SEEN] + rows.indptr[row + 1] - rows.indptr[row]) > len(seen.keys):
            return ~row
        m.counts[VERSION] += 1
        look(rows, row, m, seen, limit)
        if y * f > 0.0:
            continue
        entrants = step_row(rows, row, m, float(y))
        if seen.counts[SEEN] > k:
            thin_out(m, entrants, k, seen.counts[SEEN], seed)
        if settle(m, entrants) and until_change:
            return row + 1
    return stop


class PerceptronRandom(LinearLearner):
    """The perceptron, a fresh random set of `k` features kept after each mistake.

    >>> model = PerceptronRandom(k=1, seed=7)
    >>> model.learn_one({"free": 1.0, "len": 0.5}, 1)
    >>> len(model.selected)
    1
    >>> model.metrics()
    {'names_ignored': 0}
    """

    NAME: ClassVar[str] = "perceptron-random"
    KERNEL = learn_rows

    def __init__(self, *, k: int, seed: int = 0, max_features: int = 1_000_000) -> None:
        super().__init__(k=whole_number("k", k, least=1))
        self._seed = whole_number("seed", seed, least=0, most=2**63 - 1)
        self._max_features = whole_number("max_features", max_features, least=1, most=2**30)
        self._seen = Seen(
            counts=np.zeros(2, dtype=np.int64),
            keys=np.zeros(0, dtype=np.int64),
            table=table_for(0),
            known=np.zeros(0, dtype=np.int8),
        )

    @property
    def params(self) -> dict[str, Any]:
        return {"k": self._k, "seed": self._seed, "max_features": self._max_features}

    def metrics(self) -> dict[str, float]:
        return {"names_ignored": int(self._seen.counts[IGNORED])}

    def state(self) -> dict[str, Any]:
        count, ignored = self._seen.counts.tolist()
        return super().state() | {
            "seen": self._seen.keys[:count].astype("<i8", copy=False).tobytes(),
            "names_ignored": ignored,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        seen = np.frombuffer(state["seen"], dtype="<i8")
        self._seen.counts[:] = (len(seen), state["names_ignored"])
        self._seen = self._seen._replace(keys=seen.astype(np.int64))
        self._grow_seen(len(seen))

    def _bind(self, names: tuple[str, ...]) -> None:
        super()._bind(names)
        self._seen = self._seen._replace(known=np.zeros(len(names), dtype=np.int8))

    def _grow_seen(self, room: int) -> None:
        count = int(self._seen.counts[SEEN])
        keys = np.zeros(room, dtype=np.int64)
        keys[:count] = self._seen.keys[:count]
        table = table_for(room)
        refill(keys, count, table)
        self._seen = self._seen._replace(keys=keys, table=table)

    def _learn_rows(
        self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool
    ) -> int:
        while True:
            row = learn_rows(
                rows, start, stop, self._model, scores, until_change,
                self._k, self._seed, self._seen, self._max_features,
            )  # fmt: skip
            if row >= 0:
                return row
            start = ~row
            length = int(rows.indptr[start + 1] - rows.indptr[start])
            room = max(2 * len(self._seen.keys), int(self._seen.counts[SEEN]) + length)
            self._grow_seen(min(room, self._max_features))
