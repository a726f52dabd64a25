"""Scaling of rows before a learner sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel
from sluiceway.schemas.batch import InstanceBatch

Scale = Literal["none", "l2", "rms-l2", "standard"]


def scaled(batch: InstanceBatch, scale: Scale) -> InstanceBatch:
    """The batch with each row at L2 norm 1 (`l2`), or as it is (`none`); a row of zeros stays."""
    if scale == "none":
        return batch
    return replace(batch, values=_unit_rows(batch.indptr, batch.values))


def warm_up() -> None:
    """Load or compile the kernel."""
    _unit_rows(np.zeros(1, dtype=np.int64), np.empty(0))


@allocating_kernel
def _unit_rows(indptr: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    unit = np.empty_like(values)
    for row in range(len(indptr) - 1):
        largest = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            largest = max(largest, abs(values[at]))
        if largest == 0.0:
            unit[indptr[row] : indptr[row + 1]] = 0.0
            continue
        # squares of very large or very small values leave the range of floats: bring the largest near 1 first
        shift = 1.0 if 1e-140 < largest < 1e140 else largest
        squares = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            squares += (values[at] / shift) * (values[at] / shift)
        norm = np.sqrt(squares)
        for at in range(indptr[row], indptr[row + 1]):
            unit[at] = (values[at] / shift) / norm
    return unit
