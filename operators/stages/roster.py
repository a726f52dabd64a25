"""Which stream has which model of the bank: of those that are awake, their names, births, and when each was touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_NOBODY = -1
_OVERHEAD = 280
"""Bytes of memory that a stream takes here beside its name."""


class Roster:
    """Moments are counted by whoever touches."""

    def __init__(self) -> None:
        self._models: dict[bytes, int] = {}
        self._names: list[bytes] = []
        """By model, as are these; -1: nobody has the model."""
        self.births: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._touched: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._letters = 0

    def __len__(self) -> int:
        return len(self._models)

    def __contains__(self, name: bytes) -> bool:
        return name in self._models

    @property
    def size(self) -> int:
        """Bytes of memory, roughly."""
        return _OVERHEAD * len(self._models) + self._letters

    def model(self, name: bytes) -> int | None:
        return self._models.get(name)

    def name(self, model: int) -> bytes:
        return self._names[model]

    def models(self, names: Sequence[bytes]) -> NDArray[np.int64]:
        """`KeyError` if one of them is not awake."""
        return np.fromiter(map(self._models.__getitem__, names), dtype=np.int64, count=len(names))

    def strangers(self, names: Sequence[bytes]) -> list[bytes]:
        """Those of them that are not awake."""
        known = self._models
        return [name for name in names if name not in known]

    def enrol(self, models: Sequence[int], names: Sequence[bytes], births: Sequence[int]) -> None:
        last = max(models, default=-1)
        if last >= len(self._names):
            room = max(64, 2 * last)
            self._names += [b""] * (room - len(self._names))
            self.births, self._touched = (
                np.concatenate((known, np.full(room - len(known), _NOBODY))) for known in (self.births, self._touched)
            )
        self._models.update(zip(names, models, strict=True))
        for model, name in zip(models, names, strict=True):
            self._names[model] = name
        self._letters += sum(map(len, names))
        self.births[np.array(models, dtype=np.int64)] = births

    def leave(self, models: Iterable[int]) -> None:
        for model in models:
            name, self._names[model] = self._names[model], b""
            del self._models[name]
            self._letters -= len(name)
            self.births[model] = self._touched[model] = _NOBODY

    def touch(self, models: NDArray[np.int64] | Sequence[int], moment: int) -> None:
        self._touched[models] = moment

    def untouched_since(self, moment: int) -> NDArray[np.int64]:
        """Models last touched at that moment or before it, the longest ago first."""
        models = np.flatnonzero((self._touched <= moment) & (self.births >= 0))
        return models[np.argsort(self._touched[models], kind="stable")]

    def born(self, first: int, stop: int) -> list[int]:
        """The models of those awake with births from `first` up to `stop`, in the order of their births."""
        models = np.flatnonzero((self.births >= first) & (self.births < stop))
        return [int(model) for model in models[np.argsort(self.births[models])]]
