# ruff: noqa: SLF001 (merging makes another of the same class)
"""How often each bin of each feature came with each class: all that the joint operators learn.

Integers, so models add up exactly. Where an absent feature is 0, the bin of 0 is never counted: it has what is left of
the rows. A feature's cuts are made of its first rows: those of the warm-up, or, for a name that comes later, those from
its first one until the next policy is made. Until then its values wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import as_argument
from sluiceway.operators.joint.cuts import cuts_of, given_cuts
from sluiceway.operators.kernels.joint.counting import count_values
from sluiceway.operators.kernels.keys import feature_keys
from sluiceway.schemas.batch import InstanceBatch

LEAST_ROWS = 50
"""So many rows a feature that comes after the warm-up must have before its cuts are made."""
_FLOATS = np.dtype("<f8")
_WIDTHS = (np.dtype("<u2"), np.dtype("<u4"), np.dtype("<i8"))
Integers = NDArray[np.int64]


class Waiting(NamedTuple):
    """Values of features without cuts."""

    row: Integers
    """Counted over labelled rows, from 0."""
    slot: Integers
    value: NDArray[np.float64]
    label: NDArray[np.int8]

    def of(self, which: NDArray[Any]) -> Waiting:
        return Waiting(self.row[which], self.slot[which], self.value[which], self.label[which])


class Part(NamedTuple):
    """Labelled rows of a batch."""

    indptr: Integers
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    y: NDArray[np.int8]
    names: tuple[str, ...]


class Counts:
    def __init__(
        self, *, bins: int, binning: str | Mapping[str, Sequence[float]], absent: str, max_features: int,
        labels: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.bins, self.absent_is_zero, self.max_features = bins, absent == "zero", max_features
        self.binning = binning if isinstance(binning, str) else "quantiles"
        self.rows = 0
        """Labelled rows."""
        self.ignored = 0
        self.started = False
        """Whether the warm-up is over: cuts have been made."""
        self.labels: list[int] = []
        """The classes seen, in ascending order."""
        self.totals: Integers = np.zeros(0, dtype=np.int64)
        self.names: list[str] = []
        self.slots: dict[str, int] = {}
        # by slot
        self.keys: Integers = np.zeros(0, dtype=np.int64)
        self.has_cuts = np.zeros(0, dtype=np.bool_)
        self.cuts = np.zeros((0, bins - 1))
        self.levels: Integers = np.zeros(0, dtype=np.int64)
        self.zero: Integers = np.zeros(0, dtype=np.int64)
        self.first: Integers = np.zeros(0, dtype=np.int64)
        """How many rows there had been before the feature's first."""
        self.counts: Integers = np.zeros((0, 0, bins), dtype=np.int64)
        self.nulls: Integers = np.zeros((0, 0), dtype=np.int64)
        self.waiting: list[Waiting] = []
        self.warm_labels: list[NDArray[np.int8]] = []
        """The labels of the warm-up's rows."""
        self._bound: tuple[tuple[str, ...], Integers] | None = None
        for label in labels:
            self.know_class(label)
        if not isinstance(binning, str):
            for name, cuts in given_cuts(binning, bins).items():
                self._add_names([name])
                self._set_cuts(np.array([self.slots[name]]), np.array([[*cuts] + [np.inf] * (bins - 1 - len(cuts))]))

    def add(self, part: Part) -> None:
        """Rows, all of them labelled."""
        labels = np.unique(part.y).tolist()
        for label in labels:
            self.know_class(label)
        classes = np.searchsorted(self.labels, part.y)
        self.totals += np.bincount(classes, minlength=len(self.labels))
        rows = np.repeat(np.arange(len(part.y)), np.diff(part.indptr))
        slots = self._slots_of(part, rows)
        if not self.started:
            self.warm_labels.append(part.y.copy())
            self._wait(part, rows, slots, slots >= 0)
        else:
            counted = slots
            uncut = (slots >= 0) & ~self.has_cuts[slots] if len(self.names) else slots >= 0
            if uncut.any():
                self._wait(part, rows, slots, uncut)
                counted = np.where(uncut, -1, slots)
            self._count(counted, part.values, classes[rows])
        self.rows += len(part.y)

    def make_cuts(self) -> tuple[Waiting, NDArray[np.int8]]:
        """Of the features that have rows enough; in the warm-up, of all. What was waiting, and the warm-up's labels."""
        waiting = self._all_waiting()
        places = len(self.has_cuts)
        present = np.bincount(waiting.slot, minlength=places)
        rows = self.rows - self.first if self.absent_is_zero else present
        due = ~self.has_cuts & (present > 0)
        if self.started:
            due &= rows >= LEAST_ROWS
        ready = due[waiting.slot]
        slots = np.flatnonzero(due)
        order = np.lexsort((waiting.value, waiting.slot))
        order = order[ready[order] & ~np.isnan(waiting.value[order])]
        first = np.searchsorted(waiting.slot[order], np.append(slots, places))
        nulls = np.bincount(waiting.slot[np.isnan(waiting.value)], minlength=places)[slots]
        zeros = rows[slots] - np.diff(first) - nulls if self.absent_is_zero else np.zeros(len(slots), dtype=np.int64)
        values = waiting.value[order]
        if not self.absent_is_zero:  # zeros that are there
            is_zero = np.concatenate(([0], np.cumsum(values == 0)))
            zeros = is_zero[first[1:]] - is_zero[first[:-1]]
            first = first - is_zero[first]
            values = values[values != 0]
        if len(slots):
            self._set_cuts(slots, cuts_of(self.binning, self.bins, first, values, zeros))
        given = self.has_cuts[waiting.slot]  # those that had cuts in the warm-up already as well
        self._count(
            waiting.slot[given], waiting.value[given], np.searchsorted(self.labels, waiting.label[given])
        )
        self.waiting = [waiting.of(~given)] if not given.all() else []
        labels = np.concatenate([np.zeros(0, dtype=np.int8), *self.warm_labels])
        self.started, self.warm_labels = True, []
        return waiting, labels

    def all_slots(self) -> Integers:
        """Of the features that can be used."""
        return np.flatnonzero(self.has_cuts)

    def tables(self, slots: Integers) -> Integers:
        """How often, [feature, class, bin]: the bin of 0 filled in."""
        counts: Integers = self.counts[slots]
        if self.absent_is_zero:
            left = self.totals - self.nulls[slots] - counts.sum(axis=2)
            counts[np.arange(len(slots)), :, self.zero[slots]] = left
        return counts

    def probabilities(self, slots: Integers, counts: Integers) -> NDArray[np.float64]:
        """P(bin | class), smoothed by one more in every bin: [feature, class, bin]. `counts`: the features' tables."""
        levels = self.levels[slots]
        smoothed = (counts + 1) / (counts.sum(axis=2) + levels[:, None])[:, :, None]
        return np.where(np.arange(self.bins) < levels[:, None, None], smoothed, 0.0)

    def cuts_by_name(self) -> dict[str, list[float]]:
        slots = self.all_slots().tolist()
        return {self.names[slot]: self.cuts[slot, : self.levels[slot] - 1].tolist() for slot in slots}

    def fresh(self, labels: Sequence[int]) -> Counts:
        """The same cuts, and nothing counted."""
        made = self._empty(labels)
        slots = self.all_slots()
        made._add_names([self.names[slot] for slot in slots.tolist()])
        made._set_cuts(np.arange(len(slots)), self.cuts[slots])
        made.started = self.started
        return made

    def merged(self, other: Counts) -> Counts:
        """What one would have that had counted what both have."""
        for name in self.slots.keys() & other.slots.keys():
            a, b = self.slots[name], other.slots[name]
            if self.has_cuts[a] and other.has_cuts[b] and not np.array_equal(self.cuts[a], other.cuts[b]):
                raise ValueError(f"the cuts of feature {name!r} differ")
        together = list(dict.fromkeys([*self.names, *other.names]))
        if len(together) > self.max_features:
            raise ValueError(f"together they have {len(together)} features: max_features is too small")
        made = self._empty([*self.labels, *other.labels])
        made._add_names(together)
        made.started = True
        made.rows, made.ignored = self.rows + other.rows, self.ignored + other.ignored
        for one, rest in ((self, other), (other, self)):
            to = np.array([made.slots[name] for name in one.names], dtype=np.int64)
            classes = np.searchsorted(made.labels, one.labels)
            made.totals[classes] += one.totals
            cut = np.flatnonzero(one.has_cuts)
            made._set_cuts(to[cut], one.cuts[cut])
            made.counts[to[:, None], classes] += one.counts[: len(to)]
            made.nulls[to[:, None], classes] += one.nulls[: len(to)]
            # rows of a model that has never had the feature do not count as its first ones
            alone = np.array([name not in rest.slots for name in one.names], dtype=np.bool_)
            made.first[to] += one.first[: len(to)] + np.where(alone, rest.rows, 0)
            waiting = one._all_waiting()
            made.waiting.append(waiting._replace(slot=to[waiting.slot], row=np.zeros_like(waiting.row)))
        known = made._all_waiting()
        given = made.has_cuts[known.slot]  # the other model had made the cuts
        made._count(known.slot[given], known.value[given], np.searchsorted(made.labels, known.label[given]))
        made.waiting = [known.of(~given)] if not given.all() else []
        return made

    @property
    def values_waiting(self) -> int:
        """How many values wait for cuts."""
        return sum(len(waiting.row) for waiting in self.waiting)

    def block(self, start: int = 0) -> dict[str, Any]:
        """The values that wait, but for the first `start`, in builtins and bytes: by row, then by feature."""
        whole = self._all_waiting()
        self.waiting = [whole]
        waiting = whole.of(np.arange(len(whole.row)) >= start)
        order = self._canonical()
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        waiting = waiting.of(np.lexsort((waiting.label, waiting.value, place[waiting.slot], waiting.row)))
        used, number = np.unique(place[waiting.slot], return_inverse=True)
        return {
            "names": [self.names[slot] for slot in order[used].tolist()],
            "name": packed(number),
            "row": packed(waiting.row),
            "value": waiting.value.astype(_FLOATS).tobytes(),
            "label": waiting.label.tobytes(),
        }

    def take_in(self, block: Mapping[str, Any]) -> None:
        """Values that waited, of features that are known."""
        slots = np.array([self.slots[name] for name in block["names"]], dtype=np.int64)
        self.waiting.append(
            Waiting(
                unpacked(block["row"]),
                slots[unpacked(block["name"])],
                np.frombuffer(block["value"], dtype=_FLOATS).astype(np.float64),
                np.frombuffer(block["label"], dtype=np.int8),
            )
        )

    def state(self) -> dict[str, Any]:
        """Features by key, whatever the order they came in; without the values that wait."""
        order = self._canonical()
        return {
            "rows": self.rows,
            "ignored": self.ignored,
            "started": self.started,
            "labels": list(self.labels),
            "totals": self.totals.tolist(),
            "names": [self.names[slot] for slot in order.tolist()],
            "has_cuts": self.has_cuts[order].tobytes(),
            "cuts": self.cuts[order].astype(_FLOATS).tobytes(),
            "levels": packed(self.levels[order]),
            "first": packed(self.first[order]),
            "counts": packed(self.counts[order]),
            "nulls": packed(self.nulls[order]),
            "warm_labels": b"".join(labels.tobytes() for labels in self.warm_labels),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.rows, self.ignored, self.started = state["rows"], state["ignored"], state["started"]
        self.names, self.slots, self.keys = [], {}, np.zeros(0, dtype=np.int64)
        self.labels, self.totals = list(state["labels"]), np.array(state["totals"], dtype=np.int64)
        self._add_names(state["names"])
        places, classes = len(self.names), len(self.labels)

        self.has_cuts = np.frombuffer(state["has_cuts"], dtype=np.bool_).copy()
        self.cuts = np.frombuffer(state["cuts"], dtype=_FLOATS).astype(np.float64).reshape(places, self.bins - 1)
        self.levels, self.first = unpacked(state["levels"]), unpacked(state["first"])
        self.zero = _bins_of_zero(self.cuts)
        self.counts = unpacked(state["counts"]).reshape(places, classes, self.bins)
        self.nulls = unpacked(state["nulls"]).reshape(places, classes)
        self.waiting = []
        self.warm_labels = [np.frombuffer(state["warm_labels"], dtype=np.int8)]

    def _empty(self, labels: Sequence[int]) -> Counts:
        return Counts(
            bins=self.bins, binning=self.binning, absent="zero" if self.absent_is_zero else "missing",
            max_features=self.max_features, labels=labels,
        )  # fmt: skip

    def _canonical(self) -> Integers:
        by_name = sorted(range(len(self.names)), key=self.names.__getitem__)
        order = np.array(by_name, dtype=np.int64)
        return order[np.argsort(self.keys[order], kind="stable")]

    def _all_waiting(self) -> Waiting:
        empty = Waiting(
            np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int8)
        )
        return Waiting(*map(np.concatenate, zip(empty, *self.waiting, strict=True)))

    def _wait(self, part: Part, rows: Integers, slots: Integers, which: NDArray[np.bool_]) -> None:
        self.waiting.append(
            Waiting(self.rows + rows[which], slots[which], part.values[which], part.y[rows[which]])
        )

    def _count(self, slots: Integers, values: NDArray[np.float64], classes: Integers) -> None:
        uncounted = self.zero if self.absent_is_zero else np.full(len(self.zero), -1, dtype=np.int64)
        count_values(
            as_argument(slots), as_argument(np.ascontiguousarray(values)), as_argument(classes), self.cuts, uncounted,
            self.counts, self.nulls,
        )  # fmt: skip

    def _slots_of(self, part: Part, rows: Integers) -> Integers:
        """Of each value that says something, else -1; new names get theirs in order of row and place."""
        if self._bound is None or self._bound[0] is not part.names:
            slots = np.fromiter((self.slots.get(name, -1) for name in part.names), np.int64, len(part.names))
            self._bound = (part.names, slots)
        slots = self._bound[1]
        tells = part.values != 0 if self.absent_is_zero else ~np.isnan(part.values)
        found = np.where(tells, slots[part.indices], -1)
        new = np.flatnonzero(tells & (found < 0))
        if len(new) and len(self.names) < self.max_features:
            columns, at = np.unique(part.indices[new], return_index=True)
            columns = columns[np.argsort(at)][: self.max_features - len(self.names)]
            had = len(self.names)
            first = np.full(len(part.names), -1, dtype=np.int64)
            first[part.indices[new[::-1]]] = rows[new[::-1]]
            self._add_names([part.names[column] for column in columns.tolist()])
            slots[columns] = np.arange(had, len(self.names))
            if self.started:
                self.first[had : len(self.names)] = self.rows + first[columns]
            found = np.where(tells, slots[part.indices], -1)
            new = np.flatnonzero(tells & (found < 0))
        self.ignored += len(new)
        return found

    def know_class(self, label: int) -> None:
        if label not in self.labels:
            at = int(np.searchsorted(self.labels, label))
            self.labels.insert(at, label)
            self.totals = np.insert(self.totals, at, 0)
            self.counts = np.insert(self.counts, at, 0, axis=1)
            self.nulls = np.insert(self.nulls, at, 0, axis=1)

    def _add_names(self, names: list[str]) -> None:
        """None of them known."""
        had, have = len(self.names), len(self.names) + len(names)
        self.names += names
        self.slots.update(zip(names, range(had, have), strict=True))
        self.keys = np.concatenate((self.keys, feature_keys(names)))
        if have > len(self.has_cuts):
            self._make_room(max(have, 2 * len(self.has_cuts)) - len(self.has_cuts))

    def _make_room(self, more: int) -> None:
        for name in ("has_cuts", "levels", "zero", "first", "cuts", "counts", "nulls"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate((array, np.zeros((more, *array.shape[1:]), dtype=array.dtype))))

    def _set_cuts(self, slots: Integers, cuts: NDArray[np.float64]) -> None:
        self.cuts[slots] = cuts
        self.levels[slots] = np.isfinite(cuts).sum(axis=1) + 1
        self.zero[slots] = _bins_of_zero(cuts)
        self.has_cuts[slots] = True


