"""Made instances for the laws: the shapes that break learners, by seed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

from sluiceway.schemas.batch import InstanceBatch

SHAPES = ("sparse", "dense", "growing", "binary", "cancelling", "huge")

Record = dict[str, Any]


def stream(shape: str, seed: int, rows: int = 40, unlabelled: float = 0.2) -> list[Record]:
    """Records as on a topic; some have no label, some no feature at all."""
    rng = np.random.default_rng(seed)
    names = [*map(str, range(12)), "free", "läng", "価格", "007", "-1", "1e3", "x" * 40, " "]
    records: list[Record] = []
    for row in range(rows):
        if shape == "dense":
            present = list(range(len(names)))
        elif shape == "growing":
            names.append(f"word-{row}")
            present = [len(names) - 1, *rng.choice(len(names) - 1, size=3, replace=False).tolist()]
        else:
            present = rng.choice(len(names), size=rng.integers(0, 9), replace=False).tolist()
        values: list[float]
        if shape in ("binary", "cancelling"):
            values = [1.0] * len(present)
        elif shape == "huge":
            values = (rng.normal(size=len(present)) * 10.0 ** rng.integers(-300, 308, len(present))).tolist()
        else:
            values = rng.normal(size=len(present)).tolist()
        x = {names[at]: value for at, value in zip(present, values, strict=True)}
        y = None if rng.random() < unlabelled else int(rng.choice([-1, 1]))
        if shape == "cancelling" and row % 2:
            x, y = dict(records[-1]["x"]), None if records[-1]["y"] is None else -records[-1]["y"]
        records.append({"x": x, "y": y})
    return records


def long_stream(seed: int, rows: int = 3000, names: int = 4000, nnz: int = 30) -> InstanceBatch:
    """So many rows and names that all is reached that a model does but seldom; a few names are in most rows."""
    rng = np.random.default_rng(seed)
    rank = np.floor(names ** rng.random((rows, nnz))).astype(np.int64) - 1  # Zipf: log-uniform
    columns = [rng.permutation(np.unique(row)) for row in rank]
    indptr = np.cumsum([0, *map(len, columns)])
    y = rng.choice([-1, 0, 1], p=[0.45, 0.1, 0.45], size=rows)
    named = tuple(f"w{name}" for name in range(names))
    return InstanceBatch.from_csr(indptr, np.concatenate(columns), rng.normal(size=indptr[-1]), y, names=named)


def alone(batch: InstanceBatch, start: int, stop: int) -> InstanceBatch:
    """Rows as a batch of their own, which has no name but theirs."""
    piece = batch.slice(start, stop)
    used, indices = np.unique(piece.indices, return_inverse=True)
    names = tuple(piece.names[at] for at in used)
    return InstanceBatch.from_csr(piece.indptr, indices, piece.values, piece.y, names=names)


def split(records: list[Record], seed: int) -> Iterator[list[Record]]:
    """The same records in pieces of random sizes."""
    rng = np.random.default_rng(seed)
    at = 0
    while at < len(records):
        size = int(rng.choice([1, 1, 2, 5, 17]))
        yield records[at : at + size]
        at += size


def batch_of(records: list[Record]) -> InstanceBatch:
    return InstanceBatch.from_records(records)


def budget(learner: Any, k: int) -> dict[str, Any]:
    """What makes it select about k of the 20 names above: a count, or else a proportion of the features seen."""
    counted = "k" in inspect.signature(learner).parameters
    return {"k": k} if counted else {"proportion": min(1.0, k / 20)}


def allowed(params: dict[str, Any], features_seen: int) -> int:
    """How many features may be selected."""
    if "k" in params:
        return int(params["k"])
    if "keep" in params or params["selection"] == "all":
        return features_seen
    return max(1, int(params["proportion"] * features_seen + 1e-9))
