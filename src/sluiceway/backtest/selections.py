"""What a variant selected when, from its snapshots, and how steady that was.

    churn_per_1000   features that entered or left between snapshots, for 1,000 versions
    half_life        versions after which half of what was selected has left: the median of the Kaplan-Meier estimate,
                     since what is still selected at the end has not left yet; None: fewer than half have left
    stability        Nogueira, Sechidis, Brown (JMLR 18, 2018): 1 = always the same features, 0 = as by chance.
                     Its interval assumes independent selections, which the snapshots of one stream are not: so it is
                     taken over `BLOCKS` snapshots that lie far apart, and is too narrow all the same
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

import numpy as np
import orjson

BLOCKS = 30
KEPT = 3_000_000
"""Features in snapshots that are kept in memory, about 200 MB of them; what is beyond is read again."""


@dataclass(slots=True)
class Timeline:
    """The snapshots of one stream, in order, as arrays: what was selected at each, and with what weight."""

    stream: str
    versions: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    ts: list[int] = field(default_factory=list)
    n_selected: list[int] = field(default_factory=list)
    indptr: list[int] = field(default_factory=lambda: [0])
    """Where the features of each snapshot begin in the two lists below."""
    features: list[int] = field(default_factory=list)
    """Numbers of names."""
    weights: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """In the order in which they first entered."""
    _numbers: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.versions)

    def add(self, snapshot: Mapping[str, Any]) -> None:
        self.versions.append(snapshot["version"])
        self.seen.append(snapshot["seen"])
        self.ts.append(snapshot["ts"])
        self.n_selected.append(snapshot["n_selected"])
        numbers, known = self._numbers, len(self._numbers)
        self.features += [numbers.setdefault(entry["feature"], len(numbers)) for entry in snapshot["selected"]]
        self.weights += [entry["weight"] for entry in snapshot["selected"]]
        self.names += islice(numbers, known, None)
        self.indptr.append(len(self.features))

    def selected(self, at: int) -> frozenset[str]:
        """The features of a snapshot."""
        return frozenset(self.names[number] for number in self._numbers_at(at))

    def _numbers_at(self, at: int) -> list[int]:
        return self.features[self.indptr[at] : self.indptr[at + 1]]

    def sets(self) -> list[frozenset[int]]:
        return [frozenset(self._numbers_at(at)) for at in range(len(self))]


def timelines(lines: Iterable[bytes]) -> dict[str, Timeline]:
    """By stream, of the snapshots in a partition of a topic."""
    found: dict[str, Timeline] = {}
    for line in lines:
        snapshot = orjson.loads(line)
        stream = snapshot["stream"]
        if stream not in found:
            found[stream] = Timeline(stream)
        found[stream].add(snapshot)
    return found


class KeptTimelines:
    """Of variants, by number: results, report and tables are all made from them, and reading them takes long."""

    def __init__(self) -> None:
        self._found: dict[int, dict[str, Timeline]] = {}
        self._room = KEPT

    def of(self, variant: int, lines: Callable[[], Iterable[bytes]]) -> dict[str, Timeline]:
        """From what is kept, or else from the lines."""
        found = self._found.get(variant)
        if found is None:
            found = timelines(lines())
            cells = sum(len(line.features) for line in found.values())
            if cells <= self._room:
                self._room -= cells
                self._found[variant] = found
        return found


def steadiness(timeline: Timeline, features: int) -> dict[str, Any]:
    """All measures; `features` is how many different ones the stream had."""
    stability, low, high = nogueira(_apart(timeline.sets()), max(features, len(timeline.names)))
    return {
        "snapshots": len(timeline),
        "n_selected": timeline.n_selected[-1] if len(timeline) else 0,
        "ever_selected": len(timeline.names),
        "churn_per_1000": churn(timeline),
        "half_life": half_life(timeline),
        "stability": stability,
        "stability_interval": None if low is None else [low, high],
    }


def churn(timeline: Timeline) -> float | None:
    sets = timeline.sets()
    if len(sets) < 2:
        return None
    changed = sum(len(now ^ before) for before, now in pairwise(sets))
    return 1000 * changed / max(timeline.versions[-1] - timeline.versions[0], 1)


def half_life(timeline: Timeline) -> int | None:
    """Kaplan-Meier over all stays: how long, and whether the feature was seen to leave."""
    stays: list[tuple[int, bool]] = []
    entered: dict[int, int] = {}
    for version, now in zip(timeline.versions, timeline.sets(), strict=True):
        for number in now - entered.keys():
            entered[number] = version
        for number in [number for number in entered if number not in now]:
            stays.append((version - entered.pop(number), True))
    last = timeline.versions[-1] if len(timeline) else 0
    stays += [(last - since, False) for since in entered.values()]
    return median_stay(stays)


def median_stay(stays: Sequence[tuple[int, bool]]) -> int | None:
    """
    >>> median_stay([(1, True), (2, True), (3, False), (4, True)])
    2
    """
    surviving, at_risk = 1.0, len(stays)
    by_length: dict[int, list[bool]] = {}
    for length, left in stays:
        by_length.setdefault(length, []).append(left)
    for length, lefts in sorted(by_length.items()):
        surviving *= 1 - sum(lefts) / at_risk
        if surviving <= 0.5 + 1e-12 and any(lefts):
            return length
        at_risk -= len(lefts)
    return None


def _apart(sets: list[frozenset[int]]) -> list[frozenset[int]]:
    if len(sets) <= BLOCKS:
        return sets
    return [sets[at] for at in np.linspace(0, len(sets) - 1, BLOCKS).round().astype(int)]


def nogueira(sets: Sequence[frozenset[int]], d: int) -> tuple[float | None, float | None, float | None]:
    """The estimate and its interval of 95 %; None where it has no meaning: fewer than two sets, or all or none chosen.

    >>> nogueira([frozenset({0, 1}), frozenset({0, 1})], 4)[0]
    1.0
    """
    m = len(sets)
    sizes = np.array([len(one) for one in sets], dtype=float)
    mean = float(sizes.mean()) if m else 0.0
    if m < 2 or d == 0 or mean in (0.0, float(d)):
        return None, None, None
    chosen: dict[int, int] = {}
    for one in sets:
        for number in one:
            chosen[number] = chosen.get(number, 0) + 1
    p = {number: count / m for number, count in chosen.items()}
    expected = mean / d * (1 - mean / d)
    variance = sum(m / (m - 1) * share * (1 - share) for share in p.values()) / d
    phi = 1 - variance / expected
    each = np.array(
        [
            (
                sum(p[number] for number in one) / d
                - len(one) * mean / d**2
                + phi / 2 * (2 * len(one) * mean / d**2 - len(one) / d - mean / d + 1)
            )
            / expected
            for one in sets
        ]
    )
    spread = 1.959963984540054 * math.sqrt(4 / m**2 * float(((each - each.mean()) ** 2).sum()))
    return phi, phi - spread, phi + spread


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """
    >>> jaccard(frozenset("ab"), frozenset("bc"))
    0.3333333333333333
    """
    union = len(one | other)
    return 1.0 if union == 0 else len(one & other) / union
