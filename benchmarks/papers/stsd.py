"""What the algorithm of the STSD paper gives on its data: mistakes over the OFS authors' 20 orders.

The printed tables come from a program that differs from the paper in seven ways; these are the figures of the algorithm
as written, from a plain reference program. Row t of n sees the first ⌊d (1 + ⌊10 t / n⌋) / 10⌋ of d features, so the
space grows in ten steps. As in the paper each feature is standardised and each row brought to length 1 over all
features before any are hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.data import load, standardised
from benchmarks.papers.tables import Cell, Figure, equal, mistakes, run
from sluiceway.schemas.batch import InstanceBatch

METHODS: dict[str, dict[str, Any]] = {
    "STSD, B = .5": {"variant": 0, "proportion": 0.5},
    "STSD-I, C = .1, B = .2": {"variant": 1, "C": 0.1, "proportion": 0.2},
    "STSD-I, C = .1, B = .5": {"variant": 1, "C": 0.1, "proportion": 0.5},
    "STSD-I, C = .1, B = .8": {"variant": 1, "C": 0.1, "proportion": 0.8},
    "STSD-I, C = 1, B = .2": {"variant": 1, "C": 1.0, "proportion": 0.2},
    "STSD-I, C = 1, B = .5": {"variant": 1, "C": 1.0, "proportion": 0.5},
    "STSD-I, C = 1, B = .8": {"variant": 1, "C": 1.0, "proportion": 0.8},
    "STSD-II, C = .1, B = .5": {"variant": 2, "C": 0.1, "proportion": 0.5},
}
REFERENCE: dict[str, list[Figure]] = {
    "svmguide3": [
        Figure(471.30, 16.83), Figure(397.50), Figure(413.10, 38.79), Figure(418.65),
        Figure(350.75), Figure(357.35, 22.58), Figure(369.85), Figure(369.00, 24.16),
    ],
    "german": [
        Figure(426.10, 16.73), Figure(376.85), Figure(353.40, 11.75), Figure(340.60),
        Figure(386.55), Figure(366.85, 9.90), Figure(359.15), Figure(348.70, 10.67),
    ],
    "splice": [
        Figure(1082.95, 25.79), Figure(1120.05), Figure(1042.80, 24.60), Figure(1002.85),
        Figure(1010.85), Figure(977.70, 27.71), Figure(1000.60), Figure(959.30, 23.14),
    ],
    "spambase": [
        Figure(1097.65, 23.00), Figure(1122.15), Figure(865.25, 40.45), Figure(770.95),
        Figure(968.00), Figure(791.95, 24.20), Figure(764.55), Figure(781.85, 29.51),
    ],
    "magic04": [
        Figure(8061.15, 86.12), Figure(6910.40), Figure(6328.45, 87.33), Figure(6101.00),
        Figure(7042.15), Figure(6557.35, 58.43), Figure(6484.65), Figure(6292.25, 59.96),
    ],
}  # fmt: skip


def growing(X: NDArray[np.float64], slices: int = 10) -> NDArray[np.float64]:
    """The rows with what they do not see yet set to 0."""
    n, d = X.shape
    visible = d * (1 + slices * np.arange(n) // n) // slices
    return np.where(np.arange(d) < np.maximum(visible, 1)[:, None], X, 0.0)


def paper_algorithm(folder: Path | None, runs: int, as_json: bool) -> int:
    def cells_of(folder: Path, data: str, advance: Callable[[], None]) -> Iterator[Cell]:
        found = load(folder / f"{data}.npz")
        X = standardised(found.X)
        counts: dict[str, list[float]] = {method: [] for method in METHODS}
        for order in found.permutations[:runs]:
            batch = InstanceBatch.from_arrays(growing(X[order]), found.y[order])
            for method, params in METHODS.items():
                counts[method].append(mistakes("stsd", params, batch))
                advance()
        for method, reference in zip(METHODS, REFERENCE[data], strict=True):
            yield equal(data, method, counts[method], reference)

    title = f"STSD, the paper's algorithm: mistakes on a space that grows in ten steps, {runs} runs"
    return run(title, list(REFERENCE), folder, as_json, 2, cells_of, runs * len(METHODS))