def packed(numbers: Integers) -> list[Any]:
    """Whole numbers of at least 0, as narrow as the largest of them lets them be: bytes each, and all of them."""
    most = int(numbers.max(initial=0))
    width = next(width for width in _WIDTHS if most <= np.iinfo(width).max)
    return [width.itemsize, numbers.astype(width).tobytes()]


def unpacked(content: Sequence[Any]) -> Integers:
    size, numbers = content
    (width,) = (width for width in _WIDTHS if width.itemsize == size)
    return np.frombuffer(numbers, dtype=width).astype(np.int64)


def _bins_of_zero(cuts: NDArray[np.float64]) -> Integers:
    return np.asarray((cuts < 0).sum(axis=1), dtype=np.int64)


def labelled_part(batch: InstanceBatch, start: int, stop: int) -> Part:
    y = batch.y[start:stop]
    low, high = batch.indptr[start], batch.indptr[stop]
    indptr, indices, values = batch.indptr[start : stop + 1] - low, batch.indices[low:high], batch.values[low:high]
    if (y != 0).all():
        return Part(indptr, indices, values, y, batch.names)
    lengths = np.diff(indptr)
    kept = np.repeat(y != 0, lengths)
    ends = np.concatenate(([0], np.cumsum(lengths[y != 0])))
    return Part(ends, indices[kept], values[kept], y[y != 0], batch.names)
