"""What a backtest found: measures, selections and differences, all from what the replay left in its folder.

`results.json` says the same for the same records and settings, whenever and however often it was interrupted; what
depends on the machine is in `timing.json` beside it.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np

from sluiceway.backtest.differences import differences, sentence
from sluiceway.backtest.known import Phase, against_known
from sluiceway.backtest.measures import Verdicts
from sluiceway.backtest.replay import features_of, labels_of
from sluiceway.backtest.report import REPORT, write_report
from sluiceway.backtest.said import said_by
from sluiceway.backtest.seen_features import keys_in
from sluiceway.backtest.selections import KeptTimelines, Timeline, jaccard, steadiness
from sluiceway.backtest.stream_numbers import names_in
from sluiceway.backtest.variant_lane import finals, folder_of, selections_of
from sluiceway.backtest.variants import Variant
from sluiceway.backtest.window import Window
from sluiceway.errors import SettingsError

RESULTS, TIMING = "results.json", "timing.json"
VERSION = 1
LOWER_IS_BETTER = {
    "error", "churn_per_1000", "n_selected", "ever_selected", "state_bytes", "cpu_us", "features_used", "cost",
}  # fmt: skip
CURVES_OF_STREAMS = 20
"""So many streams, those with the most labels, have curves of their own."""
MEASURES = ("error", "balanced_accuracy", "kappa", "kappa_temporal", "kappa_m", "auc")
KNOWABLE = (
    *MEASURES, "snapshots", "n_selected", "ever_selected", "churn_per_1000", "half_life", "stability", "state_bytes",
    "features_used", "cost", "cpu_us",
)  # fmt: skip
"""What variants can be sorted by; `AGAINST_KNOWN` where the features that matter are known."""
AGAINST_KNOWN = ("precision", "recall")
OF_SELECTIONS = ("n_selected", "stability", "churn_per_1000", "half_life")


@dataclass(frozen=True, slots=True)
class Judging:
    """How to look at what was replayed."""

    window: int = 1000
    fading: float = 0.999
    known: Sequence[Phase] | None = None


def refuse_unknown(measure: str, *, known: bool) -> None:
    """If variants cannot be sorted by it."""
    names = KNOWABLE + (AGAINST_KNOWN if known else ())
    if measure not in names:
        more = "; with --known also precision and recall" if not known else ""
        raise SettingsError(f"there is no measure {measure!r}; there are {', '.join(sorted(names))}{more}")


class Results:
    """A backtest's folder, read."""

    def __init__(
        self,
        folder: Path,
        content: Mapping[str, Any],
        timing: Mapping[str, Any] | None = None,
        kept: KeptTimelines | None = None,
    ) -> None:
        self.folder = folder
        self.content = content
        """As in `results.json`."""
        self.timing = timing or {}
        self._kept = kept or KeptTimelines()

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Of a backtest made earlier."""
        folder = Path(folder)
        if folder.name == RESULTS:
            folder = folder.parent
        try:
            content = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
            if content["backtest"] != VERSION:
                found = content["backtest"]
                raise SettingsError(f"{folder / RESULTS} has version {found}, this program knows {VERSION}")
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise SettingsError(f"{folder} holds no results of a backtest: {problem}") from None
        timing = folder / TIMING
        return cls(folder, content, json.loads(timing.read_text(encoding="utf-8")) if timing.exists() else None)

    @property
    def variants(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.content["variants"]
        return found

    @property
    def sentence(self) -> str:
        """Which variant is best, by how much, and whether that could be chance."""
        return str(self.content["sentence"])

    def measure(self, variant: int, name: str) -> float | None:
        """One of the measures of a variant over all streams, of its selections, or of its costs."""
        own = self.variants[variant]
        timed = self.timing.get("variants", {}).get(str(variant), {})
        for part in (own["measures"], own["selections"], own["costs"], own["known"] or {}, timed):
            if name in part:
                value: float | None = part[name]
                return value
        refuse_unknown(name, known=own["known"] is not None)
        return None  # not in this backtest

    def ranked(self, metric: str) -> list[int]:
        """Numbers of variants, the best first; those that have no such measure last."""
        sign = 1 if metric in LOWER_IS_BETTER else -1

        def key(number: int) -> tuple[bool, float, int]:
            value = self.measure(number, metric)
            return value is None, 0.0 if value is None else sign * value, number

        return sorted(range(len(self.variants)), key=key)

    def best(self, metric: str = "error") -> dict[str, Any]:
        """The best variant by a measure."""
        return self.variants[self.ranked(metric)[0]]

    def rows(self, metric: str | None = None) -> list[dict[str, Any]]:
        """A row a variant, the best first."""
        metric = metric or self.default_metric
        names = list(dict.fromkeys([metric, *MEASURES, *OF_SELECTIONS, "state_bytes"]))
        rows = []
        for number in self.ranked(metric):
            own = self.variants[number]
            timed = self.timing.get("variants", {}).get(str(number), {})
            measures = {name: self.measure(number, name) for name in names}
            rows.append({"variant": number, "label": own["label"], **measures, **own["costs"], **timed})
        return rows

    @property
    def default_metric(self) -> str:
        """Error where something was judged, else how steady the selection was."""
        return "error" if any(own["measures"].get("error") is not None for own in self.variants) else "stability"

    def table(self, metric: str | None = None) -> Any:
        """The rows as a DataFrame where pandas is installed, else as they are."""
        rows = self.rows(metric)
        try:
            import pandas
        except ImportError:
            return rows
        return pandas.DataFrame(rows)

    def timeline(self, stream: str, variant: int | str) -> Timeline:
        """What the variant, given by its number or its label, selected in the stream, snapshot by snapshot."""
        found = self.timelines(self._number_of(variant)).get(stream)
        if found is None:
            raise SettingsError(f"variant {variant} has no snapshots of a stream {stream!r}")
        return found

    def _number_of(self, variant: int | str) -> int:
        for own in self.variants:
            if variant in (own["number"], own["label"]):
                return int(own["number"])
        labels = ", ".join(f"{own['number']} ({own['label']})" for own in self.variants)
        raise SettingsError(f"there is no variant {variant!r}; there are {labels}")

    def report(self, path: str | Path | None = None) -> Path:
        """Write all of it as one page, by default `report.html` in the backtest's folder; where it is."""
        place = self.folder / REPORT if path is None else Path(path)
        write_report(self, place)
        return place

    def timelines(self, variant: int) -> dict[str, Timeline]:
        folder = self.folder
        return self._kept.of(
            variant, lambda: chain(_stored_snapshots(folder, variant), _final_snapshots(folder, variant))
        )


