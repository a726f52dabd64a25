"""SAOLA's rule for a new feature F and a selected one Y, from their relevances and how they depend on each other."""

from __future__ import annotations

from sluiceway.compiling import allocating_kernel

BOTH_STAY, DISCARD_F, REMOVE_Y = 0, 1, 2


@allocating_kernel
def compare(dep_F: float, dep_Y: float, v: float, same: bool, largest: bool, strict: bool) -> int:
    """`v` = dep(F, Y); `same`: the two determine each other; δ₂ is the smaller relevance, or the `largest`."""
    bound = max(dep_F, dep_Y) if largest else min(dep_F, dep_Y)
    if v > bound or (same and not strict):
        if dep_Y > dep_F or (dep_Y == dep_F and not strict):
            return DISCARD_F
        if dep_F > dep_Y:
            return REMOVE_Y
    return BOTH_STAY
