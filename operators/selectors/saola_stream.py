# ruff: noqa: SLF001 (merging reads another model of the same class)
"""Doubly streaming SAOLA: instances and features both grow; selection from sums alone.

The algorithm of Yu, Wu, Ding, Pei: "Towards Scalable and Accurate Online Feature Selection for Big Data", ICDM 2014, on
the statistics of all labelled instances so far. A feature is 0 before it appears, so nothing is filled in later:

    for each instance:  n += 1,  Σ x_j += x_j,  Σ x_j x_k += x_j x_k        (continuous)
                        n += 1,  count (x_j = a, x_k = b) += 1              (discrete)
    selection = SAOLA over the features in order of their keys, dep from the sums

| symbol | here | what |
|---|---|---|
| n | `version` | labelled instances |
| Σ, count | `Sums` | statistics that add up: parts learnt apart merge into the whole |
| dep, δ₁, δ₂ | `measure`, `significance`, `delta`, `bound`, `ties` | as in SAOLA |

At any moment the selection is that of SAOLA run on all instances so far. When a feature entered is known to within
`refresh` instances: the selection is looked at after every `refresh`-th, and `since` is the first instance after the
last look without the feature. State follows the features, not the instances. A place is a feature, or with discrete
measures one non-zero value of a feature; at `max_features` places, what is new is left out and counted.

Sums of products hold about 106 bits. With Fisher-Z and κ = (root mean square / standard deviation)² of a feature or of
the target, r is right to 2⁻⁴⁰ + (24 n + 16) 2⁻¹⁰⁶ (√(κ κ') + |r| (κ + κ') / 2); for integers whose squares sum up to
less than 2¹⁰⁶, without the 24 n. These are bounds: most roundings cancel each other. A feature needs a standard
deviation of at least √n 2⁻⁵⁰ of its root mean square (for 1,000 instances 3e-14, for a million 1e-12), and values whose
squares are floats: up to about 1e145, and not all below about 1e-135. Outside of that it counts as constant, which the
metric `constant` tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import as_argument, is_compiled
from sluiceway.operators.checks import numbers_of, refuse_other_state
from sluiceway.operators.contract import Selected
from sluiceway.operators.kernels.columns.column_store import FISHER_Z
from sluiceway.operators.kernels.columns.comoments import Features, Sums, add_rows, add_sums, select
from sluiceway.operators.kernels.columns.contingency import one_bit
from sluiceway.operators.kernels.keys import feature_keys, keys_of_blob
from sluiceway.operators.parameters import count
from sluiceway.operators.selectors.significance import Relevance, bound_of_dependence
from sluiceway.schemas.batch import InstanceBatch

_FLOATS, _INTEGERS = np.dtype("<f8"), np.dtype("<i8")
_TARGET = ""
"""The name that the target's places have; no feature's name is empty."""

Place = tuple[str, float]


class SaolaStream(Relevance):
    """SAOLA on growing instances and growing features.

    >>> model = SaolaStream(measure="symmetric-uncertainty")
    >>> for x, y in [({"free": 1.0}, 1), ({"free": 1.0, "len": 2.0}, 1), ({"len": 2.0}, -1), ({}, -1)]:
    ...     model.learn_one(x, y)
    >>> model.selected
    [Selected(feature='free', weight=1.0, since=1)]
    """

    NAME: ClassVar[str] = "saola-stream"
    STATE_VERSION: ClassVar[int] = 1

    bound: str = bound_of_dependence()
    max_features: int = count("how many features may be known: later ones are ignored", most=30_000, default=1000)
    refresh: int = count("changes of the selection are looked for every so many instances", most=2**31, default=1000)

    def _begin(self) -> None:
        self._version = 0
        self._ignored = 0
        self._looked = 0  # the version at the last look
        self._since: dict[str, int] = {}  # of what was selected then
        self._places: dict[Place, int] = {(_TARGET, 0.0): 0} if self._measure == FISHER_Z else {}
        self._classes = len(self._places)  # places that are the target's
        self._sums = _no_sums(self._measure, 8)
        self._found: list[tuple[str, float]] | None = []  # of this version; None: to be found
        self._constant, self._single_class = 0, True  # of this version as well

    @classmethod
    def is_compiled(cls) -> bool:
        return is_compiled(add_rows) and is_compiled(select) and is_compiled(keys_of_blob)

    @classmethod
    def compile(cls) -> None:
        model = cls(refresh=1)
        model.learn_one({"0": 1.0}, 1)
        model.merge(cls.from_state(model.state()))

    @property
    def needs_numbers(self) -> bool:
        return self._measure == FISHER_Z

    @property
    def version(self) -> int:
        return self._version

    @property
    def selected(self) -> list[Selected]:
        found = self._find()
        keys = dict(zip([name for name, _ in found], feature_keys([name for name, _ in found]).tolist(), strict=True))
        ranked = sorted(found, key=lambda one: (-one[1], keys[one[0]]))
        return [Selected(name, weight, self._since.get(name, self._looked + 1)) for name, weight in ranked]

    def metrics(self) -> dict[str, float]:
        """`constant`: features that vary no more than rounding does; like a target of one class, they tell nothing."""
        self._find()
        return {
            "places": len(self._places) - self._classes,
            "values_ignored": self._ignored,
            "constant": self._constant,
            "single_class_target": int(self._version > 0 and self._single_class),
        }

    def learn_one(self, x: Mapping[str, float], y: int | bool) -> None:
        if isinstance(y, bool | np.bool_):
            y = 1 if y else -1
        if not isinstance(y, int | np.integer) or not (y == -1 or 1 <= y <= 127):
            raise ValueError(f"label {y!r} is not -1, or 1, 2, ... up to 127")
        values = np.array(numbers_of(x), dtype=np.float64)
        instance = InstanceBatch.from_csr((0, len(values)), np.arange(len(values)), values, names=tuple(map(str, x)))
        batch = InstanceBatch(
            instance.names, instance.indptr, instance.indices, instance.values, np.array((y,), dtype=np.int8),
            instance.ts, instance.offset, instance.next_offset,
        )  # fmt: skip
        self.learn_many(batch)

    def learn_many(self, batch: InstanceBatch) -> None:
        self.advance(batch, 0, len(batch))

    def advance(self, batch: InstanceBatch, start: int, stop: int, *, until_change: bool = False) -> int:
        if not 0 <= start <= stop <= len(batch):
            raise ValueError(f"rows [{start}, {stop}) are not rows of a batch of {len(batch)}")
        labelled = start + np.flatnonzero(batch.y[start:stop])
        done = 0
        while done < len(labelled):
            until = min(done + self.refresh - self._version % self.refresh, len(labelled))
            end = int(labelled[until - 1]) + 1
            self._add(batch, start, end)
            self._version += until - done
            start, done = end, until
            if self._version % self.refresh == 0 and self._look() and until_change:
                return end
        return stop

    def merge(self, other: Self) -> Self:
        """What one model would be that had learnt what both have. Neither is changed.

        Its features count as entered at the merge. Models with more than `max_features` places together are refused.
        """
        if not isinstance(other, type(self)) or other.params != self.params:
            raise ValueError(f"{other!r} cannot be merged into {self!r}: they are not set alike")
        merged = type(self)(**self.params)
        together = self._places.keys() | other._places.keys()
        classes = [place for place in together if place[0] == _TARGET]
        if len(together) - len(classes) > self.max_features:
            raise ValueError(f"together they have {len(together) - len(classes)} places: max_features is too small")
        keys = dict(zip(together, feature_keys([name or "0" for name, _ in together]).tolist(), strict=True))
        ordered = sorted(together, key=lambda place: (place[0] != _TARGET, keys[place], place[1]))
        merged._places = {place: at for at, place in enumerate(ordered)}
        merged._classes = len(classes)
        merged._grow(len(ordered))
        for part in (self, other):
            to = np.array([merged._places[place] for place in part._places], dtype=np.int64)
            add_sums(merged._sums, part._sums, to)
        merged._version = self._version + other._version
        merged._ignored = self._ignored + other._ignored
        merged._found = None
        merged._looked = merged._version - 1
        merged._look()
        return merged

    def state(self) -> dict[str, Any]:
        count = len(self._places)
        triangle = np.tril_indices(count)
        parts: dict[str, NDArray[Any]]
        if self._measure == FISHER_Z:
            high, low = self._sums.high[:count, 0], self._sums.low[:count, 0]
            products = self._sums.product_high[triangle], self._sums.product_low[triangle]
            parts = {"sums": np.stack((high, low)).astype(_FLOATS), "products": np.stack(products).astype(_FLOATS)}
        else:
            parts = {"together": self._sums.together[triangle].astype(_INTEGERS)}
        return {
            "operator": self.NAME,
            "state_version": self.STATE_VERSION,
            "params": self.params,
            "version": self._version,
            "values_ignored": self._ignored,
            "looked": self._looked,
            "since": dict(self._since),
            "names": [name for name, _ in self._places],
            "values": np.array([value for _, value in self._places], dtype=_FLOATS).tobytes(),
            **{part: array.tobytes() for part, array in parts.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        refuse_other_state(state, cls.NAME, cls.STATE_VERSION)
        model = cls(**state["params"])
        names, values = state["names"], np.frombuffer(state["values"], dtype=_FLOATS).tolist()
        model._places = {place: at for at, place in enumerate(zip(names, values, strict=True))}
        model._classes = names.count(_TARGET)
        count = len(names)
        model._grow(count)
        triangle = np.tril_indices(count)
        if model._measure == FISHER_Z:
            sums = np.frombuffer(state["sums"], dtype=_FLOATS).reshape(2, count)
            products = np.frombuffer(state["products"], dtype=_FLOATS).reshape(2, -1)
            model._sums.high[:count, 0], model._sums.low[:count, 0] = sums
            model._sums.product_high[triangle], model._sums.product_low[triangle] = products
        else:
            model._sums.together[triangle] = np.frombuffer(state["together"], dtype=_INTEGERS)
        model._version, model._ignored = state["version"], state["values_ignored"]
        model._looked, model._since = state["looked"], dict(state["since"])
        model._found = None
        return model

    def _add(self, batch: InstanceBatch, start: int, end: int) -> None:
        """Rows [start, end); those without a label change nothing, not even the places there are."""
        part = batch.slice(start, end)
        rows = np.repeat(np.arange(len(part)), np.diff(part.indptr))
        counting = np.flatnonzero((part.values != 0) & (part.y[rows] != 0))
        places = np.full(len(part.indices), -1, dtype=np.int64)
        places[counting] = self._seats(part, rows[counting], counting)
        self._ignored += int(np.count_nonzero(places[counting] < 0))
        y = part.y.astype(np.int64)
        if self._measure != FISHER_Z:
            y = np.array([self._places.get((_TARGET, float(label)), -1) for label in y.tolist()], dtype=np.int64)
        self._grow(len(self._places))
        longest = int(np.diff(part.indptr).max(initial=0)) + 1
        add_rows(
            as_argument(part.indptr), places, as_argument(part.values), y, 0, len(part),
            self._sums, np.zeros(longest, dtype=np.int64), np.zeros(longest),
        )  # fmt: skip
        self._found = None

    def _seats(self, part: InstanceBatch, rows: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each non-zero, -1 if left out; new ones in order of row, feature key and value.

        A new class of the target takes its place before the features of its row.
        """
        indices, values = part.indices[at], part.values[at]
        if self._measure == FISHER_Z:
            values = np.zeros(len(values))
        order = np.lexsort((rows, values, indices))
        indices, values, rows = indices[order], values[order], rows[order]
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = (indices[1:] != indices[:-1]) | (values[1:] != values[:-1])
        which = np.cumsum(first) - 1
        candidates = list(zip([part.names[i] for i in indices[first].tolist()], values[first].tolist(), strict=True))
        seats = np.array([self._places.get(place, -1) for place in candidates], dtype=np.int64)
        new = np.flatnonzero(seats < 0)
        room = self.max_features - (len(self._places) - self._classes)
        keys = feature_keys([candidates[i][0] for i in new.tolist()])
        new = new[np.lexsort((values[first][new], keys, rows[first][new]))][: max(room, 0)]
        coming: list[tuple[int, int | float]] = [(int(rows[first][i]), i) for i in new.tolist()]
        if self._measure != FISHER_Z:
            coming = sorted(self._new_classes(part) + coming, key=lambda one: one[0])
        for _, i in coming:
            if isinstance(i, int):
                seats[i] = self._places[candidates[i]] = len(self._places)
            else:
                self._places[_TARGET, i] = len(self._places)
                self._classes += 1
        found = np.empty(len(order), dtype=np.int64)
        found[order] = seats[which]
        return found

    def _new_classes(self, part: InstanceBatch) -> list[tuple[int, int | float]]:
        """The row of each, and its label as a float."""
        classes, first = np.unique(part.y, return_index=True)
        labels = zip(first.tolist(), classes.astype(np.float64).tolist(), strict=True)
        return [(row, label) for row, label in labels if label and (_TARGET, label) not in self._places]

    def _grow(self, places: int) -> None:
        had = len(self._sums.together if self._measure != FISHER_Z else self._sums.high)
        if places <= had:
            return
        before, self._sums = self._sums, _no_sums(self._measure, max(places, 2 * had))
        for old, new in zip(before[1:], self._sums[1:], strict=True):
            new[tuple(slice(length) for length in old.shape)] = old

    def _find(self) -> list[tuple[str, float]]:
        """The selection of now: names and relevances."""
        if self._version == 0:
            return []
        if self._found is None:
            features = [place for place in self._places if place[0] != _TARGET]
            names = list(dict.fromkeys(name for name, _ in features))
            ordered = [names[i] for i in np.argsort(feature_keys(names), kind="stable").tolist()]
            seats: dict[str, list[int]] = {name: [] for name in (_TARGET, *ordered)}
            for (name, _), seat in self._places.items():
                seats[name].append(seat)
            first = np.cumsum([0, *map(len, seats.values())])
            places = np.array([seat for of_one in seats.values() for seat in of_one], dtype=np.int64)
            chosen, relevance = np.zeros(len(seats), dtype=np.int64), np.zeros(len(seats))
            varies = np.zeros(len(seats), dtype=np.bool_)
            n = self._version
            least = self._least_relevance(n)
            count = select(
                self._sums, Features(first, places), n, least, self.bound == "max",
                self.ties == "strict", one_bit(n), chosen, relevance, varies,
            )  # fmt: skip
            self._single_class = not varies[0]
            self._constant = int(np.count_nonzero(~varies[1:]))
            self._found = [(ordered[i], float(relevance[i + 1])) for i in chosen[:count].tolist()]
        return self._found

    def _look(self) -> bool:
        """Note what is selected now; whether that has changed since the last look."""
        names = [name for name, _ in self._find()]
        changed = set(names) != self._since.keys()
        self._since = {name: self._since.get(name, self._looked + 1) for name in names}
        self._looked = self._version
        return changed


def _no_sums(measure: int, places: int) -> Sums:
    continuous, discrete = (places, 0) if measure == FISHER_Z else (0, places)
    return Sums(
        measure=measure,
        high=np.zeros((continuous, 1)),
        low=np.zeros((continuous, 1)),
        product_high=np.zeros((continuous, continuous)),
        product_low=np.zeros((continuous, continuous)),
        together=np.zeros((discrete, discrete), dtype=np.int64),
    )