def judge(
    variants: Sequence[Variant],
    window: Window,
    folder: Path,
    about: Mapping[str, Any],
    judging: Judging,
    step: Callable[[], None] = lambda: None,
    kept: KeptTimelines | None = None,
) -> dict[str, Any]:
    """The content of `results.json`, from what the replay left. `step` is called for each variant, and may raise."""
    kept = kept or KeptTimelines()
    classes = len(variants[0].settings.input.classes or (-1, 1))
    names = stream_names(folder, window.lanes)
    features, of_streams = _features(folder, window.lanes)
    found, last, judged = [], [], []
    said = said_by(
        [folder_of(folder, variant.number) for variant in variants],
        [labels_of(folder, lane) for lane in range(window.lanes)],
        [len(_names_of(folder, lane)) for lane in range(window.lanes)],
        classes,
    )
    for variant, own in zip(variants, said, strict=True):
        step()
        size, lines = _ended(variant, window, folder, kept)
        last.append({name: line.selected(len(line) - 1) for name, line in lines.items()})
        costs = {"state_bytes": size, **own.spent}
        verdicts = Verdicts(own.labels, own.score)
        judged.append(verdicts.judged)
        found.append(_variant(variant, lines, verdicts, names, of_streams, judging, costs))
    errors: list[float | None] = [own["measures"]["error"] for own in found]
    known = [number for number, error in enumerate(errors) if error is not None]
    best = min(known, key=lambda number: (errors[number], number)) if known else None
    predicts = any("predictions" in variant.settings.kind.writes for variant in variants)
    compared = [] if best is None else differences(judged, errors, best)
    return {
        "backtest": VERSION,
        **about,
        "versions": _versions(),
        "features": features,
        "streams": len(names),
        "window_of_measures": judging.window,
        "fading": judging.fading,
        "variants": found,
        "best": best,
        "differences": [difference.to_json() for difference in compared],
        "jaccard": _jaccards(last),
        "sentence": sentence([own["label"] for own in found], errors, best, compared, predicts=predicts),
    }


