"""Scaling by what a stream has shown of each feature so far, for all models of a lane; and the intercept.

    rms-l2      S_j <- S_j + x_j²        n instances so far, this one among them
                x_j <- x_j / √(S_j / n)  an absent feature counts as 0; then the row is brought to length 1
    standard    m_j, s_j                 mean and standard deviation of the values so far, this one among them
                x_j <- (x_j - m_j) / s_j an absent feature counts as its mean, which gives 0, as if absent

An instance changes the numbers when it comes, labelled or not, and is scaled by what they are then. One that is learnt
from when its label comes is scaled again, by what they are by then. `intercept` gives every row the feature
`(intercept)`, of value 1, before its length becomes 1; a record's own feature of that name takes its place.

The numbers of a feature stand in an entry, known by model and feature key, the entries of a model in the order in which
its features first came. So what is stored depends on the instances alone. A model has at most `limit` of them: values
of further features are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import is_compiled, kernel
from sluiceway.operators.bank.rows import ARRIVED, LABEL_OF_NOTHING
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.name_hash import SECRET_1, hash_names
from sluiceway.schemas.swar import READABLE_BEYOND, high_product

INTERCEPT = "(intercept)"
BYTES_A_FEATURE = 60

_RMS, _STANDARD = 0, 1
_USED, _FREE, _SECRET = 0, 1, 2
_LARGEST = 1e150
"""Values are cut there: squares of larger ones leave the range of floats."""
_FEWEST = 64
_ENTRY_ARRAYS = 2
"""The first of `_Entries` that has a place for each."""
_PACKED = np.dtype([("key", "<i8"), ("first", "<f8"), ("second", "<f8"), ("count", "<i8")])
_HEAD = np.dtype([("seen", "<i8"), ("ignored", "<i8")])


class _Entries(NamedTuple):
    """Of all features of all models."""

    table: NDArray[np.int32]
    """Entry + 1 by hash, 0 = free; at most half of it is used."""
    counts: NDArray[np.int64]
    """[0]: entries that have been given out; [1]: the first that may be given out again, + 1; [2]: the process's
    secret, so that nobody can choose names whose entries are long looked for."""
    model: NDArray[np.int64]
    key: NDArray[np.int64]
    first: NDArray[np.float64]
    """Sum of squares, or mean."""
    second: NDArray[np.float64]
    """Sum of squared deviations from the mean."""
    met: NDArray[np.int64]
    """How many values."""
    following: NDArray[np.int32]
    """The model's next entry + 1; of those that are free, the next one that is."""


class _Models(NamedTuple):
    """By model."""

    seen: NDArray[np.int64]
    ignored: NDArray[np.int64]
    entries: NDArray[np.int64]
    start: NDArray[np.int32]
    """Its first entry + 1, and its last."""
    last: NDArray[np.int32]


class _Rows(NamedTuple):
    """Scaled rows, as they are made."""

    indptr: NDArray[np.int64]
    address: NDArray[np.uint64]
    key: NDArray[np.int64]
    name_at: NDArray[np.int64]
    name_size: NDArray[np.int32]
    values: NDArray[np.float64]


