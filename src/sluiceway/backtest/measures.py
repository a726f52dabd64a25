"""How good a variant was: from the scores and labels of what was judged, in the order in which labels came.

With two classes (-1, +1) a score is right if it has the label's sign; 0 is wrong, as in the flow's own `mistakes`. With
more (1, 2, 3, ...) the score is the class that was predicted, and there is no `auc`.

    error               share judged wrong
    balanced_accuracy   mean over the classes of the share of their instances judged right
    kappa               (p - e) / (1 - e): p the share right, e what a random guess with the same shares of classes gets
    kappa_temporal      the same against "the label is the stream's last one"; a stream's first is wrong then
    kappa_m             the same against "always the larger class"
    auc                 the chance that a positive instance has a larger score than a negative one; equal counts half
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.backtest.tallies import WAYS, Bytes, Floats, along, areas, areas_of_windows, by_group, places

POINTS = 400
"""Of a curve, at most."""
POINTS_OF_STREAM = 100


@dataclass(frozen=True, slots=True)
class Labels:
    """Of the rows that were judged, what is the same for all variants that were judged on them."""

    offset: NDArray[np.int64]
    ts: NDArray[np.int64]
    y: NDArray[np.int8]
    stream: NDArray[np.uint32]
    classes: int
    label: Bytes
    """The number of the class, from 0."""
    lasts: Bytes
    """Whether it is the label before it in its stream."""
    order: NDArray[np.int64]
    """Of rows in which streams lie together, each as it came."""
    begins: NDArray[np.int64]
    """Where each stream does in that order, and where the last one ends."""

    @classmethod
    def of(cls, judged: NDArray[Any], streams: int, classes: int = 2) -> Self:
        offset, ts, y, stream = (judged[name].copy() for name in ("offset", "ts", "y", "stream"))
        few = streams <= 1 << 16  # small numbers are sorted by digits
        order = np.argsort(stream.astype(np.uint16) if few else stream, kind="stable")
        begins = np.append(0, np.cumsum(np.bincount(stream.astype(np.int64), minlength=streams)))
        label = (y > 0).astype(np.int8) if classes == 2 else y - np.int8(1)
        grouped = y[order]
        same = np.append(False, grouped[1:] == grouped[:-1])[: len(y)]
        same[begins[:-1][begins[:-1] < len(y)]] = False
        lasts = np.empty(len(y), dtype=np.int8)
        lasts[order] = same
        return cls(offset, ts, y, stream, classes, label, lasts, order, begins)

    def fit(self, judged: NDArray[Any]) -> bool:
        """Whether those rows are the same ones."""
        return len(judged) == len(self.y) and all(
            np.array_equal(judged[name], getattr(self, name)) for name in ("offset", "y", "stream", "ts")
        )

    @property
    def counts(self) -> NDArray[np.int64]:
        """Of rows, by stream."""
        return np.diff(self.begins)


class Judged(NamedTuple):
    """What counts when variants are compared."""

    labels: Labels
    right: NDArray[np.bool_]
    """By row, whether it was."""


class Verdicts:
    """What one variant said of those rows, measured in all ways."""

    def __init__(self, labels: Labels, score: Floats) -> None:
        self.labels = labels
        if labels.classes == 2:
            self.right = score * labels.y > 0
            self._said = labels.label ^ ~self.right
            self._order, self._place = places(score)
        else:
            self.right = score == labels.y
            self._said = (score - 1).astype(np.int8)

    @property
    def judged(self) -> Judged:
        return Judged(self.labels, self.right)

    @classmethod
    def of(cls, judged: NDArray[Any], streams: int = 1, classes: int = 2) -> Self:
        """Of one variant alone."""
        streams = max(streams, int(judged["stream"].max(initial=0)) + 1)
        return cls(Labels.of(judged, streams, classes), judged["score"].copy())

    def summary(self) -> dict[str, float | None]:
        """Over all of it; None = it has no meaning here."""
        return self._measures(np.zeros(len(self.right), dtype=np.uint32), 1)[0]

    def by_stream(self) -> list[dict[str, float | None]]:
        """The same for each stream by itself."""
        return self._measures(self.labels.stream, len(self.labels.counts))

    def _measures(self, group: NDArray[np.uint32], groups: int) -> list[dict[str, float | None]]:
        own = self.labels
        found = rates(by_group(own.label, self._said, own.lasts, group, groups, own.classes).T)
        binary = own.classes == 2
        found["auc"] = areas(self._order, self._place, own.label, group, groups) if binary else np.full(groups, np.nan)
        listed = {name: _listed(values) for name, values in found.items()}
        return [{name: values[at] for name, values in listed.items()} for at in range(groups)]

    def curves(self, window: int, fading: float, points: int = POINTS) -> dict[str, Any]:
        """Each measure at up to `points` places: over all before, over the last `window`, and fading by `fading`.

        The AUC has its windows alone: its other ways would take longer than all else together.
        """
        own = self.labels
        if not len(own.y):
            return {"at": [], "ts": [], "cumulative": {}, "window": {}, "fading": {}}
        [found] = self._along([slice(None)], window, fading, points)
        if own.classes == 2:
            ends = np.array(found["at"], dtype=np.int64)
            found["window"]["auc"] = _rounded(areas_of_windows(self._place, own.label, ends, window))
        return found

    def curves_of_streams(
        self, streams: Sequence[int], window: int, fading: float, points: int = POINTS_OF_STREAM
    ) -> list[dict[str, Any]]:
        """Of each of these streams by itself, which have rows; without the AUC."""
        begins = self.labels.begins
        return self._along([self.labels.order[begins[at] : begins[at + 1]] for at in streams], window, fading, points)

    def _along(
        self, parts: Sequence[NDArray[np.int64] | slice], window: int, fading: float, points: int
    ) -> list[dict[str, Any]]:
        """Of the rows of each part by themselves. The measures of all are made at once: of few numbers, each step of
        it takes as long as of many."""
        own, found, counted = self.labels, list[dict[str, Any]](), list[Floats]()
        for rows in parts:
            ts = own.ts[rows]
            at = _spread(len(ts), points)
            counted.append(along(own.label[rows], self._said[rows], own.lasts[rows], at, window, fading, own.classes))
            found.append({"at": at.tolist(), "ts": ts[at - 1].tolist(), **{way: {} for way in WAYS}})
        if not counted:
            return found
        whole = np.concatenate(counted, axis=2).swapaxes(0, 1)
        for name, values in rates(whole.reshape(len(whole), -1)).items():
            listed, begin = _rounded(values), 0
            for way in WAYS:
                for part in found:
                    end = begin + len(part["at"])
                    part[way][name] = listed[begin:end]
                    begin = end
        return found


@lru_cache(maxsize=64)
def _spread(rows: int, points: int) -> NDArray[np.int64]:
    """Places of a curve: after how many rows."""
    found: NDArray[np.int64] = np.unique(np.linspace(1, rows, min(rows, points)).round().astype(np.int64))
    return found


def rates(sums: Floats) -> dict[str, Floats]:
    """Of (weighted) counts as `tallies` has them, a row each; NaN where a measure has no meaning."""
    same, of, to, both = sums[0], sums[1::3], sums[2::3], sums[3::3]
    n = of.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        accuracy = both.sum(axis=0) / n
        return {
            "error": 1 - accuracy,
            "balanced_accuracy": _mean_of_known(both / of),
            "kappa": _beyond(accuracy, (of * to).sum(axis=0) / n**2),
            "kappa_temporal": _beyond(accuracy, same / n),
            "kappa_m": _beyond(accuracy, of.max(axis=0) / n),
        }


def _mean_of_known(values: Floats) -> Floats:
    known = ~np.isnan(values)
    mean: Floats = np.where(known, values, 0).sum(axis=0) / known.sum(axis=0)
    return mean


def _beyond(accuracy: Floats, by_chance: Floats) -> Floats:
    found: Floats = np.where(by_chance < 1, (accuracy - by_chance) / (1 - by_chance), np.nan)
    return found


def _listed(values: Floats) -> list[float | None]:
    listed: list[float | None] = values.tolist()
    for at in np.flatnonzero(np.isnan(values)).tolist():
        listed[at] = None
    return listed


def _rounded(values: Floats) -> list[float | None]:
    return _listed(values.round(9))
