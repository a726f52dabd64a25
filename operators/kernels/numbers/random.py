"""Counter-based random numbers: each is a function of (seed, instance, purpose, counter), with no state.

mix64 is the finaliser of splitmix64 (Steele, Lea, Flood 2014), a bijection of 64 bits.
"""

from __future__ import annotations

import numpy as np

from sluiceway.compiling import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@kernel
def mix64(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@kernel
def stream_of(seed: int, instance: int, purpose: int) -> np.uint64:
    """Where the draws of one instance for one purpose start."""
    z = mix64(np.uint64(seed) + _GOLDEN)
    z = mix64(z + np.uint64(instance) * _GOLDEN)
    return mix64(z + np.uint64(purpose) * _GOLDEN)


@kernel
def draw(stream: np.uint64, counter: int) -> np.uint64:
    """64 random bits; different counters (or feature keys) of one stream never give the same."""
    return mix64(stream + np.uint64(counter) * _GOLDEN)


@kernel
def uniform(bits: np.uint64) -> float:
    """In [0, 1), a multiple of 2**-53."""
    return float(bits >> np.uint64(11)) * 2.0**-53
