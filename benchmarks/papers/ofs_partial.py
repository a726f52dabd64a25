"""Table 3 of the OFS paper (partial input: mistakes) and Table 5 (Colon: mistake rates by fraction of features).

Table 3 was made with m = 0, learning from mistakes only; the algorithm as listed has m = 1 and is shown beside it.
All runs draw random numbers of their own; Colon's orders are our own too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.data import load, standardised
from benchmarks.papers.tables import Cell, Figure, compared, mistakes, run
from sluiceway.schemas.batch import InstanceBatch

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "RAND": ("perceptron-partial", {"selection": "random"}),
    "PE_rand": ("perceptron-partial", {"selection": "largest"}),
    "OFS_rand": ("ofs-partial", {"input": "random", "margin": 0}),
    "OFS_P, m = 0": ("ofs-partial", {"margin": 0}),
    "OFS_P, m = 1": ("ofs-partial", {"margin": 1}),
}
PRINTED: dict[str, list[tuple[float, float]]] = {
    "svmguide3": [(1229.7, 5.2), (1112.3, 11.4), (1112.3, 16.9), (701.5, 42.5)],
    "german": [(991.0, 3.4), (918.3, 7.8), (924.0, 8.4), (589.3, 33.9)],
    "magic04": [(18908.3, 11.8), (17939.6, 45.2), (17948.7, 37.3), (10274.2, 172.1)],
    "splice": [(3066.9, 8.1), (2361.7, 29.1), (2361.3, 26.9), (1418.1, 70.5)],
    "spambase": [(4408.8, 12.8), (3275.4, 40.4), (3278.6, 31.2), (1954.2, 78.7)],
    "a8a": [(30089.1, 43.0), (21431.8, 653.6), (21575.3, 728.3), (16931.0, 164.6)],
}
REFERENCE: dict[str, list[Figure]] = {
    "svmguide3": [Figure(1228.8), Figure(1106.4), Figure(1106.4), Figure(712.7, 43.6), Figure(698.1, 37.8)],
    "german": [Figure(992.9), Figure(924.9), Figure(924.9), Figure(588.9, 25.7), Figure(575.5, 30.5)],
    "magic04": [Figure(18905), Figure(17944), Figure(17944), Figure(10343, 122), Figure(10294, 115)],
    "splice": [Figure(3061.4), Figure(2363.9), Figure(2363.9), Figure(1421.4, 78.5), Figure(1130.4, 56.9)],
    "spambase": [Figure(4409.3), Figure(3282.5), Figure(3282.5), Figure(1930.2, 91.9), Figure(1854.9, 95.0)],
    "a8a": [Figure(30096), Figure(21516), Figure(21516), Figure(16976, 154), Figure(16238, 28)],
}

COLON = ("perceptron-random", "perceptron-truncated", "ofs")
TABLE_5: dict[float, tuple[tuple[float, float], ...]] = {
    0.01: ((0.496, 0.061), (0.406, 0.060), (0.362, 0.068)),
    0.02: ((0.485, 0.075), (0.391, 0.048), (0.325, 0.053)),
    0.04: ((0.512, 0.050), (0.366, 0.045), (0.337, 0.066)),
    0.08: ((0.496, 0.056), (0.361, 0.046), (0.334, 0.053)),
    0.16: ((0.506, 0.075), (0.375, 0.052), (0.341, 0.055)),
    0.32: ((0.508, 0.060), (0.372, 0.035), (0.347, 0.055)),
    0.64: ((0.457, 0.046), (0.391, 0.040), (0.350, 0.059)),
}
COLON_REFERENCE = {
    0.01: (None, 0.386, 0.352), 0.02: (None, 0.390, 0.327), 0.04: (None, 0.383, 0.314), 0.08: (None, 0.379, 0.320),
    0.16: (None, 0.381, 0.337), 0.32: (None, 0.386, 0.360), 0.64: (None, 0.387, 0.377),
}  # fmt: skip


def table_3(folder: Path | None, runs: int, as_json: bool) -> int:
    def cells_of(folder: Path, data: str, advance: Callable[[], None]) -> Iterator[Cell]:
        found = load(folder / f"{data}.npz")
        X = standardised(found.X)
        k = max(1, round(0.1 * X.shape[1]))
        counts: dict[str, list[float]] = {method: [] for method in METHODS}
        for seed, order in enumerate(found.permutations[:runs]):
            batch = InstanceBatch.from_arrays(X[order], found.y[order])
            for method, (operator, params) in METHODS.items():
                counts[method].append(mistakes(operator, {"k": k, "seed": seed, **params}, batch))
                advance()
        printed = [Figure(*pair) for pair in PRINTED[data]] + [None]
        for method, paper, reference in zip(METHODS, printed, REFERENCE[data], strict=True):
            yield compared(data, method, counts[method], paper=paper, reference=reference)

    title = f"OFS, Table 3: mistakes with partial input, {runs} runs"
    return run(title, list(PRINTED), folder, as_json, 1, cells_of, runs * len(METHODS))


def table_5(folder: Path | None, runs: int, as_json: bool) -> int:
    def cells_of(folder: Path, data: str, advance: Callable[[], None]) -> Iterator[Cell]:
        with np.load(folder / f"{data}.npz") as arrays:
            X, y = standardised(arrays["X"].astype(np.float64)), arrays["y"].astype(np.int8)
        batches = []
        for seed in range(runs):
            order = np.random.default_rng(seed).permutation(len(y))
            batches.append(InstanceBatch.from_arrays(X[order], y[order]))
        for fraction, printed in TABLE_5.items():
            k = max(1, round(fraction * X.shape[1]))
            for operator, (mean, sd), known in zip(COLON, printed, COLON_REFERENCE[fraction], strict=True):
                rates = []
                for seed, batch in enumerate(batches):
                    params = {"k": k, "seed": seed} if operator == "perceptron-random" else {"k": k}
                    rates.append(mistakes(operator, params, batch) / len(y))
                    advance()
                method = {"ofs": "OFS", "perceptron-truncated": "PE_trun"}.get(operator, "RAND")
                reference = None if known is None else Figure(known)
                yield compared(
                    f"{data} {fraction:g}", method, rates, paper=Figure(mean, sd), reference=reference
                )

    title = f"OFS, Table 5: mistake rates on Colon by fraction of features, {runs} runs"
    return run(title, ["colon"], folder, as_json, 3, cells_of, runs * len(COLON) * len(TABLE_5))
