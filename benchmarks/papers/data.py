"""The published data sets: read from where they are, never part of the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class DataSet(NamedTuple):
    X: NDArray[np.float64]
    y: NDArray[np.int8]
    permutations: NDArray[np.integer]
    """The authors' orders, a row each."""


def folder(given: Path | None) -> Path | None:
    """`--data`, else `SLUICEWAY_DATA`, if it is there."""
    named = given or (Path(os.environ["SLUICEWAY_DATA"]) if "SLUICEWAY_DATA" in os.environ else None)
    return named if named is not None and named.is_dir() else None


def load(path: Path) -> DataSet:
    with np.load(path) as arrays:
        return DataSet(arrays["X"].astype(np.float64), arrays["y"].astype(np.int8), arrays["permutations"])


def standardised(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """As the OFS authors did: each feature to mean 0 and deviation 1 over the whole set, each row to length 1."""
    deviation = X.std(axis=0, ddof=1)
    Z = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    length = np.linalg.norm(Z, axis=1, keepdims=True)
    return np.asarray(Z / np.where(length > 0, length, 1.0))
