"""Point-based backups: planes that are never below what it costs to go on, and exact where they were made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import allocating_kernel


@allocating_kernel
def back_up(
    table: NDArray[np.float64], cost: float, misclassification: NDArray[np.float64], later: NDArray[np.float64],
    beliefs: NDArray[np.float64], planes: NDArray[np.float64],
) -> None:  # fmt: skip
    """planes[:, b] = cost + Σ_v P_v ∘ α*, α* the least of {M_j} and the planes of the stage after at P_v ∘ beliefs[b].

    `table`: [bin, class]; `later`, `planes`: [class, plane].
    """
    classes, points = len(misclassification), later.shape[1]
    reached, sums, best_plane = np.zeros(classes), np.zeros(points), np.zeros(classes)
    for b in range(len(beliefs)):
        for i in range(classes):
            planes[i, b] = cost
        for v in range(len(table)):
            for i in range(classes):
                reached[i] = table[v, i] * beliefs[b, i]
            least = np.inf
            for j in range(classes):
                risk = 0.0
                for i in range(classes):
                    risk += misclassification[i, j] * reached[i]
                if risk < least:
                    least = risk
                    for i in range(classes):
                        best_plane[i] = misclassification[i, j]
            for p in range(points):
                sums[p] = 0.0
            for i in range(classes):
                weight = reached[i]
                for p in range(points):
                    sums[p] += weight * later[i, p]
            best = -1
            for p in range(points):
                if sums[p] < least:
                    best, least = p, sums[p]
            if best >= 0:
                for i in range(classes):
                    best_plane[i] = later[i, best]
            for i in range(classes):
                planes[i, b] += table[v, i] * best_plane[i]
