"""Two snapshots, or two backtests, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sluiceway.backtest.results import Results
from sluiceway.backtest.selections import jaccard
from sluiceway.backtest.snapshot_file import Unlike, unlike

_LISTED = frozenset({"selected", "entered", "left", "wanted"})
_ABOUT = (
    "flow", "settings", "source", "streams_chosen", "label_delay", "state", "records", "labelled", "dead_letters",
    "versions",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """A feature's weight or a variant's measure in the one and in the other; None: it is not there."""

    name: str
    one: float | None
    other: float | None

    @property
    def difference(self) -> float:
        return (self.other or 0.0) - (self.one or 0.0)


@dataclass(frozen=True, slots=True)
class Differences:
    pairs: list[Pair]
    """What differs most comes first."""
    places: list[Unlike]
    """What else differs."""
    sentence: str

    def to_json(self) -> dict[str, Any]:
        return {
            "sentence": self.sentence,
            "pairs": [asdict(pair) for pair in self.pairs],
            "places": [place._asdict() for place in self.places],
        }


def of_snapshots(one: Mapping[str, Any], other: Mapping[str, Any]) -> Differences:
    first, second = (
        {entry["feature"]: float(entry["weight"]) for entry in snapshot["selected"]} for snapshot in (one, other)
    )
    both = first.keys() & second.keys()
    alike = jaccard(frozenset(first), frozenset(second))
    sentence = (
        f"{len(both)} features in both, {len(first) - len(both)} only in the first, {len(second) - len(both)} only in"
        f" the second (Jaccard index {alike:.2f})"
    )
    return Differences(_pairs(first, second), _places(one, other, _LISTED), sentence)


def of_results(one: Results, other: Results, metric: str) -> Differences:
    """Of the variants that both have, by their labels."""
    first, second = (
        {own["label"]: results.measure(own["number"], metric) for own in results.variants} for results in (one, other)
    )
    both = first.keys() & second.keys()
    sentence = (
        f"{metric} of {len(both)} variants in both, {len(first) - len(both)} only in the first,"
        f" {len(second) - len(both)} only in the second"
    )
    about, beside = ({name: results.content.get(name) for name in _ABOUT} for results in (one, other))
    return Differences(_pairs(first, second), _places(about, beside, ()), sentence)


def _pairs(one: Mapping[str, float | None], other: Mapping[str, float | None]) -> list[Pair]:
    pairs = [Pair(name, one.get(name), other.get(name)) for name in dict.fromkeys([*one, *other])]
    return sorted(pairs, key=lambda pair: (-abs(pair.difference), pair.name))


def _places(one: Mapping[str, Any], other: Mapping[str, Any], without: Iterable[str]) -> list[Unlike]:
    left_out = frozenset(without)
    first, second = (
        {name: value for name, value in content.items() if name not in left_out} for content in (one, other)
    )
    return list(unlike(first, second))