class RunningScale:
    """The numbers of all models of a lane."""

    def __init__(
        self, scale: Literal["rms-l2", "standard"] | None, *, intercept: bool = False, limit: int = 100_000
    ) -> None:
        self._how = None if scale is None else _STANDARD if scale == "standard" else _RMS
        self._intercept = intercept
        self._limit = limit
        self._entries = _new_entries(_FEWEST)
        self._models = _new_models(0)
        self._newest = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        """Of each row of the newest poll, its model and how many features were left out."""

    def scaled(self, columns: Columns, models: NDArray[np.int64], kind: NDArray[np.int8] | None = None) -> Columns:
        """The rows of a poll as a learner gets them; `kind` tells of later labels, as in a bank's poll."""
        rows, features = len(columns), int(columns.indptr[-1])
        if rows:
            self._need_models(int(models.max()) + 1)
        text, at, address, key = columns.text, 0, np.uint64(0), 0
        if self._intercept:
            letters = np.frombuffer(INTERCEPT.encode() + READABLE_BEYOND, dtype=np.uint8)
            at, text = len(text), np.concatenate((text, letters))
            size = np.array([len(INTERCEPT)], dtype=np.int32)
            addresses, keys = hash_names(text, np.array([at], dtype=np.int64), size)
            address, key = addresses[0], int(keys[0])
        made, left_out = _new_rows(rows, features + rows * self._intercept), np.zeros(rows, dtype=np.int64)
        if kind is None:
            kind = np.full(rows, ARRIVED, dtype=np.int8)
        if self._how is not None:
            self._need_entries(features)
        filled = _scale_rows(
            -1 if self._how is None else self._how, self._limit, self._entries, self._models, models, kind,
            columns.indptr, columns.address, columns.key, columns.name_at, columns.name_size, columns.values, made,
            left_out, self._intercept, address, key, at, len(INTERCEPT),
        )  # fmt: skip
        self._newest = models, left_out
        return replace(
            columns,
            text=text,
            indptr=made.indptr,
            address=made.address[:filled],
            key=made.key[:filled],
            name_at=made.name_at[:filled],
            name_size=made.name_size[:filled],
            values=made.values[:filled],
        )

    def metrics(self, model: int, row: int | None = None) -> dict[str, float]:
        """What a snapshot says, where features were left out: now, or before that row of the newest poll."""
        ignored = int(self._models.ignored[model]) if model < len(self._models.ignored) else 0
        if ignored and row is not None:
            models, left_out = self._newest
            ignored -= int(left_out[row:][models[row:] == model].sum())
        return {"scale_ignored": ignored} if ignored else {}

    @property
    def bytes_used(self) -> int:
        """Of memory, by models that have not been dropped, roughly."""
        return BYTES_A_FEATURE * int(self._models.entries.sum())

    def drop(self, model: int) -> None:
        """Forget a model."""
        if model < len(self._models.seen):
            _drop(self._entries, self._models, model)

    # -- state ---------------------------------------------------------------------------------------------------

    def pack(self, models: Sequence[int]) -> list[bytes]:
        """The numbers of these models as bytes, each by itself."""
        if not len(models):
            return []
        self._need_models(max(models) + 1)
        chosen = np.array(models, dtype=np.int64)
        sizes = self._models.entries[chosen]
        ends = np.cumsum(sizes)
        packed = np.zeros(int(ends[-1]), dtype=_PACKED)
        _pack(self._entries, self._models, chosen, packed)
        heads = np.zeros(len(models), dtype=_HEAD)
        heads["seen"], heads["ignored"] = self._models.seen[chosen], self._models.ignored[chosen]
        starts = ends - sizes
        return [
            head.tobytes() + packed[start:end].tobytes()
            for head, start, end in zip(heads, starts.tolist(), ends.tolist(), strict=True)
        ]

    def check(self, packed: object) -> None:
        """`ValueError` if that is nothing that `pack` gave."""
        if type(packed) is not bytes or len(packed) < _HEAD.itemsize or (len(packed) - 16) % _PACKED.itemsize:
            raise ValueError("its scale is damaged")
        entries = np.frombuffer(packed[_HEAD.itemsize :], dtype=_PACKED)
        finite = np.isfinite(entries["first"]).all() and np.isfinite(entries["second"]).all()
        if not finite or len(np.unique(entries["key"])) < len(entries) or (entries["count"] < 0).any():
            raise ValueError("its scale is damaged")

    def wake(self, models: Sequence[int], packed: Sequence[bytes]) -> None:
        """New models go on with what was packed, here or elsewhere."""
        if not models:
            return
        self._need_models(max(models) + 1)
        for model, content in zip(models, packed, strict=True):
            [head] = np.frombuffer(content[: _HEAD.itemsize], dtype=_HEAD)
            entries = np.frombuffer(content[_HEAD.itemsize :], dtype=_PACKED).copy()
            self._need_entries(len(entries))
            _drop(self._entries, self._models, model)
            self._models.seen[model], self._models.ignored[model] = head["seen"], head["ignored"]
            _wake(self._entries, self._models, model, entries)

    # -- room ----------------------------------------------------------------------------------------------------

    def _need_models(self, count: int) -> None:
        had = len(self._models.seen)
        if count > had:
            larger = _new_models(max(count, 2 * had))
            for at in range(len(larger)):
                np.copyto(larger[at][:had], self._models[at])
            self._models = larger

    def _need_entries(self, more: int) -> None:
        had = len(self._entries.key)
        used = int(self._entries.counts[_USED])
        if used + more > had:
            larger = _new_entries(max(used + more, 2 * had))
            for at in range(_ENTRY_ARRAYS, len(larger)):
                np.copyto(larger[at][:had], self._entries[at])
            larger.counts[:] = self._entries.counts
            _refill(larger)
            self._entries = larger


