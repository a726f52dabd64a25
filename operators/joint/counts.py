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
from sluiceway.operators.joint.names import Integers, Names, grown
from sluiceway.operators.kernels.joint.counting import count_values
from sluiceway.operators.kernels.joint.line import Line, new_line, number_in_line, place_of

LEAST_ROWS = 50
"""So many rows a feature that comes after the warm-up must have before its cuts are made."""
_FLOATS = np.dtype("<f8")
_WIDTHS = (np.dtype("<u2"), np.dtype("<u4"), np.dtype("<i8"))


class Waiting(NamedTuple):
    """Values of features without cuts."""

    row: Integers
    """Counted over labelled rows, from 0."""
    slot: Integers
    value: NDArray[np.float64]
    label: NDArray[np.int8]

    def of(self, which: NDArray[Any] | slice) -> Waiting:
        return Waiting(self.row[which], self.slot[which], self.value[which], self.label[which])

    def and_(self, others: Waiting) -> Waiting:
        return Waiting(
            np.concatenate((self.row, others.row)),
            np.concatenate((self.slot, others.slot)),
            np.concatenate((self.value, others.value)),
            np.concatenate((self.label, others.label)),
        )


NONE = Waiting(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int8))


class Counts:
    rows: int = number_in_line("rows")
    """Labelled rows."""
    ignored: int = number_in_line("ignored")
    started: int = number_in_line("started")
    """Whether the warm-up is over: cuts have been made."""
    values_waiting: int = number_in_line("waiting")
    """How many values wait for cuts."""

    def __init__(
        self, *, bins: int, binning: str | Mapping[str, Sequence[float]], absent: str, max_features: int,
        labels: Sequence[int] = (), line: Line | None = None,
    ) -> None:  # fmt: skip
        self.bins, self.absent_is_zero, self.max_features = bins, absent == "zero", max_features
        self.binning = binning if isinstance(binning, str) else "quantiles"
        self.line = new_line() if line is None else line
        """Where kernels find all this."""
        self.line["bins"], self.line["absent_is_zero"] = bins, self.absent_is_zero
        self.line["most_features"] = max_features
        self.labels: list[int] = []
        """The classes seen, in ascending order."""
        self.totals: Integers = np.zeros(0, dtype=np.int64)
        self.known = Names(self.line)
        # by slot
        self.has_cuts = np.zeros(0, dtype=np.bool_)
        self.cuts = np.zeros((0, bins - 1))
        self.levels: Integers = np.zeros(0, dtype=np.int64)
        self.zero: Integers = np.zeros(0, dtype=np.int64)
        self.first: Integers = np.zeros(0, dtype=np.int64)
        """How many rows there had been before the feature's first; -1: that has still to be learnt."""
        self.counts: Integers = np.zeros((0, 0, bins), dtype=np.int64)
        self.nulls: Integers = np.zeros((0, 0), dtype=np.int64)
        # room for more than there are
        self._waiting = NONE
        self._warm_labels: NDArray[np.int8] = np.zeros(0, dtype=np.int8)
        """The labels of the warm-up's rows."""
        self._make_room()
        for label in labels:
            self.know_class(label)
        if not isinstance(binning, str):
            given = given_cuts(binning, bins)
            self._add_names([*given])
            rows = [[*cuts] + [np.inf] * (bins - 1 - len(cuts)) for cuts in given.values()]
            self._set_cuts(np.arange(len(given)), np.array(rows).reshape(len(given), bins - 1))

    @property
    def names(self) -> list[str]:
        """By slot."""
        return self.known.spelt()

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
        labels = np.zeros(0, dtype=np.int8) if self.started else self._warm_labels[: self.rows]
        self.started, self._warm_labels = 1, np.zeros(0, dtype=np.int8)
        self._wait(waiting.of(~given))
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
        cuts = [self.cuts[slot, : self.levels[slot] - 1].tolist() for slot in slots]
        return dict(zip(self.known.spelt(slots), cuts, strict=True))

    def fresh(self, labels: Sequence[int]) -> Counts:
        """The same cuts, and nothing counted."""
        made = self._empty(labels)
        slots = self.all_slots()
        made._add_names(self.known.spelt(slots.tolist()))
        made._set_cuts(np.arange(len(slots)), self.cuts[slots])
        made.started = self.started
        return made

    def merged(self, other: Counts) -> Counts:
        """What one would have that had counted what both have."""
        for a, (name, b) in enumerate(zip(self.names, other.known.find(self.names).tolist(), strict=True)):
            if b < 0:
                continue
            if self.has_cuts[a] and other.has_cuts[b] and not np.array_equal(self.cuts[a], other.cuts[b]):
                raise ValueError(f"the cuts of feature {name!r} differ")
        together = list(dict.fromkeys([*self.names, *other.names]))
        if len(together) > self.max_features:
            raise ValueError(f"together they have {len(together)} features: max_features is too small")
        made = self._empty([*self.labels, *other.labels])
        made._add_names(together)
        made.started = 1
        made.rows, made.ignored = self.rows + other.rows, self.ignored + other.ignored
        for one, rest in ((self, other), (other, self)):
            to = made.known.find(one.names)
            classes = np.searchsorted(made.labels, one.labels)
            made.totals[classes] += one.totals
            cut = np.flatnonzero(one.has_cuts)
            made._set_cuts(to[cut], one.cuts[cut])
            made.counts[to[:, None], classes] += one.counts[: len(to)]
            made.nulls[to[:, None], classes] += one.nulls[: len(to)]
            # rows of a model that has never had the feature do not count as its first ones
            alone = rest.known.find(one.names) < 0
            made.first[to] += one.first[: len(to)] + np.where(alone, rest.rows, 0)
            waiting = one._all_waiting()
            made._wait(made._all_waiting().and_(waiting._replace(slot=to[waiting.slot], row=0 * waiting.row)))
        known = made._all_waiting()
        given = made.has_cuts[known.slot]  # the other model had made the cuts
        made._count(known.slot[given], known.value[given], np.searchsorted(made.labels, known.label[given]))
        made._wait(known.of(~given))
        return made

    def block(self, start: int = 0) -> dict[str, Any]:
        """The values that wait, but for the first `start`, in builtins and bytes: by row, then by feature."""
        waiting = self._all_waiting().of(slice(start, None))
        order = self._canonical()
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        at = waiting.row * len(order) + place[waiting.slot]
        by = np.argsort(at, kind="stable")
        if (at[by[1:]] == at[by[:-1]]).any():  # of merged models, whose rows are nobody's any more
            by = np.lexsort((waiting.label, waiting.value, at))
        waiting = waiting.of(by)
        used, number = np.unique(place[waiting.slot], return_inverse=True)
        return {
            "names": self.known.spelt(order[used].tolist()),
            "name": packed(number),
            "row": packed(waiting.row),
            "value": waiting.value.astype(_FLOATS).tobytes(),
            "label": waiting.label.tobytes(),
        }

    def take_in(self, block: Mapping[str, Any]) -> None:
        """Values that waited, of features that are known."""
        waiting = Waiting(
            unpacked(block["row"]),
            self.known.find(block["names"])[unpacked(block["name"])],
            np.frombuffer(block["value"], dtype=_FLOATS).astype(np.float64),
            np.frombuffer(block["label"], dtype=np.int8),
        )
        if (waiting.slot < 0).any():
            raise ValueError("values wait of a feature that is not known")
        start, end = self.values_waiting, self.values_waiting + len(waiting.row)
        self.make_room_to_wait(len(waiting.row))
        all_waiting: Sequence[NDArray[Any]] = self._waiting
        for kept, more in zip(all_waiting, waiting, strict=True):
            kept[start:end] = more
        self.values_waiting = end

    def state(self) -> dict[str, Any]:
        """Features by key, whatever the order they came in; without the values that wait."""
        order = self._canonical()
        return {
            "rows": self.rows,
            "ignored": self.ignored,
            "started": bool(self.started),
            "labels": list(self.labels),
            "totals": self.totals.tolist(),
            "names": self.known.spelt(order.tolist()),
            "has_cuts": self.has_cuts[order].tobytes(),
            "cuts": self.cuts[order].astype(_FLOATS).tobytes(),
            "levels": packed(self.levels[order]),
            "first": packed(self.first[order]),
            "counts": packed(self.counts[order]),
            "nulls": packed(self.nulls[order]),
            "warm_labels": b"" if self.started else self._warm_labels[: self.rows].tobytes(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """What was counted; of one that has counted nothing, and was given no cuts or will have them again."""
        self.rows, self.ignored, self.started = state["rows"], state["ignored"], state["started"]
        self.labels, self.totals = list(state["labels"]), np.array(state["totals"], dtype=np.int64)
        self.known = Names(self.line)
        self.known.add(state["names"])
        places, classes = len(self.known), len(self.labels)
        self.has_cuts = np.frombuffer(state["has_cuts"], dtype=np.bool_).copy()
        self.cuts = np.frombuffer(state["cuts"], dtype=_FLOATS).astype(np.float64).reshape(places, self.bins - 1)
        self.levels, self.first = unpacked(state["levels"]), unpacked(state["first"])
        self.zero = _bins_of_zero(self.cuts)
        self.counts = unpacked(state["counts"]).reshape(places, classes, self.bins)
        self.nulls = unpacked(state["nulls"]).reshape(places, classes)
        self._warm_labels = np.frombuffer(state["warm_labels"], dtype=np.int8).copy()
        self._wait(NONE)
        self._make_room()

    def _empty(self, labels: Sequence[int]) -> Counts:
        return Counts(
            bins=self.bins, binning=self.binning, absent="zero" if self.absent_is_zero else "missing",
            max_features=self.max_features, labels=labels,
        )  # fmt: skip

    def _canonical(self) -> Integers:
        """The slots by their keys, and by their names where keys are the same."""
        keys = self.known.keys
        order = np.argsort(keys)
        ranked = keys[order]
        if (ranked[1:] == ranked[:-1]).any():
            names = self.names
            order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
            order = order[np.argsort(keys[order], kind="stable")]
        return order

    def _all_waiting(self) -> Waiting:
        return self._waiting.of(slice(0, self.values_waiting))

    def _wait(self, waiting: Waiting) -> None:
        """Nothing but these."""
        self._waiting = Waiting(*map(np.ascontiguousarray, waiting))
        self.values_waiting = len(waiting.row)
        self._seat_waiting()

    def _count(self, slots: Integers, values: NDArray[np.float64], classes: Integers) -> None:
        uncounted = self.zero if self.absent_is_zero else np.full(len(self.zero), -1, dtype=np.int64)
        count_values(
            as_argument(slots), as_argument(np.ascontiguousarray(values)), as_argument(classes), self.cuts, uncounted,
            self.counts, self.nulls,
        )  # fmt: skip

    def know_class(self, label: int) -> None:
        if label not in self.labels:
            at = int(np.searchsorted(self.labels, label))
            self.labels.insert(at, label)
            self.totals = np.insert(self.totals, at, 0)
            self.counts = np.insert(self.counts, at, 0, axis=1)
            self.nulls = np.insert(self.nulls, at, 0, axis=1)
            self._seat()

    def make_room_for_names(self, letters: int) -> None:
        """For one more, of so many letters; for many, so that it is not to be done often."""
        self.known.make_room(1, letters)
        self._make_room()

    def make_room_to_wait(self, values: int) -> None:
        """For so many more, and one more row in the warm-up."""
        waiting, rows = self.values_waiting, self.rows
        if waiting + values > len(self._waiting.row):
            room = max(waiting + values, 2 * len(self._waiting.row))
            self._waiting = Waiting(*(grown(part, room) for part in self._waiting))
        if not self.started and rows >= len(self._warm_labels):
            self._warm_labels = grown(self._warm_labels, max(2 * rows, 8))
        self._seat_waiting()

    def _add_names(self, names: Sequence[str]) -> None:
        """None of them known."""
        self.known.add(names)
        self._make_room()

    def _make_room(self) -> None:
        """For whatever names there is room for."""
        for name in ("has_cuts", "levels", "zero", "first", "cuts", "counts", "nulls"):
            setattr(self, name, grown(getattr(self, name), self.known.room))
        self._seat()

    def _seat(self) -> None:
        """Say in the line where everything is."""
        line = self.line
        self._class_at = np.full(256, -1, dtype=np.int8)
        self._class_at[np.array(self.labels, dtype=np.int64) + 1] = np.arange(len(self.labels))
        line["classes"], line["class_at"] = len(self.labels), place_of(self._class_at)
        line["totals_at"] = place_of(self.totals)
        for name in ("has_cuts", "cuts", "zero", "first", "counts", "nulls"):
            line[f"{name}_at"] = place_of(getattr(self, name))
        self._seat_waiting()

    def _seat_waiting(self) -> None:
        line, waiting = self.line, self._waiting
        line["waiting_row_at"], line["waiting_slot_at"] = place_of(waiting.row), place_of(waiting.slot)
        line["waiting_value_at"], line["waiting_label_at"] = place_of(waiting.value), place_of(waiting.label)
        line["waiting_room"] = len(waiting.row)
        line["warm_at"], line["warm_room"] = place_of(self._warm_labels), len(self._warm_labels)

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
