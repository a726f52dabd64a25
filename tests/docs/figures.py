"""A figure for each operator, as plain SVG: how it does on a stream whose truth is known."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import numpy as np

from sluiceway.demo import CLASSES, DemoStream
from sluiceway.operators import registry
from sluiceway.operators.stages.scale import scaled
from sluiceway.schemas.batch import InstanceBatch
from tests.docs.generate import FIGURES

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 260, 60, 40, 40
MAILS, DRIFT, WINDOW = 40_000, 20_000, 1000


def draw_all() -> None:
    """Those that are missing: remove one to have it drawn anew."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    records = [
        {"x": record["x"], "y": record["y"] == CLASSES[1]}
        for record in DemoStream(seed=7, drift_every=DRIFT).records(MAILS)
    ]
    batch = InstanceBatch.from_records(records)
    unit = scaled(batch, "l2")
    for name, entry in registry.OPERATORS.items():
        if (FIGURES / f"{name}.svg").exists():
            continue
        params = {"k": 10} if "k" in inspect.signature(entry.cls).parameters else {}
        model = entry.cls(**params)
        if entry.kind == "learner":
            scores = model.prequential(unit)
            wrong = (scores * unit.y <= 0).reshape(-1, WINDOW).mean(axis=1)
            caption = f"{name}: share of wrong predictions, each 1,000 of {MAILS:,} mails; the words drift half-way"
            drawn = curve(caption, [100 * share for share in wrong.tolist()], "%", MAILS)
        elif entry.kind == "column-selector":
            caption = f"{name}: columns selected of those seen; of all 300, 10 tell the class and 10 copy them"
            drawn = curve(caption, _columns(model), "", 300)
        else:
            continue
        (FIGURES / f"{name}.svg").write_text(drawn)


def _columns(model: object) -> list[float]:
    draw = np.random.default_rng(7)
    target = draw.choice([-1, 1], 500)
    telling = [target * draw.uniform(0.4, 0.8) + draw.normal(size=500) for _ in range(10)]
    copies = [column + 0.01 * draw.normal(size=500) for column in telling]
    columns = telling + copies + [draw.normal(size=500) for _ in range(280)]
    model.begin(target)  # type: ignore[attr-defined]
    counts = []
    for number in draw.permutation(300).tolist():
        model.learn_feature(f"c{number}", columns[number])  # type: ignore[attr-defined]
        counts.append(float(len(model.selected)))  # type: ignore[attr-defined]
    return counts


def curve(caption: str, values: Sequence[float], unit: str, steps: int) -> str:
    """One line over a number of steps, the vertical axis from 0."""
    top = max(*values, 1.0)
    top = next(round_ for round_ in (5, 10, 20, 25, 50, 100, 200, 500) if round_ >= top)
    wide, high = WIDTH - LEFT - 20, HEIGHT - TOP - BOTTOM
    points = " ".join(
        f"{LEFT + wide * (place + 1) / len(values):.1f},{TOP + high * (1 - value / top):.1f}"
        for place, value in enumerate(values)
    )
    grid = "".join(
        f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{top * share:g}{unit}</text>'
        for share in (0, 0.5, 1)
        for y in (TOP + high * (1 - share),)
    )
    below = "".join(
        f'<text x="{LEFT + wide * share:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">'
        f"{steps * share:,.0f}</text>"
        for share in (0, 0.5, 1)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 20} {HEIGHT}" font-family="sans-serif"'
        f' font-size="12"><rect width="{WIDTH + 20}" height="{HEIGHT}" fill="white"/>'
        f'<text x="{LEFT}" y="20">{caption}</text>{grid}{below}'
        f'<polyline points="{points}" fill="none" stroke="#1565c0" stroke-width="2"/></svg>\n'
    )