def scales_are_compiled() -> bool:
    """Whether all of this can start at once."""
    return all(is_compiled(one) for one in (_scale_rows, _refill, _drop, _pack, _wake))


def warm_up_scales() -> None:
    """Load or compile what only many features need; the first poll does the rest."""
    _refill(_new_entries(_FEWEST))


def _new_entries(size: int) -> _Entries:
    whole = np.zeros(size, dtype=np.int64)
    table = np.zeros(1 << (2 * size - 1).bit_length(), dtype=np.int32)
    counts, following = np.array([0, 0, SECRET_1.view(np.int64)]), np.zeros(size, dtype=np.int32)
    first, second = np.zeros(size), np.zeros(size)
    return _Entries(table, counts, np.full(size, -1, dtype=np.int64), whole, first, second, whole.copy(), following)


def _new_models(count: int) -> _Models:
    seen, ignored, entries = (np.zeros(count, dtype=np.int64) for _ in range(3))
    start, last = (np.zeros(count, dtype=np.int32) for _ in range(2))
    return _Models(seen, ignored, entries, start, last)


def _new_rows(rows: int, features: int) -> _Rows:
    return _Rows(
        np.zeros(rows + 1, dtype=np.int64),
        np.empty(features, dtype=np.uint64),
        np.empty(features, dtype=np.int64),
        np.empty(features, dtype=np.int64),
        np.empty(features, dtype=np.int32),
        np.empty(features, dtype=np.float64),
    )


@kernel
def _scale_rows(
    how: int, limit: int, e: _Entries, m: _Models, models: NDArray[np.int64], kind: NDArray[np.int8],
    indptr: NDArray[np.int64], address: NDArray[np.uint64], key: NDArray[np.int64], name_at: NDArray[np.int64],
    name_size: NDArray[np.int32], values: NDArray[np.float64], made: _Rows, left_out: NDArray[np.int64],
    intercept: bool, intercept_address: np.uint64, intercept_key: int, intercept_at: int, intercept_size: int,
) -> int:  # fmt: skip
    filled = 0
    for row in range(len(models)):
        model, arrived, own = models[row], kind[row] == ARRIVED, False
        m.seen[model] += arrived
        for i in range(indptr[row], indptr[row + 1]):
            value = values[i]
            if how >= 0:
                at = _entry(e, m, model, key[i], limit if arrived else 0)
                if at < 0:
                    m.ignored[model] += arrived
                    left_out[row] += arrived
                    continue
                value = max(-_LARGEST, min(_LARGEST, value))
                if how == _RMS:
                    if arrived:
                        e.first[at] += value * value
                    value = value / (np.sqrt(e.first[at]) / np.sqrt(m.seen[model])) if e.first[at] > 0.0 else 0.0
                else:
                    if arrived:
                        e.met[at] += 1
                        apart = value - e.first[at]
                        e.first[at] += apart / e.met[at]
                        e.second[at] += apart * (value - e.first[at])
                    spread = np.sqrt(e.second[at] / e.met[at]) if e.second[at] > 0.0 else 0.0
                    value = (value - e.first[at]) / spread if spread > 0.0 else 0.0
            if value == 0.0:
                continue
            own = own or (intercept and address[i] == intercept_address)
            made.address[filled], made.key[filled] = address[i], key[i]
            made.name_at[filled], made.name_size[filled] = name_at[i], name_size[i]
            made.values[filled] = value
            filled += 1
        if intercept and not own and kind[row] != LABEL_OF_NOTHING:
            made.address[filled], made.key[filled] = intercept_address, intercept_key
            made.name_at[filled], made.name_size[filled] = intercept_at, intercept_size
            made.values[filled] = 1.0
            filled += 1
        made.indptr[row + 1] = filled
    return filled


