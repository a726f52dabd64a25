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

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import rankdata

POINTS = 400
"""Of a curve, at most."""
POINTS_OF_STREAM = 100
_AT_ONCE = 1 << 20
Floats = NDArray[np.float64]
Flags = list[NDArray[np.bool_]]
"""What `rates` counts, by row: see `flags`."""


def right(judged: NDArray[Any], classes: int = 2) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = judged["score"] * judged["y"] > 0 if classes == 2 else judged["score"] == judged["y"]
    return found


def lasting(judged: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the label is the one before it in its stream."""
    order = _grouped(judged["stream"])
    y, stream = judged["y"][order], judged["stream"][order]
    same = np.zeros(len(y), dtype=bool)
    same[1:] = (y[1:] == y[:-1]) & (stream[1:] == stream[:-1])
    found = np.empty(len(y), dtype=bool)
    found[order] = same
    return found


def _grouped(stream: NDArray[np.uint32]) -> NDArray[np.int64]:
    """An order of rows in which streams lie together, each as it came; numbers that are small are sorted by digits."""
    few = not len(stream) or stream.max() < 1 << 16
    found: NDArray[np.int64] = np.argsort(stream.astype(np.uint16) if few else stream, kind="stable")
    return found


def summary(judged: NDArray[Any], classes: int = 2, counted: Flags | None = None) -> dict[str, float | None]:
    """Over all of it; None = it has no meaning here. `counted`: its flags, if they are there already."""
    if not len(judged):
        return dict.fromkeys(("error", "balanced_accuracy", "kappa", "kappa_temporal", "kappa_m", "auc"))
    each = flags(judged, classes) if counted is None else counted
    sums = np.array([[np.count_nonzero(chosen)] for chosen in each], dtype=float)
    area = auc(judged["score"], judged["y"]) if classes == 2 else None
    return {name: _known(values[0]) for name, values in rates(sums).items()} | {"auc": area}


def by_stream(
    judged: NDArray[Any], streams: int, classes: int = 2, counted: Flags | None = None
) -> list[dict[str, float | None]]:
    """The same for each stream by itself."""
    stream = judged["stream"].astype(np.int64)
    each = flags(judged, classes) if counted is None else counted
    sums = np.array([np.bincount(stream[chosen], minlength=streams) for chosen in each], dtype=float)
    areas = _auc_by_stream(judged, streams) if classes == 2 else np.full(streams, np.nan)
    found = {**rates(sums), "auc": areas}
    return [{name: _known(values[at]) for name, values in found.items()} for at in range(streams)]


def flags(judged: NDArray[Any], classes: int = 2) -> Flags:
    """What `rates` counts: labels lasting, then for each class its instances, those predicted, and those of both."""
    ok = right(judged, classes)
    if classes == 2:
        label = (judged["y"] > 0).astype(np.int8)
        said = np.where(ok, label, 1 - label)
    else:
        label, said = judged["y"] - 1, judged["score"].astype(np.int64) - 1
    each = [lasting(judged)]
    for number in range(classes):
        of, to = label == number, said == number
        each += [of, to, of & to]
    return each


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def rates(sums: Floats) -> dict[str, Floats]:
    """Of (weighted) counts as `_each` tells them, a row each; NaN where a measure has no meaning."""
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


def auc(scores: Floats, y: NDArray[np.int8]) -> float | None:
    """Of ranks, equal scores sharing theirs."""
    positives = int(np.count_nonzero(y > 0))
    negatives = len(y) - positives
    if not positives or not negatives:
        return None
    ranks = rankdata(scores)
    return float((ranks[y > 0].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def _auc_by_stream(judged: NDArray[Any], streams: int) -> Floats:
    """All streams in one sort: a rank within the stream is one less those of the streams before."""
    stream = judged["stream"].astype(np.int64)
    order = np.argsort(judged["score"])
    order = order[_grouped(judged["stream"][order])]
    s, score = stream[order], judged["score"][order]
    first = np.ones(len(s), dtype=bool)
    first[1:] = (s[1:] != s[:-1]) | (score[1:] != score[:-1])
    run = np.cumsum(first) - 1
    begins = np.flatnonzero(first)
    ends = np.append(begins[1:], len(s))
    n = np.bincount(stream, minlength=streams)
    before = np.cumsum(n) - n
    ranks = ((begins + ends + 1) / 2)[run] - before[s]
    positive = judged["y"][order] > 0
    sums = np.bincount(s[positive], weights=ranks[positive], minlength=streams)
    ups = np.bincount(s[positive], minlength=streams).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = (sums - ups * (ups + 1) / 2) / (ups * (n - ups))
    return found


def auc_of_windows(score: Floats, y: NDArray[Any], ends: NDArray[np.int64], window: int) -> Floats:
    """Of the last `window` before each end; NaN where only one class is.

    A row's key has the place of its score among all, and its class in the last bit: windows of keys are sorted many at
    a time, which is what takes long.
    """
    place = np.unique(score, return_inverse=True)[1]
    keys = 2 * place.astype(np.int32 if len(score) < 1 << 30 else np.int64) + (y > 0)
    found: Floats = np.empty(len(ends))
    for at in np.flatnonzero(ends < window):
        found[at] = _areas(keys[None, : ends[at]])[0]
    whole, step = np.flatnonzero(ends >= window), max(_AT_ONCE // window, 1)
    for first in range(0, len(whole), step):
        part = whole[first : first + step]
        found[part] = _areas(keys[ends[part, None] - window + np.arange(window)])
    return found


def _areas(keys: NDArray[Any]) -> Floats:
    """A row each: for a positive, what counts is the negatives below it, and half of those with its own score."""
    keys = np.sort(keys, axis=1)
    positive = (keys & 1).astype(bool)
    negatives = np.cumsum(~positive, axis=1)
    first = np.ones(keys.shape, dtype=bool)
    first[:, 1:] = keys[:, 1:] >> 1 != keys[:, :-1] >> 1
    below = np.maximum.accumulate(np.where(first, negatives - ~positive, 0), axis=1)
    sums = np.where(positive, below + negatives, 0).sum(axis=1) / 2
    ups, downs = positive.sum(axis=1), negatives[:, -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = sums / (ups * downs)
    return found


# -- curves -----------------------------------------------------------------------------------------------------------


def curves(
    judged: NDArray[Any],
    window: int,
    fading: float,
    classes: int = 2,
    points: int = POINTS,
    counted: Flags | None = None,
    *,
    areas: bool = True,
) -> dict[str, Any]:
    """Each measure at up to `points` places: over all before, over the last `window`, and fading by `fading` a step.

    With `areas` also the AUC of each window, which takes longer than all else.
    """
    n = len(judged)
    if n == 0:
        return {"at": [], "ts": [], "cumulative": {}, "window": {}, "fading": {}}
    at = np.unique(np.linspace(1, n, min(n, points)).round().astype(np.int64))
    each = flags(judged, classes) if counted is None else counted
    ways = {way: np.empty((len(each), len(at))) for way in ("cumulative", "window", "fading")}
    for row, chosen in enumerate(each):
        total = np.append(0.0, np.cumsum(chosen))
        ways["cumulative"][row] = total[at]
        ways["window"][row] = total[at] - total[np.maximum(at - window, 0)]
        ways["fading"][row] = lfilter([1.0], [1.0, -fading], chosen.astype(float))[at - 1]
    found = {way: {name: _listed(values) for name, values in rates(sums).items()} for way, sums in ways.items()}
    if classes == 2 and areas:
        found["window"]["auc"] = _listed(auc_of_windows(judged["score"], judged["y"], at, window))
    return {"at": at.tolist(), "ts": judged["ts"][at - 1].tolist(), **found}


def _listed(values: Floats) -> list[float | None]:
    return [_known(value) for value in values.round(9).tolist()]
