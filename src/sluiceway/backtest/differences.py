"""Which variant is better, by how much, and whether that could be chance.

Variants are judged on the same instances, so what counts is the difference on each. Neighbouring instances are alike,
so whole blocks of them are drawn again: a paired block bootstrap, a block about the square root of their number long.
Over six streams or more also Wilcoxon's signed-rank test, a stream an observation. Every variant is compared with the
best one, and the probabilities are raised for that (Holm).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from sluiceway.backtest.measures import Judged, Labels

DRAWS = 2000
SEED = 20180101
LEVEL = 0.05
STREAMS_NEEDED = 6


@dataclass(frozen=True, slots=True)
class Difference:
    """Of a variant's error, less the best one's."""

    variant: int
    error: float
    low: float
    high: float
    """Between these with 95 %."""
    p: float
    """By the bootstrap, as if nothing else had been compared; `holm` is the one to trust."""
    holm: float
    wilcoxon: float | None

    @property
    def chance(self) -> bool:
        """Whether it could well be chance."""
        return self.holm > LEVEL

    def to_json(self) -> dict[str, Any]:
        return {
            "variant": self.variant, "error": self.error, "low": self.low, "high": self.high, "p": self.p,
            "holm": self.holm, "wilcoxon": self.wilcoxon, "could_be_chance": self.chance,
        }  # fmt: skip


def differences(judged: Sequence[Judged], errors: Sequence[float | None], best: int) -> list[Difference]:
    """Of all others to the best, for those that were judged on the same instances."""
    found: list[tuple[int, float, float | None]] = []
    sums: dict[int, dict[int, NDArray[np.float64]]] = {}
    """Of blocks, by how many differences there are and by variant."""
    reference = judged[best]
    for number, own in enumerate(judged):
        if number == best or errors[number] is None:
            continue
        stream, one, other = _aligned(own, reference)
        if not len(one):
            continue
        wrong = other.astype(float) - one
        sums.setdefault(len(wrong), {})[number] = _blocks(wrong)
        found.append((number, float(wrong.mean()), _over_streams(stream, wrong)))
    drawn = {
        number: interval
        for n, own in sums.items()
        for number, interval in zip(own, _intervals(n, [*own.values()]), strict=True)
    }
    raised = holm([drawn[number][2] for number, *_ in found])
    return [
        Difference(number, error, *drawn[number], adjusted, over)
        for (number, error, over), adjusted in zip(found, raised, strict=True)
    ]


def _aligned(one: Judged, other: Judged) -> tuple[NDArray[np.uint32], NDArray[np.bool_], NDArray[np.bool_]]:
    """The streams of instances that both were judged on, and whether either was right; all of them, unless one forgot
    waiting instances that the other kept."""
    labels = one.labels
    if labels is other.labels or np.array_equal(labels.offset, other.labels.offset):
        return labels.stream, one.right, other.right
    at = {key: row for row, key in enumerate(_keys(other.labels))}
    both = [(row, at[key]) for row, key in enumerate(_keys(labels)) if key in at]
    rows = [row for row, _ in both]
    return labels.stream[rows], one.right[rows], other.right[[row for _, row in both]]


def _keys(labels: Labels) -> list[tuple[int, int]]:
    return list(zip(labels.stream.tolist(), labels.offset.tolist(), strict=True))


def bootstrap(each: NDArray[np.float64]) -> tuple[float, float, float]:
    """The interval of 95 % of the mean of paired differences, and the probability of its sign being chance."""
    return _intervals(len(each), [_blocks(each)])[0]


def _blocks(each: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of each block."""
    sums: NDArray[np.float64] = np.add.reduceat(each, np.arange(0, len(each), _length(len(each))))
    return sums


def _length(n: int) -> int:
    return max(math.isqrt(n), 1)


def _intervals(n: int, sums: Sequence[NDArray[np.float64]]) -> list[tuple[float, float, float]]:
    """Of all variants that have `n` differences: the draws are large, and are gone through once."""
    times, sizes = _draws(n, _length(n))
    means = times @ np.array(sums).T / sizes[:, None]
    lows, highs = np.quantile(means, (0.025, 0.975), axis=0)
    least = np.minimum(np.count_nonzero(means <= 0, axis=0), np.count_nonzero(means >= 0, axis=0))
    p = np.minimum(2 * ((least + 1) / (DRAWS + 1)), 1.0)
    return list(zip(lows.tolist(), highs.tolist(), p.tolist(), strict=True))


@lru_cache(maxsize=1)
def _draws(n: int, length: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How often each block is in each draw, and how many instances a draw has; the same for all variants."""
    sizes = np.diff(np.append(np.arange(0, n, length), n))
    drawn = np.random.default_rng(SEED).integers(0, len(sizes), (DRAWS, len(sizes)))
    drawn += len(sizes) * np.arange(DRAWS)[:, None]
    times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)
    return times, times @ sizes


def holm(p: Sequence[float]) -> list[float]:
    """
    >>> holm([0.01, 0.04, 0.5])
    [0.03, 0.08, 0.5]
    """
    adjusted, least = [0.0] * len(p), 0.0
    for rank, at in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        least = max(least, min((len(p) - rank) * p[at], 1.0))
        adjusted[at] = least
    return adjusted


def _over_streams(stream: NDArray[np.uint32], wrong: NDArray[np.float64]) -> float | None:
    counts = np.bincount(stream)
    means = np.bincount(stream, weights=wrong)[counts > 0] / counts[counts > 0]
    if len(means) < STREAMS_NEEDED or not means.any():
        return None
    return float(wilcoxon(means).pvalue)


def sentence(
    labels: Sequence[str],
    errors: Sequence[float | None],
    best: int | None,
    found: Sequence[Difference],
    *,
    predicts: bool = True,
) -> str:
    """For people. `predicts`: whether the operators say anything that could be right or wrong."""
    if not predicts:
        return "nothing is predicted here that could be wrong: what tells variants apart is how steady they select"
    if best is None:
        return "no variant was judged: no label came for any instance"
    error = errors[best]
    assert error is not None
    equal = [labels[difference.variant] for difference in found if errors[difference.variant] == error]
    found = [difference for difference in found if errors[difference.variant] != error]
    if equal:
        first = ", ".join([labels[best], *equal[:-1]])
        what = f"{first} and {equal[-1]} are equally good, with {100 * error:.2f} % of the predictions of each wrong"
    else:
        what = f"{labels[best]} is best, with {100 * error:.2f} % of its predictions wrong"
    if not found:
        return what
    near = min(found, key=lambda difference: difference.error)
    low, middle, high = (f"{100 * points:.2f}" for points in (near.low, near.error, near.high))
    points = f"{middle} points ({low} to {high}) fewer than {labels[near.variant]}"
    tied = [labels[difference.variant] for difference in found if difference.chance]
    if not tied:
        return f"{what}, {points}; for no other variant could the difference well be chance"
    named = ", ".join([*tied[:3], *(["..."] if len(tied) > 3 else [])])
    others = tied[0] if len(tied) == 1 else f"{len(tied)} others ({named})"
    lead = "their" if equal else "its"
    return f"{what}, {points}; but {lead} lead over {others} could well be chance"