@kernel
def _slot(e: _Entries, model: int, key: int) -> np.uint64:
    secret = np.uint64(e.counts[_SECRET])
    mixed = (np.uint64(key) ^ secret) * (np.uint64(model) * np.uint64(2) + secret)
    slot: np.uint64 = (mixed ^ high_product(mixed, secret)) & np.uint64(len(e.table) - 1)
    return slot


@kernel
def _entry(e: _Entries, m: _Models, model: int, key: int, limit: int) -> int:
    """The entry of a model's feature; a new one if there is none and the model has fewer than `limit`; else -1."""
    mask = np.uint64(len(e.table) - 1)
    slot = _slot(e, model, key)
    while e.table[slot] != 0:
        at = np.int64(e.table[slot]) - 1
        if e.key[at] == key and e.model[at] == model:
            return int(at)
        slot = (slot + np.uint64(1)) & mask
    if m.entries[model] >= limit:
        return -1
    at = e.counts[_FREE] - 1
    if at >= 0:
        e.counts[_FREE] = e.following[at]
    else:
        at = e.counts[_USED]
        e.counts[_USED] += 1
    e.table[slot] = at + 1
    e.model[at], e.key[at] = model, key
    e.first[at], e.second[at], e.met[at], e.following[at] = 0.0, 0.0, 0, 0
    if m.entries[model] == 0:
        m.start[model] = at + 1
    else:
        e.following[m.last[model] - 1] = at + 1
    m.last[model] = at + 1
    m.entries[model] += 1
    return int(at)


@kernel
def _refill(e: _Entries) -> None:
    """Into a table that is empty."""
    mask = np.uint64(len(e.table) - 1)
    for at in range(e.counts[_USED]):
        if e.model[at] >= 0:
            slot = _slot(e, e.model[at], e.key[at])
            while e.table[slot] != 0:
                slot = (slot + np.uint64(1)) & mask
            e.table[slot] = at + 1


@kernel
def _drop(e: _Entries, m: _Models, model: int) -> None:
    mask = np.uint64(len(e.table) - 1)
    at = np.int64(m.start[model]) - 1
    while at >= 0:
        slot = _slot(e, model, e.key[at])
        while e.table[slot] != at + 1:
            slot = (slot + np.uint64(1)) & mask
        _take_out(e, slot, mask)
        following = np.int64(e.following[at]) - 1
        e.model[at] = -1
        e.following[at] = e.counts[_FREE]
        e.counts[_FREE] = at + 1
        at = following
    m.seen[model] = m.ignored[model] = m.entries[model] = 0
    m.start[model] = m.last[model] = 0


@kernel
def _take_out(e: _Entries, hole: np.uint64, mask: np.uint64) -> None:
    """Those after it move up, so that none is cut off from where it is looked for."""
    slot = (hole + np.uint64(1)) & mask
    while e.table[slot] != 0:
        at = np.int64(e.table[slot]) - 1
        home = _slot(e, e.model[at], e.key[at])
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            e.table[hole] = e.table[slot]
            hole = slot
        slot = (slot + np.uint64(1)) & mask
    e.table[hole] = 0


@kernel
def _pack(e: _Entries, m: _Models, models: NDArray[np.int64], packed: NDArray[np.void]) -> None:
    filled = 0
    for i in range(len(models)):
        at = np.int64(m.start[models[i]]) - 1
        while at >= 0:
            packed[filled].key, packed[filled].count = e.key[at], e.met[at]
            packed[filled].first, packed[filled].second = e.first[at], e.second[at]
            filled += 1
            at = np.int64(e.following[at]) - 1


@kernel
def _wake(e: _Entries, m: _Models, model: int, packed: NDArray[np.void]) -> None:
    for i in range(len(packed)):
        at = _entry(e, m, model, packed[i].key, len(packed))
        e.first[at], e.second[at], e.met[at] = packed[i].first, packed[i].second, packed[i].count
