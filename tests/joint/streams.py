"""Rows for the joint operators: features that tell something of the class, sparse or dense, with and without nulls."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.batch import InstanceBatch

SHAPES = ("dense", "sparse", "unlabelled", "nulls", "late", "many classes")


class Record(NamedTuple):
    x: dict[str, float | None]
    y: int
    """0: no label."""


def stream(shape: str, seed: int, rows: int = 160, features: int = 9) -> list[Record]:
    rng = np.random.default_rng(seed)
    classes = [1, 2, 3, 4] if shape == "many classes" else [-1, 1]
    y = rng.choice(classes, rows)
    told = rng.normal(size=(features, len(classes))) * rng.choice([0.1, 1.0], (features, 1))
    records = []
    for row in range(rows):
        values = rng.normal(size=features) + told[:, classes.index(y[row])]
        if shape == "sparse":
            values[rng.random(features) < 0.7] = 0
        x: dict[str, float | None] = {}
        for f in rng.permutation(features).tolist():
            if shape == "late" and f >= 3 and row < 30 * f:
                continue
            if shape == "sparse" and values[f] == 0 and rng.random() < 0.9:
                continue
            x[name(f)] = None if shape == "nulls" and rng.random() < 0.2 else round(float(values[f]), 2)
        label = 0 if shape == "unlabelled" and rng.random() < 0.4 else int(y[row])
        records.append(Record(x, label))
    return records


def name(feature: int) -> str:
    return str(feature) if feature % 2 else f"f{feature}"


def batch_of(records: list[Record]) -> InstanceBatch:
    """As a decoder hands them over: null is NaN."""
    index: dict[str, int] = {}
    indptr, indices, values = [0], [], []
    for record in records:
        for feature, value in record.x.items():
            indices.append(index.setdefault(feature, len(index)))
            values.append(np.nan if value is None else value)
        indptr.append(len(indices))
    return made(indptr, indices, values, [record.y for record in records], tuple(index))


def dense(X: NDArray[np.float64], y: Any) -> InstanceBatch:
    """Every value present."""
    rows, features = X.shape
    indptr = np.arange(0, rows * features + 1, features)
    return made(indptr, np.tile(np.arange(features), rows), X.ravel(), y, tuple(map(str, range(features))))


def made(indptr: Any, indices: Any, values: Any, y: Any, names: tuple[str, ...]) -> InstanceBatch:
    order = np.arange(len(y), dtype=np.int64)
    return InstanceBatch(
        names, np.array(indptr, dtype=np.int64), np.array(indices, dtype=np.int32), np.array(values, dtype=np.float64),
        np.array(y, dtype=np.int8), order, order, order + 1,
    )  # fmt: skip


def split(records: list[Record], seed: int) -> list[list[Record]]:
    rng = np.random.default_rng(seed)
    cuts = sorted(rng.integers(0, len(records) + 1, size=8).tolist())
    return [records[a:b] for a, b in zip([0, *cuts], [*cuts, len(records)], strict=True)]
