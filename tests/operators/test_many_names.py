"""With so many names that memory is asked for ahead, learners are what they are with few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sluiceway.operators import registry
from sluiceway.operators.kernels.prefetch import MANY
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.schemas.batch import InstanceBatch

LEARNERS = [name for name, entry in registry.OPERATORS.items() if entry.kind is LEARNER]
ROWS, NON_ZEROS = 60, 8


def rows_of(names: tuple[str, ...], columns: np.ndarray[Any, Any]) -> InstanceBatch:
    rng = np.random.default_rng(1)
    values, y = rng.normal(size=columns.size), rng.choice([-1, 0, 1], p=[0.45, 0.1, 0.45], size=ROWS)
    return InstanceBatch.from_csr(np.arange(ROWS + 1) * NON_ZEROS, columns.ravel(), values, y, names=names)


@pytest.mark.parametrize("name", LEARNERS)
def test_as_with_few(name: str) -> None:
    """The same rows: once among many names, of which the others never come, and once with no other name."""
    names = tuple(map(str, range(2 * MANY)))
    rng = np.random.default_rng(0)
    used = rng.choice(len(names), 40, replace=False)
    at = np.array([rng.choice(40, NON_ZEROS, replace=False) for _ in range(ROWS)])
    cls: Any = registry.learner(name)
    params = {"k": 10} if registry.needs(name, "k") else {}
    among_many, alone = cls(**params), cls(**params)
    many, few = rows_of(names, used[at]), rows_of(tuple(names[i] for i in used), at)
    assert np.array_equal(among_many.prequential(many), alone.prequential(few))
    assert among_many.state() == alone.state()
