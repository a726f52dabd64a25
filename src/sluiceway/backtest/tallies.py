"""What measures are made of: counts over rows, in one compiled pass for all of them.

The counts of a row are: whether its label is its stream's last one; then for each class whether it has the label,
whether it was said to have it, and whether it was both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from sluiceway.compiling import kernel

Floats = NDArray[np.float64]
Bytes = NDArray[np.int8]
WAYS = ("cumulative", "window", "fading")
_AT_ONCE = 1 << 20


def along(
    label: Bytes, said: Bytes, lasts: Bytes, at: NDArray[np.int64], window: int, fading: float, classes: int
) -> Floats:
    """By way, count, and place of `at`: over all rows before, over the last `window`, and fading."""
    counts = 1 + 3 * classes
    found = np.empty((len(WAYS), counts, len(at)))
    _along(label, said, lasts, at, window, fading, np.zeros((len(WAYS), counts)), found)
    return found


@kernel
def _along(
    label: Bytes, said: Bytes, lasts: Bytes, at: NDArray[np.int64], window: int, fading: float, sums: Floats,
    found: NDArray[np.float64],
) -> None:  # fmt: skip
    """`sums`: all there were, those that have left the window, and those that fade."""
    done = gone = 0
    counts = sums.shape[1]
    for place in range(len(at)):
        while done < at[place]:
            for count in range(counts):
                sums[2, count] *= fading
            _add(label[done], said[done], lasts[done], sums[0])
            _add(label[done], said[done], lasts[done], sums[2])
            done += 1
        while gone < done - window:
            _add(label[gone], said[gone], lasts[gone], sums[1])
            gone += 1
        for count in range(counts):
            found[0, count, place] = sums[0, count]
            found[1, count, place] = sums[0, count] - sums[1, count]
            found[2, count, place] = sums[2, count]


@kernel
def _add(label: int, said: int, lasts: int, sums: Floats) -> None:
    sums[0] += lasts
    sums[1 + 3 * label] += 1.0
    if said >= 0 and 3 * said + 3 < len(sums):  # else it is no class at all
        sums[2 + 3 * said] += 1.0
    if label == said:
        sums[3 + 3 * label] += 1.0


def by_group(label: Bytes, said: Bytes, lasts: Bytes, group: NDArray[np.uint32], groups: int, classes: int) -> Floats:
    """A row a group, a column a count."""
    found = np.zeros((groups, 1 + 3 * classes))
    _by_group(label, said, lasts, group, found)
    return found


@kernel
def _by_group(label: Bytes, said: Bytes, lasts: Bytes, group: NDArray[np.uint32], found: Floats) -> None:
    for row in range(len(label)):
        _add(label[row], said[row], lasts[row], found[group[row]])


def places(score: Floats) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The rows by score, and by row the place of its score among the different ones."""
    order = np.argsort(score)
    place = np.empty(len(score), dtype=np.int32)
    _places(order, score, place)
    return order, place


@kernel
def _places(order: NDArray[np.int64], score: Floats, place: NDArray[np.int32]) -> None:
    own = 0
    for at in range(len(order)):
        own += at > 0 and score[order[at]] != score[order[at - 1]]
        place[order[at]] = own


def areas(
    order: NDArray[np.int64], place: NDArray[np.int32], label: Bytes, group: NDArray[np.uint32], groups: int
) -> Floats:
    """The AUC of each group; NaN where only one class is."""
    sums = np.zeros((groups, 6), dtype=np.int64)
    _pairs(order, place, label, group, sums)
    twice, negatives, positives = sums.T[:3]
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = twice / 2 / (negatives * positives)
    return found


@kernel
def _pairs(
    order: NDArray[np.int64], place: NDArray[np.int32], label: Bytes, group: NDArray[np.uint32],
    sums: NDArray[np.int64],
) -> None:  # fmt: skip
    """By group: twice the pairs in which the positive row is the higher one, a tie as half; negative and positive rows;
    and the place that it has come to, with those that lie below it."""
    for row in order:
        own = sums[group[row]]
        if own[3] != place[row] + 1:
            own[3], own[4], own[5] = place[row] + 1, own[1], own[2]
        if label[row]:
            own[0] += own[4] + own[1]
            own[2] += 1
        else:
            own[0] += own[2] - own[5]
            own[1] += 1


def areas_of_windows(place: NDArray[np.int32], label: Bytes, ends: NDArray[np.int64], window: int) -> Floats:
    """Of the last `window` rows before each end.

    A row's key has the place of its score, and its class in the last bit: windows of keys are sorted many at a time.
    """
    wide = np.int64 if len(place) >= 1 << 30 else np.int32
    keys: NDArray[Any] = np.add(2 * place.astype(wide), label)
    found: Floats = np.empty(len(ends))
    for at in np.flatnonzero(ends < window):
        found[at : at + 1] = _areas(keys[None, : ends[at]])
    whole, step = np.flatnonzero(ends >= window), max(_AT_ONCE // window, 1)
    for first in range(0, len(whole), step):
        part = whole[first : first + step]
        found[part] = _areas(sliding_window_view(keys, window)[ends[part] - window])
    return found


def _areas(keys: NDArray[Any]) -> Floats:
    """A row each."""
    sums = np.empty((len(keys), 3), dtype=np.int64)
    _pairs_of_keys(np.sort(keys, axis=1).astype(np.int64, copy=False), sums)
    twice, negatives, positives = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = twice / 2 / (negatives * positives)
    return found


@kernel
def _pairs_of_keys(keys: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
    """Keys in order: of equal scores the negatives come first."""
    for row in range(len(keys)):
        twice = negatives = below = positives = 0
        last = -1
        for at in range(keys.shape[1]):
            key = keys[row, at]
            if key >> 1 != last:
                last, below = key >> 1, negatives
            if key & 1:
                twice += below + negatives
                positives += 1
            else:
                negatives += 1
        sums[row, 0], sums[row, 1], sums[row, 2] = twice, negatives, positives
