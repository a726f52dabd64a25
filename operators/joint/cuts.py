"""Where a feature's values are cut into bins: x is in the bin whose number is how many cuts it is above.

The rows that a feature is absent from count as 0 without being there, so a column with few non-zeros costs what it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINNINGS = ("quantiles", "widths")


def given_cuts(binning: Mapping[str, Sequence[float]], bins: int) -> dict[str, tuple[float, ...]]:
    """Cuts that were given, checked: `ValueError` naming the feature."""
    checked = {}
    for name, cuts in binning.items():
        if isinstance(cuts, str) or not isinstance(cuts, Sequence) or not all(map(_is_number, cuts)):
            raise ValueError(f"binning: the cuts of {name!r} must be a list of finite numbers, not {cuts!r}")
        if len(cuts) > bins - 1 or any(a >= b for a, b in pairwise(cuts)):
            raise ValueError(f"binning: the cuts of {name!r} must rise, and be at most {bins - 1} for {bins} bins")
        checked[name] = tuple(map(float, cuts))
    return checked


def cuts_of(
    binning: str, bins: int, first: NDArray[np.int64], values: NDArray[np.float64], zeros: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The cuts of several features, a row each: bins of equal shares of the values, or of equal widths.

    `values[first[i]:first[i + 1]]` are the non-zero ones of feature i in ascending order; 0 comes `zeros[i]` times.
    """
    start, stop = first[:-1], first[1:]
    positive = np.concatenate(([0], np.cumsum(values > 0)))
    negative = stop - start - (positive[stop] - positive[start])
    padded = np.append(values, 0.0)

    def at(rank: NDArray[np.int64]) -> NDArray[np.float64]:
        """The value of that rank, from 0."""
        place = start + rank - np.where(rank >= negative + zeros, zeros, 0)
        is_zero = (rank >= negative) & (rank < negative + zeros)
        return np.where(is_zero, 0.0, padded[np.where(is_zero, len(values), place)])

    last = np.maximum(stop - start + zeros - 1, 0)
    cuts = np.empty((len(start), bins - 1))
    if binning == "widths":
        least, most = at(np.zeros_like(last)), at(last)
        for j in range(1, bins):
            cuts[:, j - 1] = least + (most - least) * (j / bins)
        return cuts
    for j in range(1, bins):
        low = last * j // bins
        share = (last * j % bins) / bins
        below, above = at(low), at(np.minimum(low + 1, last))
        cuts[:, j - 1] = below + (above - below) * share
    return cuts


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)
