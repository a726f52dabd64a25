"""Every learner on rows that are arrays already, one stream: CPU time of a row, decoding and naming left out.

Batches of 1,000 rows with 20 non-zeros of 200 names share one tuple of names, and have been bound to it before; ofs
also with 100 non-zeros of 10,000 names, where it holds more. Labels are random.
Run with `python -m benchmarks arrays`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import Result, cpu_seconds_of, median
from sluiceway.operators import registry
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.schemas.batch import InstanceBatch

ROWS, BATCHES, ROUNDS = 1000, 20, 15
FEW, MANY = (200, 20), (10_000, 100)
"""Names, and non-zeros of a row."""


def batches(names: int, non_zeros: int) -> list[InstanceBatch]:
    rng = np.random.default_rng(0)
    width, named = names // non_zeros, tuple(map(str, range(names)))
    indptr = np.arange(ROWS + 1) * non_zeros
    made = []
    for _ in range(BATCHES):
        columns = rng.integers(0, width, (ROWS, non_zeros)) + np.arange(non_zeros) * width
        values = rng.normal(size=columns.shape)
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        y = rng.choice([-1, 1], size=ROWS)
        made.append(InstanceBatch.from_csr(indptr, columns.ravel(), values.ravel(), y, names=named))
    return made


def learning(name: str, params: dict[str, Any], given: list[InstanceBatch]) -> Callable[[], None]:
    learner: Any = registry.learner(name)
    learner.compile()
    model = learner(**params)

    def run() -> None:
        for batch in given:
            model.prequential(batch)

    run()
    return run


def main(rounds: int = ROUNDS) -> list[Result]:
    few, many = batches(*FEW), batches(*MANY)
    runs: dict[tuple[str, str, int], Callable[[], None]] = {}
    for name, entry in registry.OPERATORS.items():
        if entry.kind is LEARNER:
            params = {"k": 10} if registry.needs(name, "k") else {}
            runs[name, "10" if params else "", FEW[1]] = learning(name, params, few)
    for k in (10, 100, 3000):
        runs["ofs", f"{k}", MANY[1]] = learning("ofs", {"k": k}, many)
    times: dict[Any, list[float]] = {what: [] for what in runs}
    for _ in range(rounds):
        for what, run in runs.items():
            times[what].append(cpu_seconds_of(run) * 1e6 / ROWS / BATCHES)
    result = Result("Arrays: CPU µs a row of the learner alone, batches of 1,000")
    for (name, k, non_zeros), taken in times.items():
        result.rows.append(
            {"learner": name, "k": k, "non-zeros": non_zeros, "median µs": median(taken), "least µs": min(taken)}
        )
    return [result]