def _ended(
    variant: Variant, window: Window, folder: Path, kept: KeptTimelines
) -> tuple[int, dict[str, Timeline]]:
    """The bytes of a variant's state, and all it selected, its final snapshots made and kept."""
    own = folder_of(folder, variant.number)
    size, ends = 0, []
    for lane in range(window.lanes):
        records, bytes_ = finals(variant, lane, window, own)
        ends += [record.value or b"" for record in records]
        size += bytes_
    (own / "finals.jsonl").write_bytes(b"".join(line + b"\n" for line in ends))
    return size, kept.of(variant.number, lambda: chain(_stored_snapshots(folder, variant.number), ends))


def _variant(
    variant: Variant,
    lines: Mapping[str, Timeline],
    verdicts: Verdicts,
    names: Sequence[str],
    features: Mapping[str, int],
    judging: Judging,
    costs: Mapping[str, float],
) -> dict[str, Any]:
    steady = [steadiness(line, features.get(name, 0)) for name, line in lines.items()]
    counts = verdicts.labels.counts
    per_stream = dict(zip(names, verdicts.by_stream(), strict=True)) if counts.any() else {}
    shown = [at for at in np.argsort(-counts, kind="stable")[:CURVES_OF_STREAMS].tolist() if counts[at]]
    streams = {name: {"selections": one} for name, one in zip(lines, steady, strict=True)}
    for name, measures in per_stream.items():
        streams.setdefault(name, {})["measures"] = measures
    if judging.known is not None:
        for name, line in lines.items():
            streams[name]["known"] = against_known(line, list(judging.known))
    shown = shown if len(shown) > 1 else []
    of_streams = verdicts.curves_of_streams(shown, judging.window, judging.fading)
    settings = variant.settings
    return {
        "number": variant.number,
        "label": variant.label,
        "changes": dict(variant.changes),
        "operator": settings.operator.name,
        "params": settings.make_operator().params,
        "judged": int(counts.sum()),
        "measures": verdicts.summary(),
        "selections": _mean_of(steady),
        "known": _mean_of([one["known"] for one in streams.values() if "known" in one]) or None,
        "costs": costs,
        "streams": streams,
        "curves": verdicts.curves(judging.window, judging.fading),
        "curves_of_streams": dict(zip((names[at] for at in shown), of_streams, strict=True)),
    }


def _mean_of(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Over streams; of what has no meaning in some of them, over the others."""
    found: dict[str, Any] = {}
    for name in parts[0] if parts else ():
        values = [part[name] for part in parts if isinstance(part[name], int | float)]
        if values:
            found[name] = float(np.mean(values))
        elif not any(isinstance(part[name], list) for part in parts):
            found[name] = None
    return found


def stream_names(folder: Path, lanes: int) -> list[str]:
    return [name for lane in range(lanes) for name in _names_of(folder, lane)]


def _names_of(folder: Path, lane: int) -> list[str]:
    return names_in(folder / f"streams-{lane:05d}.txt")


def _features(folder: Path, lanes: int) -> tuple[int, dict[str, int]]:
    """How many different ones there were, and in each stream."""
    keys, of_streams = [], dict[str, int]()
    for lane in range(lanes):
        own, counts = keys_in(features_of(folder, lane))
        keys.append(own)
        of_streams |= zip(_names_of(folder, lane), counts.tolist(), strict=False)  # counts have room for more
    return len(np.unique(np.concatenate(keys))), of_streams


def _stored_snapshots(folder: Path, variant: int) -> Iterator[bytes]:
    topic = selections_of(folder_of(folder, variant))
    for path in sorted(topic.path.glob("part-*.jsonl")):
        with path.open("rb") as file:
            yield from file


def _final_snapshots(folder: Path, variant: int) -> Iterator[bytes]:
    path = folder_of(folder, variant) / "finals.jsonl"
    if path.exists():
        with path.open("rb") as file:
            yield from file


def _jaccards(last: Sequence[Mapping[str, frozenset[str]]]) -> list[list[float]]:
    """Of what two variants have selected at the end, by stream; the mean over streams."""
    return [
        [float(np.mean([jaccard(one[name], other[name]) for name in one if name in other] or [0.0])) for other in last]
        for one in last
    ]


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    import sluiceway

    names = ("numpy", "scipy", "numba")
    return {"sluiceway": sluiceway.__version__, "python": platform.python_version(), **{n: version(n) for n in names}}
