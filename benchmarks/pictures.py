"""`python -m benchmarks.pictures [--out FOLDER]`: pictures of the joint operators, as plain SVG, for pages and reports.

- `etana-regions.svg`: where in the simplex of beliefs in three classes `etana` goes on, and where it stops for which
  class, after none, one, two and three features (iris);
- `etana-costs.svg`: accuracy against mean features for a sweep of costs, beside naive Bayes with the same bins on all
  features (digits, one half learnt, the other decided).

Both data sets come with scikit-learn.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_iris

from benchmarks.joint import batch
from benchmarks.papers.etana import naive_bayes
from sluiceway.operators.joint.etana import Etana
from sluiceway.operators.joint.f_etana import FEtana
from sluiceway.operators.kernels.joint.stages import Stages, enough, new_scratch

OUT = Path(__file__).parents[1] / "docs" / "operators" / "figures"
SIDE, STEPS, GAP = 200, 60, 30
"""Of a simplex: its side in points, triangles along it, and what is left between two."""
COLOURS = ("#1565c0", "#c62828", "#2e7d32")
GOES_ON = "#e0e0e0"
COSTS = (0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.003, 0.001, 0.0005)
Labels = NDArray[np.int8]


def shuffled(X: NDArray[np.float64], y: NDArray[np.int64]) -> tuple[NDArray[np.float64], Labels]:
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], (y[order] + 1).astype(np.int8)


def regions() -> str:
    found = load_iris()
    X, y = shuffled(found.data, found.target)
    model = Etana(cost=0.02, bins=4, warm_up=len(y))
    model.learn_many(batch(X, y))
    assert model.policy is not None
    stages, names = model.policy.stages, [found.feature_names[int(feature)] for feature in model.order]
    high = SIDE * math.sqrt(0.75)
    parts = []
    for k, name in enumerate(names):
        left = GAP + k * (SIDE + GAP)
        parts.append(f'<text x="{left}" y="30" font-weight="bold">{k} seen, next: {name}</text>')
        parts += _triangles(stages, k, left, 45 + high)
        for label, x, height in zip(found.target_names, (0, 1, 0.5), (0, 0, 1), strict=True):
            below = 45 + high * (1 - height) + (15 if height == 0 else -4)
            anchor = ("start", "end", "middle")[(0, 1, 0.5).index(x)]
            parts.append(f'<text x="{left + SIDE * x:.1f}" y="{below:.1f}" text-anchor="{anchor}">{label}</text>')
    return _svg(GAP + len(names) * (SIDE + GAP), 45 + high + 30, parts)


def _triangles(stages: Stages, k: int, left: float, bottom: float) -> list[str]:
    """Each small triangle by the belief in its middle; those of a row that are alike are one shape."""
    drawn = []
    for row in range(STEPS):
        runs: list[tuple[str, int, int]] = []
        for at in range(2 * (STEPS - row) - 1):
            inside = (1 + at % 2) / 3  # even ones stand on their side, odd ones on their point
            second, third = (at // 2 + inside) / STEPS, (row + inside) / STEPS
            q = np.array((1 - second - third, second, third))
            colour = COLOURS[int(q.argmax())] if enough(stages, k, q, new_scratch()) else GOES_ON
            if runs and runs[-1][0] == colour:
                runs[-1] = colour, runs[-1][1], at
            else:
                runs.append((colour, at, at))
        drawn += [_shape(colour, row, first, last, left, bottom) for colour, first, last in runs]
    return drawn


def _shape(colour: str, row: int, first: int, last: int, left: float, bottom: float) -> str:
    """From the first to the last triangle of a row."""

    def place(step: float, level: int) -> str:
        x = left + SIDE * (step + level / 2) / STEPS
        return f"{x:.1f},{bottom - SIDE * math.sqrt(0.75) * level / STEPS:.1f}"

    below = (first + 1) // 2, last // 2 + 1
    above = first // 2, (last + 1) // 2
    corners = (place(below[0], row), place(below[1], row), place(above[1], row + 1), place(above[0], row + 1))
    return f'<polygon points="{" ".join(corners)}" fill="{colour}" stroke="{colour}" stroke-width="0.3"/>'


def costs() -> str:
    X, y = shuffled(*load_digits(return_X_y=True))
    half = len(y) // 2
    train, test = batch(X[:half], y[:half]), batch(X[half:], y[half:])
    curves: dict[str, list[tuple[float, float]]] = {}
    variants: dict[str, Callable[..., Any]] = {
        "etana": Etana, "f-etana": FEtana, "f-etana, tree": partial(FEtana, dependence="tree"),
    }  # fmt: skip
    for name, new in variants.items():
        for cost in COSTS:
            model = new(cost=cost, bins=4, warm_up=half)
            model.learn_many(train)
            decisions = model.classify(test)
            right = float((decisions.label == test.y).mean())
            curves.setdefault(name, []).append((float(decisions.used.mean()), right))
    bayes = naive_bayes(X, y, 4, len(y), warm_up=half)
    return _curves(curves, bayes, X.shape[1])


def _curves(curves: dict[str, list[tuple[float, float]]], bayes: float, features: int) -> str:
    left, top, wide, high = 60, 45, 620, 260
    most = 5 * math.ceil(max(used for points in curves.values() for used, _ in points) / 5)
    least = math.floor(10 * min(right for points in curves.values() for _, right in points)) / 10

    def place(used: float, right: float) -> tuple[float, float]:
        return left + wide * used / most, top + high * (1 - right) / (1 - least)

    parts = [f'<text x="{left}" y="20" font-weight="bold">digits: accuracy against mean features, cost by cost</text>']
    for share in range(6):
        right = least + (1 - least) * share / 5
        _, y = place(0, right)
        parts.append(f'<line x1="{left}" x2="{left + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{right:.2f}</text>')
        used = most * share / 5
        parts.append(
            f'<text x="{place(used, 0)[0]:.1f}" y="{top + high + 20}" text-anchor="middle">{used:.0f}</text>'
        )
    _, y = place(0, bayes)
    parts.append(
        f'<line x1="{left}" x2="{left + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#666" stroke-dasharray="5 4"/>'
        f'<text x="{left + 4}" y="{y - 5:.1f}">naive Bayes on all {features} features</text>'
    )
    for number, ((name, points), colour) in enumerate(zip(curves.items(), COLOURS, strict=True)):
        spots = [place(*point) for point in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
        parts.append(f'<text x="{left + wide - 130}" y="{top + high - 60 + 18 * number}" fill="{colour}">{name}</text>')
    return _svg(left + wide + 30, top + high + 40, parts)


def _svg(wide: float, high: float, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" font-family="sans-serif"'
        f' font-size="12"><rect width="{wide:.0f}" height="{high:.0f}" fill="white"/>{"".join(parts)}</svg>\n'
    )


PICTURES = {"etana-regions": regions, "etana-costs": costs}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="where to write them")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        path = given.out / f"{name}.svg"
        path.write_text(draw())
        print(f"written: {path}")


if __name__ == "__main__":
    main()
