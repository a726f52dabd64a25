"""Projection onto a ball around 0: w <- min(1, R / ‖w‖₂) w."""

from __future__ import annotations

import numpy as np

from sluiceway.compiling import kernel
from sluiceway.operators.kernels.sparse.slots import Model, norm, scale


@kernel
def project(m: Model, entrants: int, radius: float) -> None:
    length = norm(m, entrants)
    outside = length > radius
    if length == np.inf:  # the squares left the range of floats, the weights did not
        scale(m, entrants, 2.0**-600)
        length = norm(m, entrants)
    if outside:
        scale(m, entrants, radius / length)
