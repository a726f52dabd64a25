"""An instance selector where a learner is expected: it learns and selects, and scores nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.contract import InstanceSelector, Selected
from sluiceway.schemas.batch import InstanceBatch


class Unscored:
    """What a stream needs of a learner, from an instance selector."""

    def __init__(self, selector: InstanceSelector) -> None:
        self._selector = selector

    @property
    def params(self) -> dict[str, Any]:
        return self._selector.params

    @property
    def version(self) -> int:
        return self._selector.version

    @property
    def selected(self) -> list[Selected]:
        return self._selector.selected

    def metrics(self) -> dict[str, float]:
        return self._selector.metrics()

    def wanted_features(self) -> None:
        return None

    def advance(
        self, batch: InstanceBatch, start: int, stop: int, scores: NDArray[np.float64], *, until_change: bool = False
    ) -> int:
        scores[start:stop] = 0.0
        return self._selector.advance(batch, start, stop, until_change=until_change)

    def state(self) -> dict[str, Any]:
        return self._selector.state()

    @classmethod
    def restored(cls, selector_class: type[InstanceSelector], state: Mapping[str, Any]) -> Self:
        return cls(selector_class.from_state(state))
