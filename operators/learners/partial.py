"""What learners share that look at few features of an instance and say beforehand at which; no algorithm."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import is_compiled
from sluiceway.operators.kernels.keys import feature_keys
from sluiceway.operators.kernels.sparse.sampling import choose, explores, new_sample
from sluiceway.operators.kernels.sparse.slots import Rows
from sluiceway.operators.learners.counting import CountingLearner
from sluiceway.operators.parameters import count, random_seed


class PartialLearner(CountingLearner):
    """A `CountingLearner` that chooses the features of the coming instance; its state also holds their names."""

    k: int = count("how many features of an instance are looked at, and how many weights may differ from 0")
    seed: int = random_seed()

    def _begin(self) -> None:
        super()._begin()
        self._features: list[str] = []  # by number, as far as they have been asked for
        self._asked: tuple[int, frozenset[str] | None] = (0, frozenset())
        self._sample = new_sample(self.k, 0)

    @abstractmethod
    def explores(self, instance: int) -> bool:
        """Whether that instance is asked for a random set of features, not for those that have a weight."""

    @abstractmethod
    def rule(self) -> Any:
        """What the kernel must know of the other hyper-parameters: a named tuple."""

    def _learn_counted(self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool) -> int:
        row: int = type(self).KERNEL(
            rows, start, stop, self._model, scores, until_change,
            self._seen, self.max_features, self._sample, self.k, self.seed, self.rule(),
        )  # fmt: skip
        return row

    @classmethod
    def is_compiled(cls) -> bool:
        return super().is_compiled() and is_compiled(explores) and is_compiled(choose)

    @classmethod
    def compile(cls) -> None:
        model = cls(k=1, seed=0, max_features=1)
        model.learn_one({"0": 1.0}, 1)
        explores(0, 1, 0.5)
        choose(model._sample, 0, 2, 1, 1)

    def wanted_features(self) -> list[str]:
        """The features that the coming instance is asked for: all others in it are not looked at.

        They hold until the next labelled instance. Features that nobody has sent yet cannot be wanted: a producer that
        sends only these must send an instance whole when it has new ones.
        """
        if not self.explores(self.version + 1):
            return [feature for feature, _, _ in self.selected]
        self._settle_features()
        choose(self._sample, self.seed, self.version + 1, self.k, len(self._features))
        numbers = np.sort(self._sample.numbers[: self._sample.head["chosen"][0]])
        return [self._features[number] for number in numbers.tolist()]

    def state(self) -> dict[str, Any]:
        self._settle_features()
        state = super().state()
        del state["seen"]  # follows from the names
        return state | {"features": list(self._features)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        keys = feature_keys(state["features"])
        super()._restore({**state, "seen": keys.astype("<i8", copy=False).tobytes()})
        self._features = list(state["features"])

    def _weight_in(self, slot: int) -> float:
        version, chosen = self._asked
        if version != self.version + 1:
            chosen = frozenset(self.wanted_features()) if self.explores(self.version + 1) else None
            self._asked = self.version + 1, chosen
        return super()._weight_in(slot) if chosen is None or self._names[slot] in chosen else 0.0

    def _bind(self, names: tuple[str, ...]) -> None:
        self._settle_features()
        super()._bind(names)

    def _settle_features(self) -> None:
        """Those that have come from the batch since."""
        have = len(self._features)
        if have < self._model.head["features"][0]:
            new = np.flatnonzero(self._seen.known > have)
            order = np.argsort(self._seen.known[new])
            self._features += [self._bound[at] for at in new[order].tolist()]

    def _grow_seen(self, room: int) -> None:
        super()._grow_seen(room)
        self._sample = new_sample(self.k, room)
