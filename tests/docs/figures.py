"""A figure for each operator, as plain SVG, on real data: the spambase mails for what learns from instances, the
columns of dexter for what learns from columns. Both are read from where they are, as `benchmarks.papers` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.data import load, standardised
from benchmarks.papers.saola import parts
from sluiceway.operators import registry
from sluiceway.operators.kinds.column_selector import COLUMN_SELECTOR
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.operators.parameters import parameters_of
from sluiceway.schemas.batch import InstanceBatch
from tests.docs.generate import FIGURES

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, GAP = 760, 250, 60, 40, 60, 80
STEPS = 100
"""Points of a curve over instances."""
K = 6
"""A tenth of spambase's features, as in the paper's tables."""


class Curve(NamedTuple):
    title: str
    values: Sequence[float]
    over: int
    """Instances or columns that the curve runs over."""
    unit: str = ""


def draw_all(data: Path) -> None:
    """Those that are missing: remove one to have it drawn anew."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    missing = [name for name in registry.OPERATORS if not (FIGURES / f"{name}.svg").exists()]
    mails = _mails(data / "spambase.npz") if missing else None
    for name in missing:
        entry = registry.OPERATORS[name]
        if entry.kind is COLUMN_SELECTOR:
            drawn = figure(f"{name} on dexter: 300 texts, 20,000 columns one by one", _over_columns(entry.cls, data))
        else:
            drawn = figure(f"{name} on spambase: 4,601 mails, 56 features", _over_instances(entry, mails))
        (FIGURES / f"{name}.svg").write_text(drawn)


def _mails(path: Path) -> InstanceBatch:
    found = load(path)
    order = found.permutations[0]
    return InstanceBatch.from_arrays(standardised(found.X)[order], found.y[order])


def _over_instances(entry: registry.Entry, mails: InstanceBatch | None) -> list[Curve]:
    assert mails is not None
    k = parameters_of(entry.cls).get("k")
    model: Any = entry.cls(k=K) if k is not None and k.required else entry.cls()
    ends = np.linspace(0, len(mails), STEPS + 1).astype(int)[1:].tolist()
    scores, wrong, selected, start = np.zeros(len(mails)), [], [], 0
    for stop in ends:
        if entry.kind is LEARNER:
            model.advance(mails, start, stop, scores)
            wrong.append(100 * float(np.mean(scores[:stop] * mails.y[:stop] <= 0)))
        else:
            model.learn_many(mails.slice(start, stop))
        selected.append(float(len(model.selected)))
        start = stop
    count = Curve("features selected, over mails seen", selected, len(mails))
    return [Curve("wrong predictions so far, over mails seen", wrong, len(mails), "%"), count] if wrong else [count]


def _over_columns(cls: Any, data: Path) -> list[Curve]:
    train, _ = next(parts(data / "dexter.npz", "dexter"))
    columns = train.X.toarray().T.astype(np.float64)
    model = cls()
    model.begin(train.y)
    counts, start = [], 0
    for stop in np.linspace(0, len(columns), STEPS + 1).astype(int)[1:].tolist():
        model.learn_features([*map(str, range(start, stop))], columns[start:stop])
        counts.append(float(len(model.selected)))
        start = stop
    return [Curve("columns selected, over columns seen", counts, len(columns))]


def figure(caption: str, curves: Sequence[Curve]) -> str:
    """Panels side by side, each one line, the vertical axis from 0."""
    wide = (WIDTH - LEFT - 20 - GAP * (len(curves) - 1)) / len(curves)
    panels = "".join(_panel(curve, LEFT + number * (wide + GAP), wide) for number, curve in enumerate(curves))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        f' font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        f'<text x="{LEFT}" y="20" font-weight="bold">{caption}</text>{panels}</svg>\n'
    )


def _panel(curve: Curve, left: float, wide: float) -> str:
    top = max(*curve.values, 1.0)
    top = next(nice for nice in (1, 2, 5, 10, 20, 25, 50, 60, 100, 200, 500, 1000, 2000, 5000) if nice >= top)
    high = HEIGHT - TOP - BOTTOM
    points = " ".join(
        f"{left + wide * (place + 1) / len(curve.values):.1f},{TOP + high * (1 - value / top):.1f}"
        for place, value in enumerate(curve.values)
    )
    grid = "".join(
        f'<line x1="{left:.1f}" x2="{left + wide:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{top * share:g}{curve.unit}</text>'
        for share in (0, 0.5, 1)
        for y in (TOP + high * (1 - share),)
    )
    below = "".join(
        f'<text x="{left + wide * share:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">'
        f"{curve.over * share:,.0f}</text>"
        for share in (0, 0.5, 1)
    )
    return (
        f'<text x="{left:.1f}" y="{TOP - 14}">{curve.title}</text>{grid}{below}'
        f'<polyline points="{points}" fill="none" stroke="#1565c0" stroke-width="2"/>'
    )
